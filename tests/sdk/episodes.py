"""Episodes of Gymnasium environments, in trials and outside of them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces

from tests.sdk.net import Echo

if TYPE_CHECKING:
    from cogrs import sdk


class Cyclic(Echo):
    """Repeats a few actions, and writes down what it is told."""

    def __init__(self, told: Any, actions: tuple[int, ...] = (0, 1, 1, 0, 1)) -> None:
        super().__init__(told)
        self.actions = itertools.cycle(actions)

    def act(self, observation: sdk.Observation) -> Any:
        super().act(observation)
        return next(self.actions)


def alone(
    name: str, actions: tuple[int, ...], seed: int, steps: int = 10_000, **options: Any
) -> tuple[list[Any], list[float], bool, bool]:
    """Observations, rewards and flags of an episode without a trial."""
    env = gymnasium.make(name, **options)
    observations = [env.reset(seed=seed)[0]]
    gained: list[float] = []
    terminated = truncated = False
    for action in itertools.islice(itertools.cycle(actions), steps):
        observation, reward, terminated, truncated, _ = env.step(action)
        observations.append(observation)
        gained.append(float(reward))
        if terminated or truncated:
            break
    env.close()
    return observations, gained, bool(terminated), bool(truncated)


def info_of(step: int) -> dict[str, Any]:
    """Infos at odd steps, others at the end."""
    infos: dict[int, dict[str, Any]] = {
        1: {"pose": [0.5, 1], "is_success": False},
        3: {"is_success": True, "episode": {"r": 7.5}},
    }
    return infos.get(step, {"unknown": object()})


class Telling(gymnasium.Env[Any, Any]):
    """Three steps with `info_of`."""

    observation_space = spaces.Discrete(10)
    action_space = spaces.Discrete(2)

    def __init__(self, odd: Any = None) -> None:
        self.odd = odd

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.steps = 0
        return 0, {**info_of(0), "action_mask": np.array([1, 0], np.int8)}

    def step(self, action: Any) -> Any:
        self.steps += 1
        info = info_of(self.steps) if self.odd is None else self.odd
        mask = {"action_mask": np.array([1, 0], np.int8)}
        return self.steps, 1.0, self.steps == 3, False, {**mask, **info}
