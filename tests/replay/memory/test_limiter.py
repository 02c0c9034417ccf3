"""A memory with a rate limiter, against the two formulas."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cogrs import RateLimiter, ReplayMemory
from tests.replay.build import TEMPLATES, add_uniform, memory, step, steps
from tests.replay.model import FIELDS

QUARTERS = st.integers(1, 16).map(lambda k: k / 4)


def limited(limiter: RateLimiter, max_step: int = 64, **settings: Any) -> ReplayMemory:
    return ReplayMemory(
        *(TEMPLATES[name] for name in FIELDS), max_step, seed=0, limiter=limiter, **settings
    )


def counts(of: ReplayMemory) -> tuple[int, int, int]:
    figures = of.stats().limiter
    assert figures is not None
    return figures.inserts, figures.samples, figures.removed


class LimitedMemory(RuleBasedStateMachine):
    """Inserts, samples, evictions and clears at random, each allowed exactly by the formulas."""

    @initialize(data=st.data())
    def create(self, data: st.DataObject) -> None:
        self.min_size = data.draw(st.integers(1, 12))
        self.max_step = data.draw(st.integers(self.min_size, 24))
        self.kind = data.draw(st.sampled_from(["ratio", "size", "queue"]))
        if self.kind == "ratio":
            self.spi = data.draw(QUARTERS)
            below = max(1.0, self.spi) + data.draw(QUARTERS)
            above = max(1.0, self.spi) + data.draw(QUARTERS)
            center = self.min_size * self.spi
            self.low, self.high = center - below, center + above
            limiter = RateLimiter(self.spi, self.min_size, (self.low, self.high))
            self.largest = int(self.high - self.low - self.spi)
        elif self.kind == "size":
            limiter = RateLimiter.min_size(self.min_size)
            self.spi, self.low, self.high = 1.0, -np.inf, np.inf
            self.largest = 10**9
        else:
            self.min_size, self.spi, self.low = 1, 1.0, 0.0
            self.high = float(data.draw(st.integers(1, 12)))
            self.largest = int(self.high)
            limiter = RateLimiter.queue(self.largest)
        self.max_episode = data.draw(st.sampled_from([0, 0, 2]))
        self.rem = limited(limiter, self.max_step, max_episode=self.max_episode)
        self.inserts = self.samples = self.removed = 0
        self.held: deque[tuple[int, int]] = deque()  # entries with an action, and slots
        self.open = 0

    def may_sample(self, n: int) -> bool:
        return (
            self.inserts - self.removed >= self.min_size
            and self.inserts * self.spi - self.samples - n >= self.low
        )

    def may_insert(self) -> bool:
        return (
            self.inserts + 1 - self.removed <= self.min_size
            or (self.inserts + 1) * self.spi - self.samples <= self.high
        )

    def evict(self) -> None:
        self.removed += self.held.popleft()[0]

    def make_room(self, slots: int) -> None:
        while self.open + sum(used for _, used in self.held) + slots > self.max_step:
            self.evict()

    def inserted(self, entries: int, slots: int) -> None:
        self.inserts += entries
        self.held.append((entries, slots))
        while self.max_episode and len(self.held) > self.max_episode:
            # Those without entries go first.
            empty = next((k for k, (_, used) in enumerate(self.held) if used == 0), 0)
            if self.held[-1][1] == 0:
                empty = len(self.held) - 1
            self.removed += self.held[empty][0]
            del self.held[empty]

    @rule(length=st.integers(1, 5), final=st.booleans())
    def add_episode(self, length: int, final: bool) -> None:
        slots = length + final
        if self.open + slots > self.max_step:
            return
        extra = {"final_state": 9} if final else {}
        if not self.may_insert():
            with pytest.raises(TimeoutError, match=r"\(inserts \+ 1\) \* samples_per_insert"):
                add_uniform(self.rem, length, wait=0, **extra)
            return
        add_uniform(self.rem, length, wait=0, **extra)
        self.make_room(slots)
        self.inserted(length, slots)

    @rule(length=st.integers(1, 3))
    def add_entries_never_waits(self, length: int) -> None:
        if self.open == 0:
            self.rem.new_episode()
        if self.open + length <= self.max_step:
            self.rem.add_entries(**steps(length))
            self.make_room(length)
            self.open += length

    @precondition(lambda self: self.open > 0)
    @rule()
    def close_episode(self) -> None:
        if self.may_insert():
            self.rem.close_episode(wait=0)
            length, self.open = self.open, 0
            self.inserted(length, length)
        else:
            with pytest.raises(TimeoutError, match="does not allow an insert yet"):
                self.rem.close_episode(wait=0)

    @precondition(lambda self: self.open > 0)
    @rule()
    def abort_episode(self) -> None:
        self.rem.abort_episode()
        self.open = 0

    @rule(n=st.integers(1, 20), by=st.sampled_from(["sample", "get_batch"]))
    def draw(self, n: int, by: str) -> None:
        call = getattr(self.rem, by)
        if n > self.largest:
            with pytest.raises(ValueError, match=rf"at most {self.largest} samples in a batch"):
                call(n, wait=0)
        elif not self.may_sample(n):
            with pytest.raises(TimeoutError, match=f"does not allow a batch of {n} yet"):
                call(n, wait=0)
        elif self.rem.num_sampleable == 0:
            with pytest.raises(TimeoutError, match="waited 0 s: nothing to sample"):
                call(n, wait=0)
        else:
            call(n, wait=0)
            self.samples += n

    @rule()
    def clear(self) -> None:
        self.rem.clear()
        self.removed += sum(entries for entries, _ in self.held)
        self.held.clear()
        self.open = 0

    @invariant()
    def counts_are_those_of_the_model(self) -> None:
        if hasattr(self, "rem"):
            assert counts(self.rem) == (self.inserts, self.samples, self.removed)
            assert self.inserts - self.removed == sum(entries for entries, _ in self.held)


TestLimitedMemory = LimitedMemory.TestCase


def test_memory_without_limiter_has_no_figures_of_one_and_does_not_wait() -> None:
    rem = memory(8)
    assert rem.limiter is None
    assert rem.stats().limiter is None
    with pytest.raises(RuntimeError, match=r"nothing to sample"):
        rem.sample(1)
    add_uniform(rem, 3, wait=0)
    rem.sample(1_000)


def test_limiter_property_is_the_limiter_of_the_constructor() -> None:
    limiter = RateLimiter.queue(4)
    rem = limited(limiter)
    assert rem.limiter == limiter
    with pytest.raises(AttributeError):
        rem.limiter = None  # type: ignore[misc]


def test_print_info_has_the_limiter(capsys: pytest.CaptureFixture[str]) -> None:
    limited(RateLimiter.queue(4)).print_info()
    assert "  limiter: RateLimiter.queue(4)\n" in capsys.readouterr().out
    memory(8).print_info()
    assert "limiter" not in capsys.readouterr().out


def test_memory_for_spaces_takes_a_limiter() -> None:
    box = spaces.Box(0, 1, (2,), np.float32)
    limiter = RateLimiter.min_size(5)
    rem = ReplayMemory.from_spaces(box, spaces.Discrete(2), 10, limiter=limiter)
    assert rem.limiter == limiter


@pytest.mark.parametrize("wrong", [4, "queue", RateLimiter])
def test_limiter_of_another_type_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"limiter: expected a cogrs\.RateLimiter or None, got"):
        limited(wrong)


def test_min_size_above_max_step_is_refused_since_nothing_could_ever_be_sampled() -> None:
    with pytest.raises(ValueError, match="limiter: expected min_size of at most max_step = 9"):
        limited(RateLimiter.min_size(10), 9)
    limited(RateLimiter.min_size(9), 9)


def test_limiter_may_be_given_to_several_memories_which_count_apart() -> None:
    limiter = RateLimiter.queue(4)
    first, second = limited(limiter), limited(limiter)
    add_uniform(first, 3)
    assert (counts(first), counts(second)) == ((3, 0, 0), (0, 0, 0))


def test_whole_episode_goes_in_when_one_entry_may_come() -> None:
    rem = limited(RateLimiter.queue(2))
    add_uniform(rem, 1)
    add_uniform(rem, 10, wait=0)
    assert counts(rem) == (11, 0, 0)
    with pytest.raises(TimeoutError, match="10 more samples drawn would free it"):
        add_uniform(rem, 1, wait=0)


def test_episode_without_entries_inserts_nothing_and_never_waits() -> None:
    rem = limited(RateLimiter.queue(1))
    add_uniform(rem, 2)
    rem.new_episode()
    rem.close_episode(final_state=1, do_update_value=False, do_update_weight=False)
    assert counts(rem) == (2, 0, 0)


def test_used_up_entries_count_as_removed_once() -> None:
    rem = limited(RateLimiter.min_size(1), 4, max_times_sampled=1)
    add_uniform(rem, 3, final_state=0)
    rem.sample(2)
    assert counts(rem) == (3, 2, 2)
    add_uniform(rem, 3, final_state=0)
    assert counts(rem) == (6, 2, 3)
    rem.sample(1)
    assert counts(rem) == (6, 3, 4)
    rem.max_times_sampled = 2
    assert counts(rem) == (6, 3, 3)


@pytest.mark.parametrize("sampler", ["fifo", "lifo"])
def test_queue_and_stack_give_each_entry_once(sampler: str) -> None:
    rem = limited(RateLimiter.queue(6), 16, sampler=sampler, max_times_sampled=1)
    given: list[int] = []
    for episode in range(10):
        add_uniform(rem, 3, first=3 * episode, final_state=0)
        given += rem.sample(3).prev.s.ravel().tolist()
    assert sorted(given) == list(range(30))
    assert counts(rem) == (30, 30, 30)
    with pytest.raises(TimeoutError, match="inserts - removed = 0 is below min_size = 1"):
        rem.sample(1, wait=0)


def test_figures_have_the_ratio_reached_and_seconds_waited() -> None:
    rem = limited(RateLimiter(2.0, 2, 4.0))
    with pytest.raises(TimeoutError, match=r"waited 0\.1 s: the rate"):
        rem.sample(6, wait=0.1)
    add_uniform(rem, 4, final_state=0)
    with pytest.raises(TimeoutError, match=r"waited 0\.2 s: the rate"):
        add_uniform(rem, 1, wait=0.2)
    rem.sample(3)
    figures = rem.stats().limiter
    assert figures is not None
    assert figures.samples_per_insert == 0.75
    assert figures.sample_wait_seconds >= 0.1
    assert figures.insert_wait_seconds >= 0.2


def test_calls_that_need_not_wait_add_no_seconds() -> None:
    rem = limited(RateLimiter(2.0, 2, 4.0))
    add_uniform(rem, 4, final_state=0)
    rem.sample(3)
    with pytest.raises(TimeoutError):
        rem.sample(6, wait=0)
    figures = rem.stats().limiter
    assert figures is not None
    assert (figures.sample_wait_seconds, figures.insert_wait_seconds) == (0.0, 0.0)


def test_bad_arguments_are_refused_before_the_wait_and_the_episode_stays_open() -> None:
    rem = limited(RateLimiter.queue(1))
    add_uniform(rem, 1, final_state=0)
    rem.new_episode()
    rem.add_entry(**step(1))
    with pytest.raises(ValueError, match="episodic_weight_multiplier"):
        rem.close_episode(-1.0)
    with pytest.raises(ValueError, match="init_w"):
        rem.add_episode(**steps(1, init_w=-1.0))
    with pytest.raises(ValueError, match="at most 1 samples"):
        rem.sample(2)
    with pytest.raises(RuntimeError, match="no episode is open"):
        rem.writer().close_episode()
    with pytest.raises(TimeoutError):
        rem.close_episode(wait=0)
    rem.sample(1)
    rem.close_episode(wait=0)
    assert counts(rem) == (2, 1, 0)
    assert rem.num_episode() == 2


@pytest.mark.parametrize(
    ("wait", "error"),
    [(-1, ValueError), (float("nan"), ValueError), (True, TypeError), ("1", TypeError)],
)
def test_wait_that_is_not_seconds_is_refused_by_name(wait: Any, error: type[Exception]) -> None:
    rem = memory(8)
    add_uniform(rem, 3)
    rem.new_episode()
    for call in (
        lambda: rem.sample(1, wait=wait),
        lambda: rem.get_batch(1, wait=wait),
        lambda: rem.close_episode(wait=wait),
        lambda: add_uniform(rem, 1, wait=wait),
    ):
        with pytest.raises(error, match="wait: expected"):
            call()


def test_samples_that_wait_for_ever_for_entries_which_cannot_come_raise() -> None:
    rem = limited(RateLimiter.queue(2))
    add_uniform(rem, 1)
    add_uniform(rem, 1)
    # Without a final state, episodes of one step cannot be drawn.
    with pytest.raises(
        RuntimeError, match=r"nothing to sample.*; and no entries can come: the rate"
    ):
        rem.sample(1)
    with pytest.raises(TimeoutError, match=r"waited 0\.1 s: nothing to sample"):
        rem.sample(1, wait=0.1)
    assert counts(rem) == (2, 0, 0)
