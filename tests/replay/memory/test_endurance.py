"""Random use of one memory for long: every draw is legal, and memory stays flat.

The short form takes a second; the long form runs for COGRS_FUZZ_SECONDS, 36000 for ten hours.
"""

from __future__ import annotations

import os
import random
import time
from typing import Any

import numpy as np

from cogrs import RateLimiter, ReplayMemory
from tests.replay.build import SOAK, TEMPLATES, UNIFORM, steps
from tests.replay.model import FIELDS
from tests.replay.network import resident_bytes

SECONDS = float(os.environ.get("COGRS_FUZZ_SECONDS", "600")) if SOAK else 0.5
MAX_STEP = 4_000
SAMPLERS = ("prioritized", "stratified", "uniform", "fifo", "lifo", "highest", "lowest")
ROOM = 64 << 20
"""Bytes by which the process may grow once everything has been used."""


class Use:
    """A memory in random use, and what is known of its episodes: state k is step k of all."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        limiter = RateLimiter(0.5, 100, 1_000.0)
        templates = [TEMPLATES[name] for name in FIELDS]
        state = np.zeros(3, np.float32)
        self.memory = ReplayMemory(
            *templates, MAX_STEP, seed=seed, limiter=limiter, recurrent=state, recurrent_period=4
        )
        self.memory.view("other", priority_exponent=0.9, max_times_sampled=400)
        self.ends: dict[int, tuple[int, bool]] = {}
        """By the first step of an episode, the step behind its last, and whether that is stored."""
        self.next = 0
        self.draws = 0

    def insert(self) -> None:
        count, final = self.rng.randint(1, 60), self.rng.random() < 0.5
        made: dict[str, Any] = steps(count, self.next)
        made["init_w"] = self.rng.choice((1.0, 0.5, 3.0))
        made["recurrent"] = np.repeat(np.arange(self.next, self.next + count), 3).reshape(count, 3)
        if final:
            made["final_state"] = self.next + count
        try:
            self.memory.add_episode(**made, **UNIFORM, wait=0)
        except TimeoutError:
            return
        self.ends[self.next] = (self.next + count, final)
        self.next += count + 1
        if len(self.ends) > MAX_STEP:
            self.ends.pop(next(iter(self.ends)))

    def held(self) -> set[int]:
        """The first steps of the episodes that are held."""
        episodes = (self.memory.episode(k) for k in range(self.memory.num_episode()))
        return {int(each.entries.s[0]) for each in episodes}

    def check(self, prev: int, later: int, held: set[int]) -> None:
        first = max(each for each in held if each <= prev)
        end, final = self.ends[first]
        last = end if final else end - self.memory.multi_step
        assert first + self.memory.frame_stack - 1 <= prev < last
        assert later == prev + self.memory.multi_step or (final and later == end)

    def draw(self, source: Any) -> None:
        sampler = self.rng.choice(SAMPLERS)
        try:
            drawn = source.sample(self.rng.randint(1, 32), sampler=sampler, wait=0)
        except (RuntimeError, TimeoutError):
            return
        self.draws += 1
        held = self.held()
        newest = drawn.prev.s.reshape(len(drawn.weight), -1)[:, -1]
        behind = drawn.next.s.reshape(newest.shape[0], -1)[:, -1]
        for prev, later in zip(newest.tolist(), behind.tolist(), strict=True):
            self.check(prev, later, held)
        limit = source.max_times_sampled
        if limit:
            assert (drawn.times_sampled <= limit).all()
            assert (drawn.times_sampled >= 1).all()
        if self.rng.random() < 0.5:
            source.update_priority(drawn.id, [self.rng.uniform(0, 9) for _ in drawn.id])

    def draw_sequences(self) -> None:
        length = self.rng.choice((1, 5, 20))
        try:
            drawn = self.memory.sample_sequences(
                4, length, burn_in=2, after=1, sampler=self.rng.choice(SAMPLERS), wait=0
            )
        except (RuntimeError, TimeoutError):
            return
        self.draws += 1
        actions = drawn.steps.a
        for row in range(4):
            inside = actions[row][drawn.valid[row] & drawn.learn[row]]
            assert (np.diff(inside) == 1).all()
            assert len(inside) <= length
            first = max(each for each in self.held() if each <= inside[0])
            assert inside[-1] < self.ends[first][0]
        errors = np.array([[self.rng.uniform(0, 9)] * length] * 4)
        self.memory.update_priority(drawn.anchor_id, errors)

    def change(self) -> None:
        choice = self.rng.choice
        settings: dict[str, list[Any]] = {
            "frame_stack": [1, 4],
            "multi_step": [1, 3],
            "max_times_sampled": [0, 2, 300],
            "remover": ["fifo", "lifo", "lowest", "highest"],
            "new_priority": ["returns", "max"],
            "max_episode": [0, 150],
        }
        name = choice(list(settings))
        setattr(self.memory, name, choice(settings[name]))

    def step(self) -> None:
        self.rng.choices(
            (
                self.insert,
                lambda: self.draw(self.memory),
                lambda: self.draw(self.memory.view("other")),
                self.draw_sequences,
                self.change,
            ),
            (10, 10, 5, 3, 0.3),
        )[0]()


def test_random_use_draws_legally_and_stays_flat() -> None:
    use = Use(random.SystemRandom().getrandbits(32) if SOAK else 5)
    end = time.monotonic() + SECONDS
    for _ in range(300):
        use.step()
    steady = None
    while time.monotonic() < end:
        for _ in range(2_000 if SOAK else 100):
            use.step()
        steady = steady or resident_bytes()
        assert resident_bytes() < steady + ROOM
    assert use.draws > 50
