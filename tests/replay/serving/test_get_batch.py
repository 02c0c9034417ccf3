"""Batches of a server: their contents, and waiting for them."""

import math
from typing import Any

import numpy as np
import pytest

from tests.replay import build, network
from tests.replay.network import (
    SLACK,
    Call,
    arrived,
    connected,
    eventually,
    full_pair,
    made,
    started,
)

# -- batches --


def test_batch_has_the_steps_that_the_client_stored() -> None:
    with full_pair(cache_size=10, frame_stack=3) as (server, client):
        assert [client.push_cache(), client.push_cache()] == [0, 0]
        batch = server.get_batch(20, wait=SLACK)
    assert batch.prev.s.shape == batch.next.s.shape == (20, 3)
    assert (np.diff(batch.prev.s) == 1).all()
    assert (batch.weight.shape, batch.weight.dtype) == ((20,), np.float32)
    network.assert_consistent(batch)


def test_batch_is_a_tuple_of_named_tuples_with_long_names() -> None:
    with full_pair(1) as (server, client):
        client.push_cache()
        prev, later, weight = server.get_batch(2, wait=SLACK)
    assert prev._fields == later._fields == tuple("sarpvqi")
    assert prev.state is prev.s
    assert later.info is later.i
    assert weight.tolist() == [1, 1]


def test_fields_without_a_flag_are_not_sent() -> None:
    flags = [True, False, True, False, True, False, True, *[False] * 6, True]
    with full_pair(1, cache_flags=flags) as (server, client):
        client.push_cache()
        batch = server.get_batch(4, wait=SLACK)
    assert [len(field) for field in (*batch.prev, *batch.next)] == [4 * flag for flag in flags]
    assert (batch.next.i == batch.prev.i + 1).all()


@pytest.mark.parametrize("n_caches", [1, 3])
def test_newest_caches_are_kept(n_caches: int) -> None:
    with full_pair(n_caches, cache_size=4) as (server, client):
        for _ in range(n_caches + 4):
            client.push_cache()
        arrived(server, n_caches + 4)
        assert server.weight_sum == n_caches * client.rem.weight_sum
        server.get_batch(4 * n_caches)
        with pytest.raises(RuntimeError, match="have 0 unused"):
            server.get_batch(1)


def test_refused_batch_takes_no_sample() -> None:
    with full_pair(2, cache_size=4) as (server, client):
        client.push_cache()
        arrived(server, 1)
        with pytest.raises(RuntimeError, match="have 1, need n_caches=2"):
            server.get_batch(1)
        client.push_cache()
        arrived(server, 2)
        with pytest.raises(RuntimeError, match="have 8 unused samples, need batch_size=9"):
            server.get_batch(9)
        assert len(server.get_batch(8).weight) == 8


def test_caches_are_reused_if_the_server_sets_reuse_cache() -> None:
    with full_pair(1, cache_size=3, reuse_cache=True) as (server, client):
        client.push_cache()
        infos = server.get_batch(9, wait=SLACK).prev.i.tolist()
        assert infos == infos[:3] * 3


def test_reuse_can_be_switched_while_clients_push() -> None:
    with full_pair(1, cache_size=3) as (server, client):
        client.push_cache()
        server.get_batch(3, wait=SLACK)
        server.rem.reuse_cache = True
        assert len(server.get_batch(7).weight) == 7


def test_caches_of_other_flags_than_the_server_has_now_are_refused() -> None:
    with full_pair(1) as (server, client):
        client.push_cache()
        arrived(server, 1)
        server.rem.cache_flags = [False]
        client.push_cache()
        eventually(lambda: server.total_refused == 1)
        with pytest.raises(RuntimeError, match="have 0"):
            server.get_batch(1)
        client.sync_sizes(64)
        build.add_uniform(client.rem, 5)
        client.push_cache()
        assert len(server.get_batch(4, wait=SLACK).prev.s) == 0


def test_seed_reproduces_batches() -> None:
    def draws(seed: int) -> list[int]:
        with started(2, seed=seed, cache_size=50) as server:
            for client_seed in (1, 2):
                with connected(server, seed=client_seed) as client:
                    build.add_uniform(client.rem, 30, first=100 * client_seed)
                    client.push_cache()
                    arrived(server, client_seed)
            return server.get_batch(60).prev.i.tolist()

    assert draws(3) == draws(3)
    assert draws(3) != draws(4)


def test_shares_follow_the_sums_of_weights_of_the_clients() -> None:
    with started(2, seed=0, reuse_cache=True) as server:
        for at, weight in enumerate((1.0, 3.0)):
            with connected(server) as client:
                build.add_uniform(client.rem, 11, first=1000 * at, init_w=weight)
                client.push_cache()
                arrived(server, at + 1)
        share = (server.get_batch(40_000).prev.i >= 1000).mean()
    # 0.011 is five standard deviations.
    assert share == pytest.approx(0.75, abs=0.011)


# -- waiting --


def test_call_that_waits_ends_when_the_last_cache_arrives() -> None:
    with full_pair(2, cache_size=4) as (server, client):
        waits = Call(lambda: server.get_batch(5, wait=60))
        client.push_cache()
        assert waits.blocks()
        client.push_cache()
        assert len(waits.result().weight) == 5


def test_several_waiting_get_batch_calls_each_get_a_batch() -> None:
    with full_pair(1, cache_size=4) as (server, client):
        waits = [Call(lambda: server.get_batch(4, wait=60)) for _ in range(3)]
        for number in range(200):
            client.push_cache()
            arrived(server, number + 1)
            if not any(each.blocks(0) for each in waits):
                break
        assert [len(each.result().weight) for each in waits] == [4, 4, 4]


def test_wait_that_is_too_short_is_a_timeout_with_counts() -> None:
    with full_pair(2, cache_size=4) as (server, client):
        client.push_cache()
        arrived(server, 1)
        with pytest.raises(TimeoutError, match="have 1, need n_caches=2"):
            server.get_batch(1, wait=0.05)
        client.push_cache()
        assert len(server.get_batch(8, wait=SLACK).weight) == 8


@pytest.mark.parametrize(
    ("wait", "error"), [(None, RuntimeError), (0, TimeoutError), (0.01, TimeoutError)]
)
def test_too_few_samples_are_an_error_by_wait(wait: float | None, error: type) -> None:
    with full_pair(1) as (server, client):
        with pytest.raises(error, match="have 0, need n_caches=1"):
            server.get_batch(1, wait=wait)
        client.push_cache()
        arrived(server, 1)
        assert len(server.get_batch(1, wait=wait).weight) == 1


def test_infinite_wait_ends_with_the_first_caches() -> None:
    with full_pair(1) as (server, client):
        batch = Call(lambda: server.get_batch(4, wait=float("inf")))
        assert batch.blocks()
        client.push_cache()
        assert len(batch.result().weight) == 4


@pytest.mark.parametrize("wait", [-1, -0.001, math.nan])
def test_wait_out_of_range_is_refused(wait: float) -> None:
    with made() as server, pytest.raises(ValueError, match="wait"):
        server.get_batch(1, wait=wait)


@pytest.mark.parametrize("wait", ["1", True, [1]])
def test_wait_that_is_not_a_number_is_refused(wait: Any) -> None:
    with made() as server, pytest.raises(TypeError, match="wait"):
        server.get_batch(1, wait=wait)


def test_wait_of_any_length_ends_with_the_server() -> None:
    with made() as server:
        waits = [
            Call(lambda wait=wait: server.get_batch(1, wait=wait)) for wait in (1e300, math.inf)
        ]
        assert waits[0].blocks()
    for each in waits:
        with pytest.raises(RuntimeError, match="closed"):
            each.result()


@pytest.mark.parametrize("size", [0, -1])
@pytest.mark.parametrize("wait", [None, 1])
def test_batch_size_out_of_range(size: int, wait: float | None) -> None:
    with made() as server, pytest.raises(ValueError, match="batch_size"):
        server.get_batch(size, wait=wait)
