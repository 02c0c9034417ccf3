"""Environments of PettingZoo for tests, which worker processes import too."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv

AGENTS = ["red", "green", "blue"]

PLANS = [
    # Agents, step by step: one dies, one is born late, one returns; then all are gone.
    [{"red", "green"}, {"green"}, {"green", "blue"}, {"red", "blue"}, {"red"}],
    [{"red", "green", "blue"}],
    [{"blue"}, {"red", "green", "blue"}, {"red", "green", "blue"}],
]
"""The agents at each step, for the episodes of a game in turn."""


def reward_of(step: int, agent: str) -> float:
    return step + AGENTS.index(agent) / 4


def is_cut(step: int, agent: str) -> bool:
    """Whether the end of an agent at this step is a truncation."""
    return (step + AGENTS.index(agent)) % 2 == 0


class Changing(ParallelEnv[str, Any, Any]):
    """Agents come and go by `PLANS`; observes episode, step and agent."""

    metadata = {"name": "changing"}  # noqa: RUF012

    def __init__(self, plans: Any = PLANS, odd: str = "") -> None:
        self.possible_agents = list(AGENTS)
        self.plans = plans
        self.odd = odd
        self.episode = -1
        self.seen: list[dict[str, Any]] = []

    def observation_space(self, agent: str) -> Any:
        return spaces.Box(-100, 100, (3,), np.float32)

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(4, start=1)

    def present(self, step: int) -> list[str]:
        plan = self.plans[self.episode % len(self.plans)]
        there = plan[step] if step < len(plan) else ()
        return [agent for agent in self.possible_agents if agent in there]

    def observed(self, agent: str) -> Any:
        return np.array([self.episode, self.steps, AGENTS.index(agent)], np.float32)

    def told(self, agent: str) -> dict[str, Any]:
        mask = np.arange(4) >= self.steps % 4
        return {"action_mask": mask, "level": self.steps} if self.steps else {}

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        assert seed is not None
        self.episode += 1
        self.steps = 0
        self.agents = self.present(0)
        shown = {agent: self.observed(agent) for agent in self.agents}
        return shown, {agent: self.told(agent) for agent in self.agents}

    def step(self, actions: Any) -> Any:
        assert set(actions) == set(self.agents), (actions, self.agents)
        self.steps += 1
        if self.odd == "raises" and self.steps == 2:
            raise ZeroDivisionError("told to")
        if self.odd == "exits" and self.steps == 2:
            os._exit(7)
        before, self.agents = self.agents, self.present(self.steps)
        if self.odd == "stranger":
            self.agents = ["violet"]
        gone = [agent for agent in before if agent not in self.agents]
        shown = {
            agent: self.observed(agent) for agent in (*before, *self.agents) if agent in AGENTS
        }
        if self.odd == "unseen":
            shown.clear()
        flagged = [] if self.odd == "silent" else gone
        return (
            {**shown, **({"violet": self.observed("red")} if self.odd == "stranger" else {})},
            {agent: reward_of(self.steps, agent) + actions[agent] for agent in before},
            {agent: agent in flagged and not is_cut(self.steps, agent) for agent in shown},
            {agent: agent in flagged and is_cut(self.steps, agent) for agent in shown},
            {agent: self.told(agent) for agent in shown},
        )


def raising() -> Changing:
    return Changing(odd="raises")


def exiting() -> Changing:
    return Changing(odd="exits")


class Countdown(AECEnv[str, Any, Any]):
    """Agents have turns in order, and die one after the other; a dead one may return once."""

    metadata = {"name": "countdown"}  # noqa: RUF012

    def __init__(self, lives: tuple[int, ...] = (3, 1, 2)) -> None:
        self.possible_agents = list(AGENTS)
        self.lives = lives

    def observation_space(self, agent: str) -> Any:
        return spaces.Dict(
            {
                "observation": spaces.Box(0, 1000, (2,), np.int32),
                "action_mask": spaces.MultiBinary(3),
            }
        )

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(3)

    def observe(self, agent: str) -> Any:
        # The same memory for all: an observation that is not copied in time shows the next turn.
        self.memory[:] = self.turns, AGENTS.index(agent)
        return {
            "observation": self.memory,
            "action_mask": np.array([1, 1, self.turns % 2], np.int8),
        }

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self.memory = np.zeros(2, np.int32)
        self.turns = 0
        self.agents = list(AGENTS)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, Any] = {agent: {} for agent in self.agents}
        self.left = dict(zip(AGENTS, self.lives, strict=True))
        self.returned = False
        self.agent_selection = self.agents[0]

    def step(self, action: Any) -> None:
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            if not self.returned and self.agents and len(self.agents) == 1:
                self.returned = True
                self.add("red" if "green" in self.agents else "green")
            return
        self.turns += 1
        self._cumulative_rewards[agent] = 0.0
        self.rewards = {each: float(self.turns) for each in self.agents}
        self.rewards[agent] = float(action)
        self.left[agent] -= 1
        if self.left[agent] == 0:
            self.truncations[agent] = is_cut(0, agent)
            self.terminations[agent] = not is_cut(0, agent)
        following = self.agents.index(agent) + 1
        self.agent_selection = self.agents[following % len(self.agents)]
        self._accumulate_rewards()
        self._deads_step_first()

    def add(self, agent: str) -> None:
        self.agents.append(agent)
        self.left[agent] = 2
        self.rewards[agent] = self._cumulative_rewards[agent] = 0.0
        self.terminations[agent] = self.truncations[agent] = False
        self.infos[agent] = {}


class Wandering(AECEnv[str, Any, Any]):
    """The turn goes to any agent, also to the same one twice; agents die, are born and return.

    With `silent`, agents are also removed inside a step of another, with their flags or without.
    """

    metadata = {"name": "wandering"}  # noqa: RUF012

    def __init__(self, seed: int, silent: bool = False) -> None:
        self.possible_agents = list(AGENTS)
        self.seed, self.silent = seed, silent
        self.episode = 0

    def observation_space(self, agent: str) -> Any:
        return spaces.Box(-100, 100, (3,), np.float32)

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(3)

    def observe(self, agent: str) -> Any:
        return np.array([self.episode, self.turns, AGENTS.index(agent)], np.float32)

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self.episode += 1
        self.turns = 0
        self.chance = np.random.default_rng([self.seed, self.episode])
        self.agents: list[str] = []
        self.rewards: dict[str, float] = {}
        self._cumulative_rewards: dict[str, float] = {}
        self.terminations: dict[str, bool] = {}
        self.truncations: dict[str, bool] = {}
        self.infos: dict[str, Any] = {}
        for agent in AGENTS[: self.chance.integers(1, 4)]:
            self.add(agent)
        self._skip_agent_selection = None
        self.choose()

    def add(self, agent: str) -> None:
        self.agents.append(agent)
        self.rewards[agent] = self._cumulative_rewards[agent] = 0.0
        self.terminations[agent] = self.truncations[agent] = False
        self.infos[agent] = {}

    def choose(self) -> None:
        if self.agents:
            self.agent_selection = str(self.chance.choice(self.agents))

    def happens(self, probability: float) -> bool:
        return bool(self.chance.random() < probability)

    def step(self, action: Any) -> None:
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            if self.agent_selection not in self.agents:
                self.choose()
            return
        self.turns += 1
        self._cumulative_rewards[agent] = 0.0
        late = self.turns > 20
        for each in self.agents:
            self.rewards[each] = float(self.chance.integers(-3, 4)) + action
            if self.happens(0.7 if late else 0.1):
                self.terminations[each] = self.happens(0.7)
                self.truncations[each] = not self.terminations[each] or self.happens(0.3)
        self._accumulate_rewards()
        absent = [each for each in AGENTS if each not in self.agents]
        if absent and self.happens(0.2) and not late:
            self.add(absent[0])
        if self.silent and self.happens(0.2):
            gone = str(self.chance.choice(self.agents))
            self.agents.remove(gone)
            del self.rewards[gone]
            if self.happens(0.5):
                for about in (self._cumulative_rewards, self.terminations, self.truncations):
                    del about[gone]
        self.choose()
        if self.happens(0.7):
            self._deads_step_first()
