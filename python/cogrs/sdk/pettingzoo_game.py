"""The two interfaces of PettingZoo as one: the agents to act, and the outcome of a step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cogrs.action_mask import ACTION_MASK, MaskLayout
from cogrs.sdk.space import carried, carried_mask, placeholder

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cogrs.info_key import InfoKey


class StepOutcome(NamedTuple):
    """The result of a step, by agent, without absent agents."""

    observations: Mapping[Any, Any]
    rewards: Mapping[Any, float]
    terminated: Mapping[Any, bool]
    truncated: Mapping[Any, bool]

    def over(self, agent: Any) -> bool:
        """Return whether it is over for an agent with this step."""
        return bool(self.terminated.get(agent) or self.truncated.get(agent))


class _ObservationConverter:
    """Observations as they are carried, each with the mask of its info."""

    def __init__(self, env: Any, info_keys: Sequence[InfoKey] = ()) -> None:
        self._env = env
        self._info_keys = info_keys
        self._layouts: dict[Any, MaskLayout] = {}
        self._infos_have_masks = False

    def of(self, agent: Any, observation: Any, info: Mapping[str, Any] | None) -> Any:
        """Return an observation; its own mask comes before that of the info.

        Raises:
            ValueError, TypeError: The mask does not fit the action space, or a value of the info
                its key; or the observation has a part with the key of an info.
        """
        shown = self._with_own_mask(agent, observation, info)
        return self._with_infos(agent, shown, info or {})

    def _with_infos(self, agent: Any, shown: Any, info: Mapping[str, Any]) -> Any:
        if not self._info_keys:
            return shown
        parts = shown if isinstance(shown, Mapping) else {"observation": shown}
        for key in self._info_keys:
            if key.key in parts:
                what = f"a part of the observation of {agent!r}"
                raise ValueError(f"info_keys: {key.key!r} is {what}, rename it by a wrapper")
        return {**parts, **{key.key: key.array(info) for key in self._info_keys}}

    def _with_own_mask(self, agent: Any, observation: Any, info: Mapping[str, Any] | None) -> Any:
        what = f"observation of {agent!r}"
        if isinstance(observation, Mapping) and ACTION_MASK in observation:
            own = observation[ACTION_MASK]
            if isinstance(own, Mapping | tuple | list) and self._layout(agent).size:
                observation = {**observation, ACTION_MASK: self._carried_mask(agent, own)}
            return carried(observation, what)
        shown = carried(observation, what)
        if info is None or ACTION_MASK not in info:
            return shown
        mask = self._carried_mask(agent, info[ACTION_MASK])
        self._infos_have_masks = True
        return shown if mask is None else _with_mask(shown, mask)

    def absent(self, agent: Any) -> Any:
        """Return a placeholder; no action is legal there."""
        try:
            shown = placeholder(self._env.observation_space(agent))
        except KeyError:  # an environment may know its spaces only once there are such agents
            return np.zeros(0, np.float32)
        if self._infos_have_masks and self._layout(agent).size:
            shown = _with_mask(shown, np.zeros(self._layout(agent).size, np.int8))
        return self._with_infos(agent, shown, {})

    def _layout(self, agent: Any) -> MaskLayout:
        if agent not in self._layouts:
            self._layouts[agent] = MaskLayout.of(self._env.action_space(agent))
        return self._layouts[agent]

    def _carried_mask(self, agent: Any, mask: Any) -> Any:
        try:
            return carried_mask(self._layout(agent), mask)
        except (ValueError, TypeError) as error:
            raise type(error)(f"mask of {agent!r}: {error}") from error


def _with_mask(shown: Any, mask: Any) -> Any:
    parts = shown if isinstance(shown, Mapping) else {"observation": shown}
    return {ACTION_MASK: mask, **parts}


class PettingZooGame(ABC):
    """An environment of either interface."""

    def __init__(self, env: Any, info_keys: Sequence[InfoKey] = ()) -> None:
        """Play this environment, whose observations have these values of infos too."""
        self.env = env
        self.asked: Sequence[Any] = ()
        """Agents whose actions the next step takes; empty when the episode is over."""
        self._observations = _ObservationConverter(env, info_keys)

    @property
    @abstractmethod
    def alive(self) -> Sequence[Any]:
        """Agents for which the episode goes on."""

    @abstractmethod
    def reset(self, seed: int | None) -> StepOutcome:
        """Start an episode."""

    @abstractmethod
    def step(self, actions: Mapping[Any, Any]) -> StepOutcome:
        """Step with the actions of the agents that were asked."""

    def absent(self, agent: Any) -> Any:
        """Return the observation of an agent that has not come yet."""
        return self._observations.absent(agent)


class _ParallelGame(PettingZooGame):
    @property
    def alive(self) -> Sequence[Any]:
        return self.asked

    def reset(self, seed: int | None) -> StepOutcome:
        observations, infos = self.env.reset(seed=seed)
        self.asked = tuple(self.env.agents)
        return StepOutcome(self._shown(observations, infos), {}, {}, {})

    def step(self, actions: Mapping[Any, Any]) -> StepOutcome:
        observations, rewards, terminated, truncated, infos = self.env.step(dict(actions))
        outcome = StepOutcome(self._shown(observations, infos), rewards, terminated, truncated)
        # Agents may come, and come back.
        self.asked = tuple(agent for agent in self.env.agents if not outcome.over(agent))
        return outcome

    def _shown(self, observations: Mapping[Any, Any], infos: Mapping[Any, Any]) -> dict[Any, Any]:
        return {
            agent: self._observations.of(agent, observation, infos.get(agent))
            for agent, observation in observations.items()
        }


class _AecGame(PettingZooGame):
    @property
    def alive(self) -> Sequence[Any]:
        env = self.env
        return [
            agent
            for agent in env.agents
            if not (env.terminations.get(agent) or env.truncations.get(agent))
        ]

    def reset(self, seed: int | None) -> StepOutcome:
        self.env.reset(seed=seed)
        self._skip_finished()
        return StepOutcome(self._shown(self.env.agents), {}, {}, {})

    def step(self, actions: Mapping[Any, Any]) -> StepOutcome:
        env = self.env
        (turn,) = self.asked
        env.step(actions[turn])
        self.asked = ()
        # Copies: skipping finished agents removes them and their entries.
        agents = list(env.agents)
        rewards, terminated = dict(env.rewards), dict(env.terminations)
        truncated = dict(env.truncations)
        observations = self._shown(agents)
        self._skip_finished()
        return StepOutcome(
            {**observations, **self._shown(env.agents)}, rewards, terminated, truncated
        )

    def absent(self, agent: Any) -> Any:
        return _with_turn(super().absent(agent), turn=False)

    def _skip_finished(self) -> None:
        """Remove finished agents in PettingZoo's way: by a step without an action."""
        env = self.env
        while env.agents and (
            env.terminations[env.agent_selection] or env.truncations[env.agent_selection]
        ):
            env.step(None)
        self.asked = (env.agent_selection,) if env.agents else ()

    def _shown(self, agents: Iterable[Any]) -> dict[Any, Any]:
        return {
            agent: _with_turn(
                self._observations.of(agent, self.env.observe(agent), self.env.infos.get(agent)),
                turn=agent in self.asked,
            )
            for agent in agents
        }


def _with_turn(shown: Any, *, turn: bool) -> dict[str, Any]:
    """Return an observation with `turn`; one that has such a part of its own is nested."""
    if not isinstance(shown, Mapping):
        return {"observation": shown, "turn": turn}
    if "turn" not in shown:
        return {**shown, "turn": turn}
    mask = {ACTION_MASK: shown[ACTION_MASK]} if ACTION_MASK in shown else {}
    return {"observation": shown, **mask, "turn": turn}


def game_of(env: Any, info_keys: Sequence[InfoKey] = ()) -> PettingZooGame:
    """Return the game of an environment; a TypeError if it is not one of PettingZoo."""
    methods = ("reset", "step", "observation_space", "action_space")
    if not all(callable(getattr(env, name, None)) for name in methods):
        kind = type(env).__name__
        raise TypeError(f"make: expected an environment of PettingZoo, got {kind}")
    return (_AecGame if hasattr(env, "agent_iter") else _ParallelGame)(env, info_keys)
