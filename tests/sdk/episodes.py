"""Episodes of Gymnasium environments, in trials and outside of them."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import gymnasium

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
