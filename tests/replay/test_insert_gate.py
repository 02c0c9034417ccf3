"""A client and its server's rate limiter: what may be inserted, and the wait for it."""

import math
import time
from types import SimpleNamespace
from typing import Any

import pytest
import zmq

from cogrs import RateLimiter, ReplayMemoryClient
from cogrs.api import replay_pb2 as pb
from cogrs.replay.insert_gate import GateCalls, InsertGate
from cogrs.replay.pubsub.topic_key import ALLOWANCE
from cogrs.replay.wire import decode, encode
from tests.replay import build, network
from tests.replay.network import SLACK, Call, arrived, connected, deaf, eventually, pair

WIDE = {"samples_per_insert": 2.0, "min_size": 10, "error_buffer": 40.0}
"""30 entries may come before the first sample: 2 * inserts - samples <= 60."""
REUSED = {"reuse_cache": True, "limiter": RateLimiter(**WIDE)}


def fill(server: Any, client: Any) -> None:
    """Insert all that may come, and have a cache for the learner."""
    build.add_uniform(client.rem, 30)
    client.update_counter()
    client.push_cache()
    arrived(server, 1)


def test_client_without_limiter_may_always_insert_and_asks_nothing() -> None:
    with pair() as (server, client):
        assert client.may_insert(10**6)
        assert client.wait_to_insert(10**6)
        server.close()
        assert client.wait_to_insert()


def test_may_insert_says_how_many_entries_the_limiter_lets_in() -> None:
    with pair(1, **REUSED) as (server, client):
        assert [client.may_insert(n) for n in (1, 30, 31)] == [True, True, False]
        build.add_uniform(client.rem, 18)
        assert [client.may_insert(n) for n in (12, 13)] == [True, False]
        build.add_uniform(client.rem, 12)
        assert not client.may_insert()
        assert server.stats().limiter.inserts == 30
        client.push_cache()
        server.get_batch(1, wait=SLACK)
        eventually(lambda: server.stats().limiter.samples == 1)
        server.get_batch(1)
        # 2 * 30 - 2 = 58. What is known is a second old at most.
        eventually(client.may_insert)
        assert not client.may_insert(2)


def test_limiter_without_upper_bound_lets_all_in() -> None:
    with pair(limiter=RateLimiter.min_size(5)) as (_, client):
        build.add_uniform(client.rem, 60)
        assert client.may_insert(10**6)
        assert client.wait_to_insert(timeout=0)


def test_clients_share_the_entries_that_the_limiter_lets_in() -> None:
    with pair(1, **REUSED) as (server, client), connected(server) as other:
        assert other.may_insert(30)
        build.add_uniform(client.rem, 25)
        assert client.wait_to_insert(timeout=SLACK)
        eventually(lambda: not other.may_insert(6))
        assert other.may_insert(5)


def test_wait_to_insert_tells_the_totals() -> None:
    with pair(1, **REUSED) as (server, client):
        build.add_uniform(client.rem, 20)
        assert client.wait_to_insert()
        assert (server.total_episodes, server.total_steps) == (1, 20)


def test_wait_ends_as_soon_as_the_learner_has_taken_samples() -> None:
    with pair(1, **REUSED) as (server, client):
        fill(server, client)
        wait = Call(client.wait_to_insert)
        assert wait.blocks(0.3)
        server.get_batch(2)
        assert wait.result() is True
        client.update_counter()
        assert server.stats().limiter.insert_wait_seconds >= 0.3


def test_wait_is_for_one_entry_however_many_are_to_come() -> None:
    with pair(1, **REUSED) as (server, client):
        assert client.wait_to_insert(10**9, timeout=SLACK)
        fill(server, client)
        assert not client.wait_to_insert(10**9, timeout=0.1)


def test_wait_that_is_too_short_returns_false() -> None:
    with pair(1, **REUSED) as (server, client):
        fill(server, client)
        begin = time.monotonic()
        assert client.wait_to_insert(timeout=0) is False
        assert client.wait_to_insert(timeout=0.3) is False
        assert time.monotonic() - begin >= 0.3


def test_all_threads_that_wait_are_woken() -> None:
    with pair(1, **REUSED) as (server, client):
        fill(server, client)
        waits = [Call(client.wait_to_insert) for _ in range(3)]
        assert all(wait.blocks() for wait in waits)
        server.get_batch(8)
        assert [wait.result() for wait in waits] == [True] * 3


def test_client_without_sub_endpoint_asks_again_and_again() -> None:
    with pair(1, **REUSED) as (server, client):
        fill(server, client)
        ends = "", server.rep_endpoint, server.pull_endpoint
        with ReplayMemoryClient(*ends, max_step=64) as quiet:
            wait = Call(quiet.wait_to_insert)
            assert wait.blocks()
            server.get_batch(2)
            assert wait.result() is True


def test_starved_learner_gets_caches_of_clients_that_wait() -> None:
    with pair(2, cache_size=4, limiter=RateLimiter(**WIDE)) as (server, client):
        build.add_uniform(client.rem, 60)
        wait = Call(client.wait_to_insert)
        assert wait.blocks()
        assert server.total_caches == 0, "no learner waits yet"
        # 2 * 61 - 62 <= 60: the 21st batch of three ends the wait.
        for _ in range(20):
            assert len(server.get_batch(3).weight) == 3
        assert wait.blocks()
        server.get_batch(3)
        assert wait.result() is True


def test_client_that_has_nothing_to_push_to_a_starved_learner_may_insert() -> None:
    with pair(1, cache_size=4, limiter=RateLimiter(**WIDE)) as (server, client):
        build.add_uniform(client.rem, 30)
        client.update_counter()
        with connected(server) as empty:
            assert not empty.wait_to_insert(timeout=0.1)
            batch = Call(lambda: server.get_batch(4))
            assert empty.wait_to_insert(timeout=SLACK)
            build.add_uniform(empty.rem, 5)
            assert empty.push_cache() == 0
            batch.result()


def test_waiting_client_finds_a_server_that_is_started_again() -> None:
    with pair(1, **REUSED) as (server, client):
        fill(server, client)
        wait = Call(client.wait_to_insert)
        assert wait.blocks()
        server.close()
        assert wait.blocks(0.3)
        with network.once_free(lambda: network.restarted(server, 1, **REUSED)):
            assert wait.result(3 * SLACK) is True


def test_wait_for_a_server_that_is_away_ends_with_its_time() -> None:
    with pair(1, **REUSED) as (server, client):
        fill(server, client)
        server.close()
        assert client.wait_to_insert(timeout=1.5) is False


def test_may_insert_of_a_server_that_is_away_raises() -> None:
    with network.started(1, **REUSED) as server, connected(server, timeout=0.2) as client:
        server.close()
        with pytest.raises(TimeoutError, match="no answer"):
            client.may_insert()


def test_close_ends_the_wait() -> None:
    with pair(1, **REUSED) as (server, client):
        fill(server, client)
        wait = Call(client.wait_to_insert)
        assert wait.blocks()
        client.close()
        with pytest.raises(RuntimeError, match="ReplayMemoryClient is closed"):
            wait.result()


@pytest.mark.parametrize("call", ["may_insert", "wait_to_insert"])
@pytest.mark.parametrize(("n", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError)])
def test_number_of_entries_that_is_not_valid_is_refused(call: str, n: Any, error: type) -> None:
    with pair() as (_, client), pytest.raises(error, match=r"^n: expected an integer"):
        getattr(client, call)(n)


@pytest.mark.parametrize(
    ("timeout", "error"), [(-1, ValueError), (math.nan, ValueError), ("1", TypeError)]
)
def test_timeout_that_is_not_valid_is_refused(timeout: Any, error: type) -> None:
    with pair() as (_, client), pytest.raises(error, match="timeout"):
        client.wait_to_insert(timeout=timeout)


@pytest.mark.parametrize("call", ["may_insert", "wait_to_insert"])
def test_client_without_memory_cannot_ask(call: str) -> None:
    with deaf() as client, pytest.raises(RuntimeError, match="sync_sizes"):
        getattr(client, call)()


def test_answers_of_a_server_have_an_allowance_only_with_a_limiter() -> None:
    for limiter in (None, RateLimiter(**WIDE)):
        numbers = []
        with (
            network.started(limiter=limiter) as server,
            network.raw(zmq.REQ, server.rep_endpoint) as socket,
        ):
            for body in (
                {"sizes_request": pb.SizesRequest()},
                {"counter": pb.Counter()},
                {"samples_request": pb.SamplesRequest(number=1)},
                {"log": pb.Log()},
            ):
                socket.send(encode(1, **body))
                answer = pb.Header.FromString(socket.recv_multipart()[0])
                assert answer.HasField("allowance") == (limiter is not None)
                if limiter is not None:
                    assert answer.allowance.inserts == 30
                    numbers.append(answer.allowance.number)
        assert numbers == sorted(set(numbers))


def test_message_on_the_topic_of_allowances_that_is_foreign_is_ignored() -> None:
    with pair(1, **REUSED) as (server, client):
        fill(server, client)
        wait = Call(client.wait_to_insert)
        server.wait_subscribers(ALLOWANCE)
        for message in (b"\xff", b"", encode(1, log=pb.Log())):
            server.pub_bytes(ALLOWANCE, message)
        assert wait.blocks()
        server.get_batch(2)
        assert wait.result() is True


def test_limiter_publishes_nothing_that_counts_as_the_users_messages() -> None:
    with pair(1, **REUSED) as (server, client):
        fill(server, client)
        assert not client.wait_to_insert(timeout=0.1)
        server.get_batch(2)
        assert client.wait_to_insert(timeout=SLACK)
        assert server.stats().published == 0


def test_header_of_an_allowance_survives_encoding() -> None:
    allowance = pb.Allowance(server=2**64 - 1, number=7, inserts=0, starved=True)
    got = decode(encode(1, allowance=allowance))
    assert got.WhichOneof("body") is None
    assert got.allowance == allowance
    assert got.allowance.HasField("inserts")
    assert not got.allowance.HasField("most_samples")


def test_call_that_is_not_to_wait_gives_a_silent_server_a_tenth_of_a_second() -> None:
    asked = []

    def silent(seconds: float | None) -> None:
        asked.append(seconds)
        raise TimeoutError

    transport: Any = SimpleNamespace(check=lambda: None)
    gate = InsertGate(transport, None)
    gate.take(pb.Header(allowance=pb.Allowance(server=1, number=1, inserts=9)), 0)
    calls = GateCalls(closed=lambda: 5, report=silent, push=lambda: False)
    assert gate.wait(calls, 1, 0) is False
    assert asked == [0.1]


def test_client_listens_before_its_first_wait() -> None:
    with pair(1, **REUSED) as (server, client):
        server.wait_subscribers(ALLOWANCE, timeout=SLACK)
        assert client.may_insert()
