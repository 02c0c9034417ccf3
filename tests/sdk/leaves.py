"""A small PettingZoo environment, whose agents do not leave together."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pettingzoo


class Leaves(pettingzoo.ParallelEnv):  # type: ignore[misc]
    """Agent `b` is finished after a step, `a` after three; all gain 1 a step."""

    metadata = {"name": "leaves"}  # noqa: RUF012
    possible_agents = ["a", "b"]  # noqa: RUF012

    def observation_space(self, agent: str) -> Any:
        return gymnasium.spaces.Discrete(10)

    def action_space(self, agent: str) -> Any:
        return gymnasium.spaces.Discrete(2)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents, self.tick = ["a", "b"], 0
        return {"a": 0, "b": 0}, {"a": {}, "b": {}}

    def step(self, actions: Any) -> Any:
        assert set(actions) == set(self.agents)
        here, self.tick = list(self.agents), self.tick + 1
        over = {"a": self.tick == 3, "b": self.tick == 1}
        self.agents = [agent for agent in here if not over[agent]]
        return (
            dict.fromkeys(here, self.tick),
            dict.fromkeys(here, 1.0),
            {agent: over[agent] for agent in here},
            dict.fromkeys(here, False),
            {agent: {} for agent in here},
        )

    def render(self) -> Any:
        return np.full((2, 2, 3), self.tick, np.uint8)
