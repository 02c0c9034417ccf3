"""The replay memory of this package, in the form in which its peers are timed."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from peers import Buffer
from timing import Job
from workload import BURN_IN, DRAWN, EPISODE, EXPONENT, LEARNED, PERIOD, Workload, errors

import cogrs

EMPTY = np.zeros(0, np.float32)


class Memory(Buffer):
    """A `ReplayMemory` filled with closed episodes: int action, scalar floats, no info."""

    def __init__(self, load: Workload, limiter: cogrs.RateLimiter | None = None) -> None:
        """Fill a memory."""
        zero = np.float32(0)
        self.rem = cogrs.ReplayMemory(
            load.states[0],
            np.int64(0),
            *[zero] * 4,
            EMPTY,
            load.entries,
            seed=1,
            limiter=limiter,
        )
        self.rem.frame_stack = load.stack
        self.rem.priority_exponent = EXPONENT
        self.entry_size = self.rem.entry_size
        floats, info = load.floats, np.zeros((EPISODE, 0), np.float32)
        self.columns: Any = (load.states, load.actions, floats, floats, floats, info, 1.0)
        self.state = np.array(load.states[0])
        for _ in range(load.episodes):
            self.rem.add_episode(*self.columns)

    def add(self) -> Job:
        """Steps of an episode; opening and closing it is not timed."""
        add, state = self.rem.add_entry, self.state

        def run() -> None:
            for _ in range(EPISODE):
                add(state, 1, 1.0, 0.5, 0.3, EMPTY, 1.0)

        self.rem.new_episode()
        return Job(run, EPISODE, before=self._next_episode)

    def _next_episode(self) -> None:
        """Close the episode of the run before: `new_episode` alone would drop its entries."""
        self.rem.close_episode()
        self.rem.new_episode()

    def add_bulk(self) -> Job:
        """A closed episode, its returns and priorities computed."""
        return Job(lambda: self.rem.add_episode(*self.columns), EPISODE)

    def close(self) -> Job:
        """The end of an episode that was added in bulk."""

        def before() -> None:
            self.rem.new_episode()
            self.rem.add_entries(*self.columns)

        return Job(self.rem.close_episode, before=before)

    def batch(self, size: int) -> Job:
        """Transitions with their sampling weights."""
        return Job(lambda: self.rem.get_batch(size))

    def sample(self, size: int, sampler: Any = "prioritized") -> Job:
        """Transitions with all that a sample has."""
        return Job(lambda: self.rem.sample(size, sampler=sampler))

    def batch_into(self, size: int) -> Job:
        """The same, into arrays that are ready."""
        out = self.rem.get_batch(size)
        return Job(lambda: self.rem.get_batch(size, out=out))

    def sequences(self, count: int) -> Job:
        """Sequences with burn-in, all fields, masks and ids."""
        draw = self.rem.sample_sequences
        draw(count, LEARNED, burn_in=BURN_IN, period=PERIOD)  # makes the anchors
        return Job(lambda: draw(count, LEARNED, burn_in=BURN_IN, period=PERIOD))

    def update(self, size: int) -> Job:
        """By id."""
        drawn = itertools.cycle([self.rem.sample(size).id for _ in range(DRAWN)])
        new = errors(size)
        return Job(lambda: self.rem.update_priority(next(drawn), next(new)), size)

    def late_reward(self) -> Job:
        """To the middle of episodes all over the memory, another one each time."""
        rng = np.random.default_rng(0)
        episodes = rng.choice(self.rem.num_episode(), DRAWN, replace=False)
        ids = itertools.cycle([int(self.rem.episode(int(k)).id[EPISODE // 2]) for k in episodes])
        return Job(lambda: self.rem.add_reward(next(ids), 0.01))


def vectors(load: Workload) -> Memory:
    """A full memory of W1."""
    return Memory(load)


def frames(load: Workload) -> Memory:
    """A full memory of W2."""
    return Memory(load)
