"""A PettingZoo environment of two agents, for commands that name it."""

from __future__ import annotations

from typing import Any

import gymnasium
import pettingzoo


class Two(pettingzoo.ParallelEnv):  # type: ignore[misc]
    """Agents `a` and `b` play three steps."""

    metadata = {"name": "two"}  # noqa: RUF012
    possible_agents = ["a", "b"]  # noqa: RUF012

    def observation_space(self, agent: str) -> Any:
        return gymnasium.spaces.Discrete(10)

    def action_space(self, agent: str) -> Any:
        return gymnasium.spaces.Discrete(2)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents, self.tick = ["a", "b"], 0
        return {"a": 0, "b": 0}, {"a": {}, "b": {}}

    def step(self, actions: Any) -> Any:
        self.tick += 1
        here = list(self.agents)
        if self.tick == 3:
            self.agents = []
        flags = dict.fromkeys(here, self.tick == 3)
        none = dict.fromkeys(here, False)
        return (
            dict.fromkeys(here, self.tick),
            dict.fromkeys(here, 1.0),
            flags,
            none,
            {agent: {} for agent in here},
        )
