"""Gymnasium environments in trials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cogrs.sdk.environment import Update

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import gymnasium

    from cogrs.sdk.trial import Trial


class GymnasiumEnvironment:
    """One episode of a Gymnasium environment is one trial of one actor.

    The reward of a step arrives with the observation after it, and whether that is terminal, or the
    episode was cut short, lies in the observation's array message.
    """

    def __init__(
        self, make: Callable[[], gymnasium.Env[Any, Any]], seed: int | None = None
    ) -> None:
        """Use the environment that `make` makes.

        Args:
            make: Called when the trial starts.
            seed: Seed of the episode; None leaves it to the environment.
        """
        self._make = make
        self._seed = seed
        self._env: gymnasium.Env[Any, Any] | None = None
        self._actor = ""
        self._latest: Any = None

    def start(self, trial: Trial) -> Update:
        """Reset the environment.

        Raises:
            ValueError: The trial has not one actor.
        """
        if len(trial.actors) != 1:
            raise ValueError(f"trial: expected one actor, got {len(trial.actors)}")
        self._actor = trial.actors[0].name
        self._env = self._make()
        self._latest, _ = self._env.reset(seed=self._seed)
        return Update(self._latest)

    def step(self, actions: Mapping[str, Any]) -> Update:
        """Step the environment with the actor's action."""
        env = self._started()
        action = _fitting(env.action_space, actions[self._actor])
        self._latest, reward, terminated, truncated, _ = env.step(action)
        over = bool(terminated or truncated)
        if over:
            env.close()
        return Update(
            self._latest,
            rewards={self._actor: float(reward)},
            final=over,
            terminated=bool(terminated),
            truncated=bool(truncated),
        )

    def end(self, actions: Mapping[str, Any]) -> Update:
        """Take the last action, if there is one; the episode is cut short there."""
        env = self._started()
        update = self.step(actions) if actions else Update(self._latest)
        env.close()
        update.truncated = not update.terminated
        return update

    def _started(self) -> gymnasium.Env[Any, Any]:
        if self._env is None:
            raise RuntimeError("this environment has not started")
        return self._env


def _fitting(space: gymnasium.Space[Any], action: Any) -> Any:
    """Return an action as its space has it: a discrete one is a number, and no array."""
    fitting = action.item() if space.shape == () and hasattr(action, "item") else action
    if not space.contains(fitting):
        raise ValueError(f"action: expected one of {space}, got {action!r}")
    return fitting
