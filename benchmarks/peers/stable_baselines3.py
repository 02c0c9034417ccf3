"""Stable-Baselines3: NumPy arrays; it draws uniformly, so only adding is compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.buffers import ReplayBuffer
from timing import Job

from peers import Buffer

if TYPE_CHECKING:
    from workload import Workload

NAME = "SB3"


class _Uniform(Buffer):
    """A `ReplayBuffer` of one environment, as its algorithms make it, with every page touched."""

    def __init__(self, load: Workload) -> None:
        state = load.states[0]
        low, high = (0, 255) if state.dtype == np.uint8 else (-np.inf, np.inf)
        space = spaces.Box(low, high, state.shape, state.dtype.type)
        self.state = state
        self.entry_size = state.nbytes + 8 + 4 + 4 + 4
        self.buffer = ReplayBuffer(load.entries, space, spaces.Discrete(2), "cpu")
        for column in ("observations", "next_observations", "actions", "rewards", "dones"):
            getattr(self.buffer, column)[:] = 1
        self.buffer.full = True

    def add(self) -> Job:
        """One step of a vector of one environment."""
        add, obs = self.buffer.add, self.state[None]
        action, reward, done = np.array([1]), np.array([1.0]), np.array([False])
        infos = [{"TimeLimit.truncated": False}]

        def run() -> None:
            for _ in range(100):
                add(obs, obs, action, reward, done, infos)

        return Job(run, 100)


def vectors(load: Workload) -> Buffer:
    """State and next state, both stored."""
    return _Uniform(load)


def frames(load: Workload) -> Buffer:
    """Single frames and next frames: a stack of four would be four times the bytes."""
    return _Uniform(load)
