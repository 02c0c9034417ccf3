"""Threads that call plain functions for an event loop."""

from __future__ import annotations

import threading

from cogrs.threads import ThreadPool
from tests.orchestrator.net import LIMIT, on_loop
from tests.sdk.net import until


def here() -> int:
    return threading.get_ident()


def names() -> list[str]:
    return [thread.name for thread in threading.enumerate()]


@on_loop
async def test_pool_with_too_few_threads_shares_threads() -> None:
    pool = ThreadPool("cogrs-test", most=2)
    workers = [pool.take() for _ in range(5)]
    assert len(pool) == 2
    assert sorted(each.users for each in set(workers)) == [2, 3]
    done = [each.call(here) for each in workers]
    outcomes = [each if isinstance(each, tuple) else await each for each in done]
    assert len({ident for ident, _ in outcomes}) == 2
    for each in workers:
        pool.give_back(each)
    pool.close()
    assert len(pool) == 0
    await until(lambda: "cogrs-test" not in names())


@on_loop
async def test_busy_thread_that_is_given_back_is_not_used_again() -> None:
    pool = ThreadPool("cogrs-test", most=1)
    held = threading.Event()
    worker = pool.take()
    worker.call(held.wait, LIMIT)
    await until(lambda: worker.busy is not None)
    pool.give_back(worker)
    other = pool.take()
    assert other is not worker
    outcome = other.call(here)
    assert (outcome if isinstance(outcome, tuple) else await outcome)[1] is None
    pool.give_back(other)
    pool.close()
    held.set()
    await until(lambda: "cogrs-test" not in names())


@on_loop
async def test_pool_that_is_garbage_collected_ends_its_threads() -> None:
    pool = ThreadPool("cogrs-test")
    pool.give_back(pool.take())
    assert "cogrs-test" in names()
    del pool
    await until(lambda: "cogrs-test" not in names())


@on_loop
async def test_quick_calls_return_at_once_and_in_order() -> None:
    pool = ThreadPool("cogrs-test")
    worker = pool.take()
    made: list[int] = []
    direct = 0
    for number in range(300):
        outcome = worker.call(made.append, number)
        if isinstance(outcome, tuple):
            direct += 1
        elif number % 3 == 0:
            await outcome
    outcome = worker.call(here)
    ident, error = outcome if isinstance(outcome, tuple) else await outcome
    assert (ident != here(), error) == (True, None)
    assert made == list(range(300))
    assert direct > 0
    pool.give_back(worker)
    pool.close()
