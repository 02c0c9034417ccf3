"""Tianshou: NumPy arrays in a `Batch`, a sum tree in numba; steps are added one by one."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from tianshou.data import Batch, PrioritizedReplayBuffer, ReplayBuffer
from timing import Job
from workload import BETA, DRAWN, EPISODE, EXPONENT, Workload, errors

from peers import Buffer

NAME = "tianshou"


class _Prioritized(Buffer):
    """A `PrioritizedReplayBuffer` filled from another buffer, with priorities set afterwards."""

    def __init__(self, load: Workload, **options: Any) -> None:
        """Fill a buffer; `options` are those of tianshou."""
        self.state = load.states[0]
        self.entry_size = self.state.nbytes + 8 + 8 + 1 + 1 + 1
        self.buffer = PrioritizedReplayBuffer(load.entries, EXPONENT, BETA, **options)
        done = np.zeros(EPISODE, bool)
        done[-1] = True
        columns: Any = {
            "obs": load.states,
            "act": load.actions,
            "rew": load.floats.astype(float),
            "terminated": done,
            "truncated": np.zeros(EPISODE, bool),
            "done": done,
        }
        if not options.get("ignore_obs_next"):
            columns["obs_next"] = np.roll(load.states, -1, axis=0)
        episode = ReplayBuffer(EPISODE, **options)
        episode.set_batch(Batch(columns))
        episode._size = EPISODE
        for _ in range(load.episodes):
            self.buffer.update_weight(self.buffer.update(episode), load.priorities)

    def add(self) -> Job:
        """One step, a `Batch` of its own each, as a collector makes them."""
        add, state = self.buffer.add, self.state

        def run() -> None:
            for _ in range(50):
                step: Any = Batch(
                    obs=state, act=1, rew=1.0, terminated=False, truncated=False, obs_next=state
                )
                add(step)

        return Job(run, 50)

    def batch(self, size: int) -> Job:
        """Transitions with importance weights, and their indices."""
        return Job(lambda: self.buffer.sample(size))

    def update(self, size: int) -> Job:
        """By index."""
        drawn = itertools.cycle([self.buffer.sample_indices(size) for _ in range(DRAWN)])
        new = errors(size)
        return Job(lambda: self.buffer.update_weight(next(drawn), next(new)), size)


def vectors(load: Workload) -> Buffer:
    """With a column of next observations, as is its default."""
    return _Prioritized(load)


def frames(load: Workload) -> Buffer:
    """Each frame once, stacked when drawn."""
    return _Prioritized(load, stack_num=load.stack, ignore_obs_next=True)
