"""A `ReplaySampler` of servers with rate limiters."""

from typing import Any

import pytest
import zmq

from cogrs import RateLimiter, ReplaySampler
from cogrs.api import replay_pb2 as pb
from cogrs.replay.wire import encode
from tests.replay import build, network
from tests.replay.network import SLACK, Call, arrived, connected, eventually, pair, started

WIDE = {"samples_per_insert": 2.0, "min_size": 10, "error_buffer": 40.0}
REUSED = {"reuse_cache": True, "limiter": RateLimiter(**WIDE)}


def fill(server: Any, client: Any, steps: int = 20) -> None:
    build.add_uniform(client.rem, steps)
    client.update_counter()
    client.push_cache()
    arrived(server, 1)


@pytest.fixture
def one() -> Any:
    """A server with a limiter and 20 steps, its client, and a sampler of it."""
    with pair(1, **REUSED) as (server, client), ReplaySampler([server.rep_endpoint]) as sampler:
        fill(server, client)
        yield server, client, sampler


def test_samples_that_a_sampler_gets_are_counted(one: Any) -> None:
    server, _, sampler = one
    assert len(sampler.get_batch(30).weight) == 30
    assert server.stats().limiter.samples == 30


def test_sampler_without_a_wait_waits_for_the_limiter(one: Any) -> None:
    server, client, sampler = one
    sampler.get_batch(60)
    batch = Call(lambda: sampler.get_batch(2))
    assert batch.blocks(0.3)
    build.add_uniform(client.rem, 1)
    client.update_counter()
    assert len(batch.result().weight) == 2
    assert server.stats().limiter.samples == 62
    assert server.stats().limiter.sample_wait_seconds > 0.2


def test_rows_ahead_that_the_limiter_does_not_allow_hold_no_batch_up(one: Any) -> None:
    server, _, _ = one
    with ReplaySampler([server.rep_endpoint], ahead=3) as sampler:
        for _ in range(3):
            assert len(sampler.get_batch(20, wait=SLACK).weight) == 20
        assert server.stats().limiter.samples == 60
        with pytest.raises(TimeoutError, match="does not allow a batch of 20 yet"):
            sampler.get_batch(20, wait=0.2)
    assert server.stats().limiter.samples == 60


def test_timeout_of_a_sampler_names_server_and_counts_and_counts_nothing(one: Any) -> None:
    server, _, sampler = one
    sampler.get_batch(60)
    expected = rf"{server.rep_endpoint}: the rate limiter does not allow a batch of 3 yet"
    with pytest.raises(TimeoutError, match=expected):
        sampler.get_batch(3, wait=0.2)
    assert server.stats().limiter.samples == 60


def test_batch_larger_than_the_limiter_can_allow_comes_in_parts(one: Any) -> None:
    server, client, sampler = one
    batch = Call(lambda: sampler.get_batch(120))
    assert batch.blocks()
    for _ in range(20):
        assert client.wait_to_insert(timeout=SLACK)
        build.add_uniform(client.rem, 2)
    client.update_counter()
    assert len(batch.result().weight) == 120
    assert server.stats().limiter.samples == 120


def test_starved_sampler_gets_caches_of_clients_that_wait() -> None:
    with (
        pair(3, cache_size=4, limiter=RateLimiter(**WIDE)) as (server, client),
        ReplaySampler([server.rep_endpoint]) as sampler,
    ):
        build.add_uniform(client.rem, 60)
        wait = Call(client.wait_to_insert)
        for _ in range(20):
            assert len(sampler.get_batch(3).weight) == 3
        assert wait.blocks()
        sampler.get_batch(3)
        assert wait.result() is True


def test_each_of_several_servers_has_its_own_limiter() -> None:
    with (
        started(1, **REUSED) as first,
        started(1, **REUSED) as second,
        connected(first) as client,
        connected(second) as other,
        ReplaySampler([first.rep_endpoint, second.rep_endpoint], seed=0) as sampler,
    ):
        fill(first, client)
        fill(second, other)
        assert len(sampler.get_batch(100).weight) == 100
        # Each gives 60, and a batch waits for those that it draws from.
        batch = Call(lambda: sampler.get_batch(40))
        assert batch.blocks()
        for each in (client, other):
            build.add_uniform(each.rem, 20)
            each.update_counter()
        assert len(batch.result().weight) == 40
        counts = [server.stats().limiter.samples for server in (first, second)]
        assert sum(counts) == 140
        assert max(counts) <= 100


def test_close_ends_the_wait_of_a_sampler_for_the_limiter(one: Any) -> None:
    _, _, sampler = one
    sampler.get_batch(60)
    batch = Call(lambda: sampler.get_batch(2))
    assert batch.blocks()
    sampler.close()
    with pytest.raises(RuntimeError, match="ReplaySampler is closed"):
        batch.result()


def test_request_that_a_limiter_can_never_allow_is_refused() -> None:
    with started(1, **REUSED) as server, network.raw(zmq.REQ, server.rep_endpoint) as socket:
        socket.send(encode(1, samples_request=pb.SamplesRequest(rows=79, number=1)))
        answer = pb.Header.FromString(socket.recv())
        assert "at most 78 samples" in answer.refusal.reason
        assert answer.allowance.most_samples == 78
        eventually(lambda: server.stats().refused["size"] == 1)
        assert server.stats().limiter.samples == 0
