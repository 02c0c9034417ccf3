"""`get_batch` of a server with a rate limiter: when it waits, what it says, and what is counted."""

import math
import threading
import time
from typing import Any

import pytest

from cogrs import RateLimiter
from cogrs.replay.serving.server_limiter import ServerLimiter
from tests.replay import build, network
from tests.replay.network import SLACK, Call, arrived, eventually, full_pair, made, pair

WIDE = {"samples_per_insert": 2.0, "min_size": 10, "error_buffer": 40.0}
"""A batch of one may be taken while 2 * inserts - samples > -20; an entry may come below 60."""


def told(client: Any, steps: int) -> None:
    """Insert an episode, and tell the server."""
    build.add_uniform(client.rem, steps)
    client.update_counter()


def test_server_without_limiter_has_no_limiter_stats() -> None:
    with made() as server:
        assert server.limiter is None
        assert server.stats().limiter is None


@pytest.mark.parametrize("limiter", [1, "queue", RateLimiter])
def test_limiter_of_another_type_is_refused(limiter: Any) -> None:
    with pytest.raises(TypeError, match="limiter: expected a RateLimiter or None"):
        made(limiter=limiter)


def test_limiter_of_a_server_without_caches_is_refused() -> None:
    with pytest.raises(ValueError, match="limiter: expected None, for this server keeps no caches"):
        made(0, limiter=RateLimiter(**WIDE))


def test_batch_waits_until_min_size_steps_are_told() -> None:
    with pair(1, reuse_cache=True, limiter=RateLimiter.min_size(10)) as (server, client):
        told(client, 9)
        client.push_cache()
        arrived(server, 1)
        batch = Call(lambda: server.get_batch(4))
        assert batch.blocks()
        told(client, 1)
        assert len(batch.result().weight) == 4
        assert server.stats().limiter.sample_wait_seconds >= 0.1


def test_batch_waits_until_enough_steps_are_inserted() -> None:
    with pair(1, reuse_cache=True, limiter=RateLimiter(**WIDE)) as (server, client):
        told(client, 20)
        client.push_cache()
        # 2 * 20 - 60 = 20 - 40: a further sample needs a further step.
        assert len(server.get_batch(60, wait=SLACK).weight) == 60
        batch = Call(lambda: server.get_batch(2))
        assert batch.blocks()
        told(client, 1)
        assert len(batch.result().weight) == 2
        assert server.stats().limiter.samples == 62


def test_timeout_names_the_counts_and_takes_nothing() -> None:
    with pair(1, reuse_cache=True, limiter=RateLimiter(**WIDE)) as (server, client):
        told(client, 20)
        client.push_cache()
        arrived(server, 1)
        server.get_batch(58)
        for wait in (0, 0.05):
            told_why = r"inserts \* samples_per_insert - samples - 3 = -21 is below low = -20"
            with pytest.raises(TimeoutError, match=told_why):
                server.get_batch(3, wait=wait)
        assert server.stats().limiter.samples == server.stats().samples_given == 58
        server.get_batch(2, wait=0)


def test_timeout_names_the_limiter_and_the_caches_that_are_missing() -> None:
    with pair(3, limiter=RateLimiter(**WIDE)) as (server, client):
        told(client, 9)
        with pytest.raises(TimeoutError, match=r"min_size = 10 .*have 0, need n_caches=3"):
            server.get_batch(1, wait=0)


def test_batch_without_a_wait_waits_for_caches_too() -> None:
    with pair(1, limiter=RateLimiter(**WIDE)) as (server, client):
        told(client, 20)
        batch = Call(lambda: server.get_batch(4))
        assert batch.blocks()
        client.push_cache()
        assert len(batch.result().weight) == 4


def test_batch_that_the_limiter_can_never_allow_is_refused_at_once() -> None:
    with made(1, reuse_cache=True, limiter=RateLimiter(**WIDE)) as server:
        for wait in (None, 0, 1):
            with pytest.raises(
                ValueError, match=r"batch_size: expected at most 78 samples.*, got 79"
            ):
                server.get_batch(79, wait=wait)
        assert server.stats().limiter.samples == 0


def test_batch_that_the_caches_can_never_hold_is_refused_where_the_wait_has_no_end() -> None:
    with made(2, cache_size=4, limiter=RateLimiter(**WIDE)) as server:
        for wait in (None, math.inf):
            with pytest.raises(ValueError, match="batch_size: expected at most 8"):
                server.get_batch(9, wait=wait)
        with pytest.raises(TimeoutError):
            server.get_batch(9, wait=0)


@pytest.mark.parametrize("size", [0, -1])
def test_batch_size_below_one_is_refused_with_a_limiter_too(size: int) -> None:
    with made(limiter=RateLimiter(**WIDE)) as server, pytest.raises(ValueError, match="batch_size"):
        server.get_batch(size)


def test_batch_with_an_array_that_does_not_fit_is_not_counted() -> None:
    with full_pair(1, reuse_cache=True, limiter=RateLimiter(**WIDE)) as (server, client):
        client.update_counter()
        client.push_cache()
        batch = server.get_batch(4)
        with pytest.raises(ValueError, match="out"):
            server.get_batch(5, out=batch)
        assert server.stats().limiter.samples == 4
        # What was reserved for it is free again.
        assert len(server.get_batch(56, wait=0).weight) == 56


def test_concurrent_batches_take_no_more_than_the_limiter_allows() -> None:
    with full_pair(1, reuse_cache=True, limiter=RateLimiter(**WIDE)) as (server, client):
        client.update_counter()
        client.push_cache()
        arrived(server, 1)

        def take() -> int:
            taken = 0
            while True:
                try:
                    server.get_batch(7, wait=0.05)
                except TimeoutError:
                    return taken
                taken += 7

        calls = [Call(take) for _ in range(4)]
        assert sum(call.result() for call in calls) == 56
        assert server.stats().limiter.samples == 56


def test_setting_that_ends_a_shortage_ends_the_wait() -> None:
    with full_pair(1, cache_size=4, limiter=RateLimiter(**WIDE)) as (server, client):
        client.update_counter()
        client.push_cache()
        server.get_batch(4)
        batch = Call(lambda: server.get_batch(4))
        assert batch.blocks()
        server.rem.reuse_cache = True
        assert len(batch.result().weight) == 4


def test_close_ends_a_wait_for_the_limiter() -> None:
    with full_pair(1, limiter=RateLimiter.min_size(1000)) as (server, client):
        client.push_cache()
        arrived(server, 1)
        batch = Call(lambda: server.get_batch(1))
        assert batch.blocks()
        server.close()
        with pytest.raises(RuntimeError, match="ReplayMemoryServer is closed"):
            batch.result()


def test_stats_count_steps_samples_and_waits_up_to_now() -> None:
    with pair(1, reuse_cache=True, limiter=RateLimiter(**WIDE)) as (server, client):
        assert server.stats().limiter.samples_per_insert == 0
        told(client, 20)
        client.push_cache()
        server.get_batch(30)
        stats = server.stats().limiter
        assert (stats.inserts, stats.samples, stats.removed) == (20, 30, 0)
        assert stats.samples_per_insert == 1.5
        server.get_batch(30)
        batch = Call(lambda: server.get_batch(60, wait=60))
        eventually(lambda: server.stats().limiter.sample_wait_seconds > 0.2)
        assert batch.blocks(0)
        told(client, 30)
        batch.result()
        ended = server.stats().limiter.sample_wait_seconds
        assert not Call(lambda: None).blocks()
        assert server.stats().limiter.sample_wait_seconds == ended


def test_print_info_shows_the_waits_of_the_limiter(capsys: pytest.CaptureFixture[str]) -> None:
    with made(limiter=RateLimiter(**WIDE)) as server:
        server.print_info()
    assert "limiter: 0 inserts, 0 samples" in capsys.readouterr().out


def test_client_that_does_not_ask_loses_nothing() -> None:
    with pair(1, reuse_cache=True, limiter=RateLimiter.queue(10)) as (server, client):
        for _ in range(4):
            told(client, 20)
            client.push_cache()
        arrived(server, 4)
        assert server.stats().limiter.inserts == 80
        for _ in range(8):
            assert len(server.get_batch(10, wait=SLACK).weight) == 10
        with pytest.raises(TimeoutError):
            server.get_batch(1, wait=0)


def test_server_that_is_started_again_counts_from_zero() -> None:
    templates = {"reuse_cache": True, "limiter": RateLimiter(**WIDE)}
    with pair(1, **templates) as (server, client):
        for _ in range(10):
            told(client, 50)
        server.close()
        with network.once_free(lambda: network.restarted(server, 1, **templates)) as again:
            client.update_counter()
            # What was told to the other server is in the totals, and does not count here.
            assert again.total_steps == 500
            assert again.stats().limiter.inserts == 0
            assert client.wait_to_insert(timeout=SLACK)
            told(client, 12)
            assert again.stats().limiter.inserts == 12
            with network.connected(again) as new:
                told(new, 5)
                assert again.stats().limiter.inserts == 17
                new.sync_sizes(64)
                told(new, 3)
                assert again.stats().limiter.inserts == 20


def test_restored_episodes_are_in_the_totals_and_do_not_count() -> None:
    with pair(1, limiter=RateLimiter(**WIDE)) as (server, client):
        build.add_uniform(client.rem, 30)
        client.update_counter(restored=True)
        assert (server.total_steps, server.stats().limiter.inserts) == (30, 0)
        told(client, 4)
        assert (server.total_steps, server.stats().limiter.inserts) == (34, 4)
        with pytest.raises(TypeError, match="restored"):
            client.update_counter(restored=None)


def test_learner_that_is_starved_again_is_published_again() -> None:
    limiter = ServerLimiter(RateLimiter.min_size(1))
    published: list[Any] = []
    limiter.publish = published.append
    limiter.note_starved()
    limiter.note_starved()
    assert [each.starved for each in published] == [True]
    time.sleep(0.6)
    assert not limiter.allowance().starved
    limiter.note_starved()
    assert [each.starved for each in published] == [True, True]


def test_allowances_of_several_threads_are_published_in_the_order_of_their_numbers() -> None:
    limiter = ServerLimiter(RateLimiter.min_size(1))
    numbers: list[int] = []
    first, go_on = threading.Event(), threading.Event()

    def publish(allowance: Any) -> None:
        if not first.is_set():
            first.set()
            go_on.wait(0.3)  # as long as another thread is faster
        numbers.append(allowance.number)

    limiter.publish = publish
    starved = Call(limiter.note_starved)
    first.wait(SLACK)
    arrives = Call(limiter.note_cache)
    arrives.result()
    starved.result()
    assert numbers == [1, 2]
