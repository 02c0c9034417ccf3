"""Batches that a thread draws ahead."""

import _thread
import gc
import threading
import time
from typing import Any

import numpy as np
import pytest

from cogrs import RateLimiter, ReplayMemory
from tests.replay.build import add_uniform, memory

SLACK = 20.0
"""Seconds after which a wait that takes a moment has failed."""


def filled(**changes: Any) -> ReplayMemory:
    made = memory(64, seed=0, **changes)
    add_uniform(made, 40)
    return made


def drawers() -> int:
    """Threads that draw ahead."""
    return sum(thread.name == "cogrs-prefetch" for thread in threading.enumerate())


def all_ended() -> bool:
    end = time.monotonic() + SLACK
    while drawers():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def test_prefetched_batches_equal_sampled_batches() -> None:
    made, other = filled(), filled()
    with made.prefetch(8, nstep_return=True, beta=0.5) as batches:
        for _ in range(10):
            got, expected = next(batches), other.sample(8, nstep_return=True, beta=0.5)
            assert type(got) is type(expected)
            assert np.array_equal(got.id, expected.id)
            assert np.array_equal(got.prev.s, expected.prev.s)
            assert np.array_equal(got.importance_weight, expected.importance_weight)
    assert all_ended()


def test_no_more_batches_than_depth_are_drawn_ahead() -> None:
    made = filled(sampler="fifo", max_times_sampled=1)
    with made.prefetch(4, depth=3) as batches:
        end = time.monotonic() + SLACK
        while made.num_drawable > 39 - 4 * 3 and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.1)
        assert made.num_drawable == 39 - 4 * 3
        assert next(batches).id.size == 4


def test_batches_drawn_before_a_setting_changed_are_dropped() -> None:
    made = filled()
    with made.prefetch(8, depth=4) as batches:
        assert next(batches).prev.s.shape == (8, 1)
        for stack in (3, 2, 5, 1):
            made.frame_stack = stack
            for _ in range(6):
                assert next(batches).prev.s.shape == (8, stack)


def test_prefetcher_of_an_empty_memory_waits_for_entries() -> None:
    made = memory(64)
    with made.prefetch(8) as batches:
        thread = threading.Timer(0.1, add_uniform, (made, 40))
        thread.start()
        assert next(batches).id.size == 8
        thread.join()


def test_wait_for_a_batch_ends_with_the_reason() -> None:
    made = memory(64)
    with (
        made.prefetch(8, wait=0.6) as batches,
        pytest.raises(
            TimeoutError, match=r"waited 0\.6 s for a batch: .*no episode has been closed"
        ),
    ):
        next(batches)


def test_prefetcher_obeys_the_rate_limiter() -> None:
    made = ReplayMemory(*[np.float32(0)] * 7, 64, limiter=RateLimiter(1.0, 10, 10.0))
    add_uniform(made, 20)
    with made.prefetch(5, wait=1.0) as batches:
        for _ in range(4):
            next(batches)
        with pytest.raises(TimeoutError, match="samples"):
            next(batches)
        assert made.stats().limiter.samples == 20


def test_error_of_a_draw_is_raised_by_the_next_batch() -> None:
    with filled().prefetch(2**31 - 1) as batches, pytest.raises(MemoryError, match="batch_size"):
        next(batches)
    assert all_ended()


def test_close_ends_the_thread_and_the_calls_that_wait() -> None:
    made = memory(64)
    batches = made.prefetch(8)
    got: list[Any] = []
    thread = threading.Thread(target=lambda: got.extend(batches))
    thread.start()
    time.sleep(0.1)
    batches.close()
    thread.join(SLACK)
    assert (thread.is_alive(), got) == (False, [])
    assert list(batches) == []
    batches.close()
    assert all_ended()


def test_thread_ends_with_the_last_reference() -> None:
    batches = filled().prefetch(8)
    next(batches)
    assert drawers() == 1
    del batches
    gc.collect()
    assert all_ended()


def test_interrupt_ends_the_wait_for_a_batch() -> None:
    made = memory(64)
    with made.prefetch(8) as batches:
        threading.Timer(0.3, _thread.interrupt_main).start()
        with pytest.raises(KeyboardInterrupt):
            next(batches)


def test_threads_share_a_prefetcher() -> None:
    made = filled(sampler="fifo", max_times_sampled=1)
    given: list[int] = []
    with made.prefetch(3, wait=1.0) as batches:

        def take() -> None:
            for _ in range(4):
                given.extend(next(batches).prev.s[:, 0].tolist())

        threads = [threading.Thread(target=take) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SLACK)
    assert sorted(given) == list(range(36))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"batch_size": 0}, "batch_size: expected an integer >= 1, got 0"),
        ({"depth": 0}, "depth: expected an integer >= 1, got 0"),
        ({"depth": 65}, "depth: expected an integer <= 64, got 65"),
        ({"wait": -1}, "wait: expected seconds >= 0 or None, got -1"),
        ({"sampler": "best"}, "sampler: expected "),
        ({"beta": -1.0}, "beta"),
        ({"normalize": "most"}, "normalize"),
    ],
)
def test_argument_out_of_range_is_refused_before_a_thread_begins(
    given: dict[str, Any], text: str
) -> None:
    assert all_ended()
    with pytest.raises(ValueError, match=text):
        filled().prefetch(**{"batch_size": 8} | given)
    assert drawers() == 0


@pytest.mark.parametrize("given", [{"batch_size": "8"}, {"depth": 1.5}, {"nstep_return": "yes"}])
def test_argument_of_the_wrong_type_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=next(iter(given))):
        filled().prefetch(**{"batch_size": 8} | given)
