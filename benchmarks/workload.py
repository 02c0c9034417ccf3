"""What is stored: the two workloads, the same arrays for all."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Iterator

EPISODE = 1_000
"""Steps of an episode."""
EXPONENT = 0.6
"""Exponent of the priorities, for all."""
BETA = 0.4
"""Exponent of the importance weights, for those that return such weights."""
LEARNED, BURN_IN, PERIOD = 80, 40, 40
"""Steps of sequences, as of R2D2."""
DRAWN = 64
"""Sets of leaves whose priorities are updated, one after the other."""


@dataclass(frozen=True)
class Workload:
    """An episode that is added again and again until `entries` are held.

    Attributes:
        entries: Entries held when full.
        stack: Consecutive states that make an observation.
        states: (EPISODE, *state).
        actions: int64 (EPISODE,).
        floats: float32 (EPISODE,): what stands for rewards, probs and values.
        priorities: float64 (EPISODE,), above 0.
    """

    entries: int
    stack: int
    states: npt.NDArray[np.generic]
    actions: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(EPISODE, np.int64))
    floats: npt.NDArray[np.float32] = field(
        default_factory=lambda: np.random.default_rng(1).random(EPISODE, np.float32)
    )
    priorities: npt.NDArray[np.float64] = field(
        default_factory=lambda: np.random.default_rng(2).random(EPISODE) + 0.01
    )

    @property
    def episodes(self) -> int:
        """Episodes held when full."""
        return self.entries // EPISODE


def vectors(entries: int = 1_000_000) -> Workload:
    """W1: states of four floats."""
    return Workload(entries, 1, np.random.default_rng(0).random((EPISODE, 4), np.float32))


def frames(entries: int = 50_000) -> Workload:
    """W2: frames of 84 x 84 bytes, in stacks of four."""
    states = np.random.default_rng(0).integers(0, 255, (EPISODE, 84, 84), np.uint8)
    return Workload(entries, 4, states)


def errors(size: int) -> Iterator[npt.NDArray[np.float64]]:
    """New priorities for ever, float64 (size,).

    They differ from those that the same leaves got before: cpprb passes over what is unchanged,
    which is not the case of a learner.
    """
    rng = np.random.default_rng(0)
    return itertools.cycle([rng.random(size) for _ in range(DRAWN + 1)])
