"""`push_cache`: which caches are drawn and sent, when it waits and when it refuses."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from cogrs import Bind, ReplayMemoryClient
from tests.replay import build, network
from tests.replay.network import (
    SLACK,
    Call,
    arrived,
    connected,
    eventually,
    full_pair,
    pair,
    started,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def test_push_without_drawable_entries_returns_minus_one_and_sends_no_cache() -> None:
    with pair() as (server, client):
        assert client.push_cache() == -1
        client.rem.new_episode()
        client.rem.add_entries(**build.steps(5))
        assert client.push_cache() == -1
        client.rem.close_episode(1.0, False, False)
        assert client.push_cache() == 0
        arrived(server, 1)
        client.rem.clear()
        build.add_uniform(client.rem, 5, init_w=0.0)
        assert client.push_cache() == -1
        client.rem.priority_exponent = 1.0
        client.rem.add_episode(**build.steps(3, r=[1, 2, 4], v=[7, 6, 4]))
        assert client.push_cache() == -1
        assert server.total_caches == 1


def test_cache_of_one_sample_has_one_row() -> None:
    with full_pair(1, cache_size=1) as (server, client):
        client.push_cache()
        assert len(server.get_batch(1, wait=SLACK).weight) == 1


def test_caches_are_drawn_from_a_seed() -> None:
    def caches(seed: int | None) -> list[int]:
        with started(1) as server, connected(server, seed=seed) as client:
            build.add_uniform(client.rem, 20)
            client.push_cache()
            return server.get_batch(32, wait=SLACK).prev.i.tolist()

    assert caches(7) == caches(7)
    assert caches(7) != caches(8)
    assert caches(None) != caches(None)


def test_second_sync_goes_on_with_other_draws() -> None:
    with started(1) as server, connected(server, seed=7) as client:
        drawn = []
        for count in (1, 2):
            build.add_uniform(client.rem, 20)
            client.push_cache()
            arrived(server, count)
            drawn.append(server.get_batch(32).prev.i.tolist())
            client.sync_sizes(64)
    assert drawn[0] != drawn[1]


@pytest.mark.parametrize("change", [{"frame_stack": 2}, {"cache_flags": [False]}], ids=str)
def test_settings_that_the_server_does_not_have_are_refused(change: dict[str, Any]) -> None:
    with full_pair() as (server, client):
        for name, value in change.items():
            setattr(client.rem, name, value)
        with pytest.raises(ValueError, match="cache_flags and frame_stack"):
            client.push_cache()
        assert (server.total_caches, server.total_refused) == (0, 0)


def test_cache_that_is_larger_than_the_server_takes_is_refused() -> None:
    with full_pair() as (server, client):
        client.rem.cache_size = 1_000_000
        with pytest.raises(ValueError, match="cache_size: expected frames of at most"):
            client.push_cache()
        client.rem.cache_size = 4
        assert client.push_cache() == 0
        arrived(server, 1)


def test_refused_cache_counts_no_entry_as_given() -> None:
    settings = {"sampler": "fifo", "max_times_sampled": 1, "cache_size": 4}
    with pair(1, **settings) as (server, client):
        build.add_uniform(client.rem, 9)
        for name, value in {"cache_flags": [False], "frame_stack": 2}.items():
            before = getattr(client.rem, name)
            setattr(client.rem, name, value)
            with pytest.raises(ValueError, match="cache_flags and frame_stack"):
                client.push_cache()
            setattr(client.rem, name, before)
        assert client.rem.num_drawable == 8
        assert client.push_cache() == client.push_cache() == 0
        arrived(server, 2)


def test_largest_frame_goes_through() -> None:
    with pair(1, s=np.zeros(1 << 16, np.uint8), cache_size=64) as (server, client):
        build.add_uniform(client.rem, 20, s=np.ones((20, 1 << 16), np.uint8))
        assert client.push_cache() == 0
        assert server.get_batch(64, wait=SLACK).prev.s.all()


def test_cache_keeps_its_samples_when_the_memory_changes() -> None:
    with pair(1, s=np.zeros(1 << 14, np.int64)) as (server, client):
        for number in range(1, 30):
            values = np.full((3, 1 << 14), number)
            client.rem.clear()
            build.add_uniform(client.rem, 3, s=values)
            client.push_cache()
        arrived(server, 29)
        assert (server.get_batch(32).prev.s == 29).all()


def test_push_waits_at_the_high_water_mark_and_names_the_peer() -> None:
    with started() as server, connected(server, timeout=0.2, hwm=3) as client:
        build.add_uniform(client.rem, 5)
        server.close()
        start = time.monotonic()
        with pytest.raises(TimeoutError, match=r"push_cache: .*3 messages.* 0\.2 s") as late:
            network.push_for_ever(client)
        assert time.monotonic() - start >= 0.2
        assert server.pull_endpoint in str(late.value)
        with pytest.raises(TimeoutError, match="write_log"):
            client.write_log("line")


@contextmanager
def nobody_takes_pushes(timeout: float) -> Iterator[tuple[ReplayMemoryClient, Callable[[], Any]]]:
    """Give a client with 40 entries to draw once, two per cache, and what takes all its caches."""
    (where,) = network.unused_endpoints(1)
    once = {"sampler": "fifo", "max_times_sampled": 1, "cache_size": 2}
    with (
        started(20, **once) as server,
        ReplayMemoryClient(
            server.pub_endpoint, server.rep_endpoint, where, max_step=64, timeout=timeout, hwm=1
        ) as client,
    ):
        build.add_uniform(client.rem, 41)

        def taken() -> Any:
            worker = Call(lambda: server.pull_worker_main(where, Bind))
            network.push_all(client)
            batch = server.get_batch(40, wait=50)
            server.close()
            worker.result()
            return sorted(batch.prev.s.ravel().tolist())

        yield client, taken


def test_cache_that_no_server_took_is_sent_by_the_next_push() -> None:
    with nobody_takes_pushes(timeout=0.2) as (client, taken):
        with pytest.raises(TimeoutError):
            network.push_for_ever(client)
        left = client.rem.num_drawable
        for _ in range(2):
            with pytest.raises(TimeoutError):
                client.push_cache()
        assert client.rem.num_drawable == left
        assert taken() == list(range(40))


def test_cache_whose_wait_was_interrupted_is_sent_by_the_next_push() -> None:
    with nobody_takes_pushes(timeout=50) as (client, taken):
        interrupt = signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)
        timer = threading.Timer(3, *interrupt)
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            network.push_for_ever(client)
        timer.join()
        assert taken() == list(range(40))


@pytest.mark.parametrize("hwm", [1, 2])
def test_push_that_waited_goes_on_when_the_server_is_back(hwm: int) -> None:
    with started(1) as server, connected(server, timeout=60, hwm=hwm) as client:
        build.add_uniform(client.rem, 5)
        server.close()
        pushes = Call(lambda: [client.push_cache() for _ in range(40)])
        assert pushes.blocks()
        with network.restarted(server, 1) as again:
            assert pushes.result(50) == [0] * 40
            assert len(again.get_batch(4, wait=50).weight) == 4


def test_no_consumer_does_not_make_the_server_grow() -> None:
    with pair(2, s=np.zeros(1 << 16, np.uint8)) as (server, client):
        build.add_uniform(client.rem, 20, s=np.ones((20, 1 << 16), np.uint8))

        for count in range(100):
            if count == 40:
                before = network.resident_bytes()
            client.push_cache()
        arrived(server, 100)
        # A cache has 4 MiB: 60 of them did not stay.
        assert network.resident_bytes() - before < 60 * (4 << 20) / 2


def test_several_endpoints_get_caches_in_turn() -> None:
    with started(1) as server, started(1) as other:
        pushes = [server.pull_endpoint, other.pull_endpoint]
        at = (server.pub_endpoint, server.rep_endpoint, pushes)
        with ReplayMemoryClient(*at, max_step=16) as client:
            build.add_uniform(client.rem, 5)
            # Caches go to those whose connections stand.
            eventually(
                lambda: (
                    client.push_cache() == 0 and min(server.total_caches, other.total_caches) >= 1
                )
            )
