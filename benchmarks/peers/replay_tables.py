"""ReplayTables: sum tree and bookkeeping compiled, under NumPy; steps are added one by one."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
from ReplayTables.interface import Timestep
from ReplayTables.PER import PERConfig, PrioritizedReplay
from timing import Job
from workload import DRAWN, EXPONENT, Workload, errors

from peers import Buffer

NAME = "ReplayTables"


class _Prioritized(Buffer):
    """A `PrioritizedReplay` of one-step transitions."""

    def __init__(self, load: Workload) -> None:
        """Fill a buffer, step by step: it knows no other way."""
        config = PERConfig(priority_exponent=EXPONENT)
        self.buffer = PrioritizedReplay(load.entries, 1, np.random.default_rng(0), config)
        self.state = load.states[0]
        self.entry_size = self.state.nbytes + 8 + 8 + 8 + 1
        for _ in range(load.episodes):
            for state, priority in zip(load.states, load.priorities, strict=True):
                self.buffer.add_step(Timestep(state, 1, 1.0, 0.99, False, {"priority": priority}))
        with warnings.catch_warnings():
            # Its first look at NumPy's old names, which it says once.
            warnings.simplefilter("ignore")
            self.buffer.sample(1)

    def add(self) -> Job:
        """One step; priorities of new ones are the largest so far."""
        add, state = self.buffer.add_step, self.state

        def run() -> None:
            for _ in range(100):
                add(Timestep(state, 1, 1.0, 0.99, False))

        return Job(run, 100)

    def batch(self, size: int) -> Job:
        """Transitions without a weight: `isr_weights` would be another call."""
        return Job(lambda: self.buffer.sample(size))

    def update(self, size: int) -> Job:
        """By the batch that was drawn."""
        drawn: Any = itertools.cycle([self.buffer.sample(size) for _ in range(DRAWN)])
        new = errors(size)
        return Job(lambda: self.buffer.update_priorities(next(drawn), next(new)), size)


def vectors(load: Workload) -> Buffer:
    """States are stored once, for a step and as the one before's next."""
    return _Prioritized(load)


def frames(load: Workload) -> None:
    """It stacks nothing by itself, and would keep each frame four times."""
    del load
