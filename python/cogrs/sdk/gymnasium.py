"""Gymnasium environments in trials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cogrs.sdk.environment import Environment, Update

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import gymnasium

    from cogrs.sdk.trial import Trial


class GymnasiumEnvironment(Environment):
    """One episode of a Gymnasium environment is one trial of one actor.

    Observations have the dtype and shape of the observation space; a discrete one is an int64 of
    shape `()`. Actions may be of another dtype of the same kind than the action space's. The reward
    of a step arrives with the observation after it, and whether that is terminal, or the episode
    was cut short, lies in the observation's array message.
    """

    def __init__(
        self, make: Callable[[], gymnasium.Env[Any, Any]], seed: int | None = None
    ) -> None:
        """Use the environment that `make` makes.

        Args:
            make: Called when the trial starts.
            seed: Seed of the episode; None leaves it to the environment. One seed for all trials
                makes the same episode of all: `seed=next(seeds)` in the factory counts.
        """
        self._make = make
        self._seed = seed
        self._env: gymnasium.Env[Any, Any] | None = None
        self._actor = ""
        self._latest: Any = None

    def start(self, trial: Trial) -> Update:
        """Make and reset the environment.

        Raises:
            ValueError: The trial has not one actor.
        """
        if len(trial.actors) != 1:
            names = ", ".join(trial.actor_names) or "none"
            raise ValueError(f"actors: expected one, got {names}")
        self._actor = trial.actors[0].name
        self._env = self._make()
        self._latest, _ = self._env.reset(seed=self._seed)
        return Update(self._latest)

    def step(self, actions: Mapping[str, Any]) -> Update:
        """Step the environment with the actor's action.

        Raises:
            ValueError: The action is none of the action space.
            RuntimeError: The episode has not started, or is over.
        """
        env = self._running()
        action = _fitting(env.action_space, actions[self._actor], self._actor)
        self._latest, reward, terminated, truncated, _ = env.step(action)
        over = bool(terminated or truncated)
        if over:
            self._close()
        return Update(
            self._latest,
            rewards={self._actor: float(reward)},
            final=over,
            terminated=bool(terminated),
            truncated=bool(truncated),
        )

    def end(self, actions: Mapping[str, Any]) -> Update:
        """Take the last action, if there is one; the episode is cut short there."""
        update = self.step(actions) if self._actor in actions else Update(self._latest)
        update.truncated = not update.terminated
        self._close()
        return update

    def lost(self) -> None:
        """Close the environment."""
        self._close()

    def _running(self) -> gymnasium.Env[Any, Any]:
        if self._env is None:
            raise RuntimeError("this episode has not started, or is over")
        return self._env

    def _close(self) -> None:
        env, self._env = self._env, None
        if env is not None:
            env.close()


def _fitting(space: gymnasium.Space[Any], action: Any, actor: str) -> Any:
    """Return an action as its space has it: of its dtype, and a discrete one as a number."""
    fitting = action
    if isinstance(action, np.ndarray):
        if space.dtype is not None and np.can_cast(action.dtype, space.dtype, "same_kind"):
            fitting = action.astype(space.dtype)
        if space.shape == () and fitting.shape == ():
            fitting = fitting[()]
    if not space.contains(fitting):
        got = repr(action)
        if isinstance(action, np.ndarray):
            got = f"{action.dtype} {action.shape}: {np.array2string(action, threshold=10)}"
        raise ValueError(f"action of {actor!r}: expected one of {space}, got {got}")
    return fitting
