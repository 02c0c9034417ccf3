"""PettingZoo environments in trials."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from cogrs.sdk.environment import Environment, Update
from cogrs.sdk.frames import Frames
from cogrs.sdk.space import carried, fitting

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cogrs.sdk.trial import Trial


class PettingZooEnvironment(Environment):
    """One episode of a PettingZoo environment is one trial of its agents.

    Of the parallel interface, an actor observes what its agent does. Of the one with turns (AEC)
    it observes, at every turn of anybody, a mapping: `observation`, `turn`, whether it is its own
    turn, and `action_mask`, if the environment has one; whoever has no turn answers too, and the
    answer is ignored. Parts of a `Dict` space keep their names.

    Actors play the agents of their names, or, if no actor has an agent's name, the agents in their
    order. Whoever is finished is told so by the flags of its observation, is sent its last reward
    with that, and is not asked again: its answers are ignored until the others are finished too.
    """

    def __init__(
        self, make: Callable[[], Any], seed: int | None = None, *, frames_to: Sequence[str] = ()
    ) -> None:
        """Use the environment that `make` makes.

        Args:
            make: Called when the trial starts; makes an `AECEnv` or a `ParallelEnv`.
            seed: Seed of the episode; None leaves it to the environment. One seed for all trials
                makes the same episode of all: see `factory`.
            frames_to: Who is sent what `render` returns after each step, as a message: see
                `read_array_message`. Names as those of `Message`.
        """
        self._make = make
        self._seed = seed
        self._frames = Frames(frames_to)
        self._game: _Game | None = None
        self._actors: dict[str, str] = {}
        self._tick = 0
        self._seen: dict[str, Any] = {}

    @classmethod
    def factory(
        cls, make: Callable[[], Any], *, seed: int | None = None, frames_to: Sequence[str] = ()
    ) -> Callable[[], PettingZooEnvironment]:
        """Return what `serve` wants: makes an environment for each trial.

        Args:
            make: Makes an environment.
            seed: Seed of the first episode; each other one has the next number.
            frames_to: As of `PettingZooEnvironment`.
        """
        seeds = None if seed is None else count(seed)
        return lambda: cls(make, None if seeds is None else next(seeds), frames_to=frames_to)

    def start(self, trial: Trial) -> Update:
        """Make and reset the environment.

        Raises:
            ValueError: Actors and agents do not go together.
            TypeError: It is no environment of PettingZoo.
        """
        env = self._make()
        self._game = _Turns(env) if hasattr(env, "agent_iter") else _Parallel(env)
        outcome = self._game.reset(self._seed)
        # Some environments know their agents only after that.
        self._actors = _cast(trial.actor_names, list(env.possible_agents))
        self._frames.take(env, self._tick)
        return self._update(outcome)

    def step(self, actions: Mapping[str, Any]) -> Update:
        """Step the environment with the actions of those who are asked.

        Raises:
            ValueError: An action is none of its space, or is not legal.
            RuntimeError: The episode has not started, or is over.
        """
        game = self._running()
        played = {
            agent: self._action(actor, agent, actions[actor])
            for actor, agent in self._actors.items()
            if agent in game.asked
        }
        outcome = game.step(played)
        self._tick += 1
        self._frames.take(game.env, self._tick)
        update = self._update(outcome)
        update.rewards = {
            actor: float(outcome.rewards[agent])
            for actor, agent in self._actors.items()
            if agent in outcome.rewards
        }
        update.messages = self._frames.give()
        update.final = not game.asked
        if update.final:
            self._close()
        return update

    def end(self, actions: Mapping[str, Any]) -> Update:
        """Take the last actions, if all who are asked gave one; the episode is cut short there."""
        game = self._running()
        asked = [actor for actor, agent in self._actors.items() if agent in game.asked]
        if all(actor in actions for actor in asked):
            update = self.step(actions)
        else:
            update = Update(dict(self._seen), terminated={}, truncated={})
        over = dict(update.terminated) if isinstance(update.terminated, Mapping) else {}
        update.truncated = {actor: not over.get(actor, False) for actor in self._actors}
        self._close()
        return update

    def lost(self) -> None:
        """Close the environment."""
        self._close()

    def _action(self, actor: str, agent: str, action: Any) -> Any:
        env, what = self._running().env, f"action of {actor!r}"
        found = fitting(env.action_space(agent), action, what)
        seen = self._seen[actor]
        mask = seen.get("action_mask") if isinstance(seen, Mapping) else None
        if mask is not None and not mask[int(found)]:
            legal = [index for index, allowed in enumerate(mask) if allowed]
            raise ValueError(f"{what}: expected a legal one of {legal}, got {found}")
        return found

    def _update(self, outcome: _Outcome) -> Update:
        for actor, agent in self._actors.items():
            if agent in outcome.observations:
                self._seen[actor] = outcome.observations[agent]
            elif actor not in self._seen:
                raise ValueError(f"observations: expected one of {agent}, got none")
        by_actor = self._actors.items()
        return Update(
            dict(self._seen),
            terminated={actor: bool(outcome.terminated.get(agent)) for actor, agent in by_actor},
            truncated={actor: bool(outcome.truncated.get(agent)) for actor, agent in by_actor},
        )

    def _running(self) -> _Game:
        if self._game is None:
            raise RuntimeError("this episode has not started, or is over")
        return self._game

    def _close(self) -> None:
        game, self._game = self._game, None
        if game is not None:
            game.env.close()


def _cast(actors: Sequence[str], agents: Sequence[str]) -> dict[str, str]:
    """Return which agent each actor plays.

    Raises:
        ValueError: There is not one for each.
    """
    if len(actors) != len(agents) or (set(actors) & set(agents) and set(actors) != set(agents)):
        expected, got = ", ".join(agents), ", ".join(actors) or "none"
        raise ValueError(f"actors: expected one for each of {expected}; got {got}")
    if set(actors) == set(agents):
        return {actor: actor for actor in actors}
    return dict(zip(actors, agents, strict=True))


class _Outcome(NamedTuple):
    """What came of a step, by agent; finished agents are left out, but where they finish."""

    observations: Mapping[str, Any]
    rewards: Mapping[str, float]
    terminated: Mapping[str, bool]
    truncated: Mapping[str, bool]


class _Game(Protocol):
    """An environment of either interface."""

    env: Any
    asked: Sequence[str]
    """Agents whose actions the next step is of; none when the episode is over."""

    def reset(self, seed: int | None) -> _Outcome:
        """Begin an episode."""

    def step(self, actions: Mapping[str, Any]) -> _Outcome:
        """Do what those who were asked decided."""


class _Parallel:
    """All agents act at once."""

    def __init__(self, env: Any) -> None:
        if not hasattr(env, "possible_agents"):
            kind = type(env).__name__
            raise TypeError(f"make: expected an environment of PettingZoo, got {kind}")
        self.env = env
        self.asked: Sequence[str] = ()

    def reset(self, seed: int | None) -> _Outcome:
        observations, infos = self.env.reset(seed=seed)
        self.asked = tuple(self.env.agents)
        return _Outcome(_masked(observations, infos), {}, {}, {})

    def step(self, actions: Mapping[str, Any]) -> _Outcome:
        observations, rewards, terminated, truncated, infos = self.env.step(dict(actions))
        over = {agent for agent in self.asked if terminated.get(agent) or truncated.get(agent)}
        self.asked = tuple(agent for agent in self.env.agents if agent not in over)
        return _Outcome(_masked(observations, infos), rewards, terminated, truncated)


def _masked(observations: Mapping[str, Any], infos: Mapping[str, Any]) -> dict[str, Any]:
    return {
        agent: _with_mask(carried(observation), infos.get(agent) or {})
        for agent, observation in observations.items()
    }


def _with_mask(observation: Any, info: Mapping[str, Any]) -> Any:
    """Return an observation with the mask that its info has, unless it has one itself."""
    if "action_mask" not in info:
        return observation
    if isinstance(observation, Mapping):
        return {"action_mask": info["action_mask"], **observation}
    return {"observation": observation, "action_mask": info["action_mask"]}


class _Turns:
    """One agent after the other."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self.asked: Sequence[str] = ()

    def reset(self, seed: int | None) -> _Outcome:
        self.env.reset(seed=seed)
        self._skip_finished()
        return self._outcome({}, {}, {}, self.env.agents)

    def step(self, actions: Mapping[str, Any]) -> _Outcome:
        env = self.env
        (turn,) = self.asked
        env.step(actions[turn])
        # Copies: what follows has finished agents leave, and their entries with them.
        agents = list(env.agents)
        rewards, terminated = dict(env.rewards), dict(env.terminations)
        truncated = dict(env.truncations)
        observations = self._observations(agents)
        self._skip_finished()
        outcome = self._outcome(rewards, terminated, truncated, env.agents)
        return outcome._replace(observations={**observations, **outcome.observations})

    def _skip_finished(self) -> None:
        """Have finished agents leave, as PettingZoo wants it: by a step without an action."""
        env = self.env
        while env.agents and (
            env.terminations[env.agent_selection] or env.truncations[env.agent_selection]
        ):
            env.step(None)
        self.asked = (env.agent_selection,) if env.agents else ()

    def _outcome(
        self,
        rewards: Mapping[str, float],
        terminated: Mapping[str, bool],
        truncated: Mapping[str, bool],
        agents: Sequence[str],
    ) -> _Outcome:
        return _Outcome(self._observations(agents), rewards, terminated, truncated)

    def _observations(self, agents: Sequence[str]) -> dict[str, Any]:
        seen = {}
        for agent in agents:
            observation = _with_mask(
                carried(self.env.observe(agent)), self.env.infos.get(agent) or {}
            )
            if not isinstance(observation, Mapping):
                observation = {"observation": observation}
            seen[agent] = {**observation, "turn": agent in self.asked}
        return seen
