"""Requests to a server: none is lost while it runs, and none stops it."""

import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import pytest
import zmq

from cogrs import Conn, KeyPair, ReplayMemoryClient, ReplayMemoryServer, ReplaySampler
from cogrs.api import replay_pb2 as pb
from cogrs.replay import ReplayProxy
from cogrs.replay.net.socket_context import REQUEST_HWM
from cogrs.replay.priorities import topic_of
from cogrs.replay.wire import encode
from tests.replay import build
from tests.replay.network import (
    LOOPBACK,
    SLACK,
    Call,
    arrived,
    connected,
    deaf,
    eventually,
    made,
    started,
    unused_endpoints,
)

SIZES = encode(1, sizes_request=pb.SizesRequest())

MALFORMED: dict[str, list[bytes]] = {
    "delimiter": [b""],
    "short": [b"x"],
    "delimiters": [b""] * 20,
    "garbage": [b"", b"garbage"],
    "no delimiter": [b"x"] * 10,
    "no delimiter, many": [b"x"] * 300,
    "long": [b"", *[bytes(10_000)] * 100],
    "late delimiter": [*[b"x"] * 40, b"", SIZES],
    "header alone": [SIZES],
    "header behind a delimiter too many": [b"", b"", SIZES],
    "nested": [b"hop", b"hop", b""],
}


# -- a server that is reached in each of the ways --


@contextmanager
def direct(server: ReplayMemoryServer[Any], _key: Any) -> Iterator[str]:
    server.start()
    yield server.rep_endpoint


def close(server: ReplayMemoryServer[Any], loops: list[Call]) -> None:
    """Close a server, and wait until its loops have ended."""
    server.close()
    for loop in loops:
        with contextlib.suppress(RuntimeError):  # of a worker whose thread had not begun
            loop.result()


@contextmanager
def own_proxy(server: ReplayMemoryServer[Any], _key: Any) -> Iterator[str]:
    front, back = unused_endpoints(2)
    calls = [Call(lambda: server.rep_proxy_main(front, back))]
    calls += [Call(lambda: server.rep_worker_main(back, Conn)) for _ in range(2)]
    yield front
    close(server, calls)


@contextmanager
def other_proxy(server: ReplayMemoryServer[Any], key: Any) -> Iterator[str]:
    keys = {} if key is None else {"key": key[0], "allow": [key[1].public]}
    with ReplayProxy(*[LOOPBACK] * 4, **keys) as proxy:
        calls = [Call(lambda: server.rep_worker_main(proxy.rep_back, Conn)) for _ in range(2)]
        yield proxy.rep_front
        close(server, calls)


WAYS = [direct, own_proxy, other_proxy]


@contextmanager
def reached(
    way: Callable[..., Any], with_keys: bool, **changes: Any
) -> Iterator[tuple[ReplayMemoryServer[Any], str, dict[str, Any]]]:
    """A server, where its requests go, and what a client needs to be let in."""
    pairs = (KeyPair.new(), KeyPair.new()) if with_keys else None
    theirs = {"key": pairs[0], "allow": [pairs[1].public]} if pairs else {}
    options = {"key": pairs[1], "server_key": pairs[0].public} if pairs else {}
    with made(1, **theirs, **changes) as server, way(server, pairs) as front:
        yield server, front, options


@contextmanager
def dealer(front: str, options: dict[str, Any]) -> Iterator[zmq.Socket[bytes]]:
    """A DEALER of ZeroMQ's own, with the keys of a client."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.linger, socket.rcvtimeo = 2000, int(SLACK * 1000)
        if options:
            socket.curve_serverkey = options["server_key"].encode()
            socket.curve_publickey = options["key"].public.encode()
            socket.curve_secretkey = options["key"].secret.encode()
        socket.connect(front)
        yield socket


def asks(front: str, options: dict[str, Any]) -> ReplayMemoryClient:
    """A client that only asks."""
    return ReplayMemoryClient("tcp://127.0.0.1:1", front, "tcp://127.0.0.1:1", **options)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("with_keys", [False, True], ids=["open", "keys"])
def test_malformed_requests_are_answered_or_dropped_and_counted(
    way: Callable[..., Any], with_keys: bool
) -> None:
    with reached(way, with_keys) as (server, front, options), asks(front, options) as client:
        client.sync_sizes(8)
        for number, frames in enumerate(MALFORMED.values(), 1):
            with dealer(front, options) as socket:
                socket.send_multipart(frames)
                eventually(lambda number=number: server.total_refused == number)
                client.update_counter()
        assert server.stats().refused["frames"] > 0


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("with_keys", [False, True], ids=["open", "keys"])
@pytest.mark.parametrize("rounds", [50 if build.SOAK else 8])
def test_malformed_requests_of_peers_that_leave_at_once_do_not_stop_the_endpoint(
    way: Callable[..., Any], with_keys: bool, rounds: int
) -> None:
    draws = random.Random(rounds)
    with reached(way, with_keys) as (_server, front, options):
        for _ in range(rounds):
            with dealer(front, options) as socket:
                for frames in draws.choices(list(MALFORMED.values()), k=6):
                    socket.send_multipart(frames)
                for frames in ([b""], [b"x"], [b""] * 20):
                    socket.send_multipart(frames)
                socket.close(linger=draws.choice((0, 100)))
            with asks(front, options) as client:
                client.sync_sizes(8)


@pytest.mark.parametrize("way", WAYS)
def test_replies_return_through_several_routing_ids(way: Callable[..., Any]) -> None:
    with reached(way, False) as (_server, front, options), dealer(front, options) as socket:
        for hops in ([], [b"one"], [b"one", b"two", b"three"]):
            socket.send_multipart([*hops, b"", SIZES])
            *back, empty, answer = socket.recv_multipart()
            assert (back, empty) == (hops, b"")
            assert pb.Header.FromString(answer).WhichOneof("body") == "sizes"


def test_unread_replies_are_counted_and_block_no_other_client() -> None:
    state = np.zeros(1 << 15, np.uint8)
    with (
        started(1, s=state, reuse_cache=True, cache_size=4) as server,
        connected(server) as client,
    ):
        build.add_uniform(client.rem, 8, s=np.zeros((8, 1 << 15), np.uint8))
        client.push_cache()
        arrived(server, 1)
        request = encode(1, samples_request=pb.SamplesRequest(rows=1))
        with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
            socket.linger = 0
            socket.sndhwm, socket.rcvhwm = 0, 1
            socket.connect(server.rep_endpoint)
            for _ in range(REQUEST_HWM + 1000):
                socket.send_multipart([b"", request])
            eventually(lambda: server.stats().answers_dropped > 0, within=60)
            client.update_counter()
        client.update_counter()


# -- nothing lost --


@pytest.mark.parametrize("calls", [20_000 if build.SOAK else 1_000])
@pytest.mark.parametrize("hwm", [1, 2, 16])
def test_no_counter_is_lost_however_small_the_high_water_mark_of_caches(
    hwm: int, calls: int
) -> None:
    with started(1, hwm=hwm) as server, connected(server, hwm=hwm, timeout=SLACK) as client:
        for _ in range(calls):
            client.update_counter()


@pytest.mark.parametrize("calls", [10_000 if build.SOAK else 500])
@pytest.mark.parametrize("way", [own_proxy, other_proxy])
def test_no_counter_is_lost_behind_a_proxy(way: Callable[..., Any], calls: int) -> None:
    with (
        reached(way, False, hwm=1) as (_server, front, options),
        asks(front, options | {"hwm": 1, "timeout": SLACK}) as client,
    ):
        client.sync_sizes(8)
        for _ in range(calls):
            client.update_counter()


@pytest.mark.parametrize("calls", [5_000 if build.SOAK else 300])
def test_no_counter_is_lost_while_another_thread_adds_episodes(calls: int) -> None:
    stop = threading.Event()
    with started(1, hwm=1) as server, connected(server, 4096, hwm=1, timeout=SLACK) as client:

        def adds() -> int:
            episodes = 0
            while not stop.is_set():
                build.add_uniform(client.rem, 20)
                episodes += 1
            return episodes

        adding = Call(adds)
        try:
            for _ in range(calls):
                client.update_counter()
        finally:
            stop.set()
        episodes = adding.result()
        client.update_counter()
        assert (server.total_episodes, server.total_steps) == (episodes, 20 * episodes)


@pytest.mark.parametrize("rounds", [300 if build.SOAK else 20])
@pytest.mark.parametrize("servers", [1, 2])
def test_no_batch_and_no_priority_is_lost_by_a_sampler(servers: int, rounds: int) -> None:
    with ExitStack() as stack:
        several = [
            stack.enter_context(started(1, ids=True, reuse_cache=True)) for _ in range(servers)
        ]
        clients = [stack.enter_context(connected(each, timeout=SLACK)) for each in several]
        for server, client in zip(several, clients, strict=True):
            build.add_uniform(client.rem, 40)
            server.wait_subscribers(topic_of(client.uuid), timeout=SLACK)
            client.push_cache()
            arrived(server, 1)
        where = [server.rep_endpoint for server in several]
        sampler = stack.enter_context(ReplaySampler(where, timeout=SLACK))
        for _ in range(rounds):
            batches = [sampler.get_batch(16) for _ in range(16)]
            for batch in batches:
                priority = np.ones(len(batch.id))
                assert sampler.update_priority(batch.id, batch.sender, priority) == 0
        assert sum(server.total_refused for server in several) == 0


# -- what a time-out says --


def test_timeout_error_mentions_keys_only_without_a_connection() -> None:
    with deaf(timeout=0.3) as client:
        with pytest.raises(TimeoutError, match=r"no connection; .* it may want keys"):
            client.sync_sizes(8)
        with pytest.raises(TimeoutError, match=r"no connection; .* it may want keys"):
            client.sub_bytes("t", timeout=0.3)
    with zmq.Context() as context, context.socket(zmq.ROUTER) as silent:
        port = silent.bind_to_random_port("tcp://127.0.0.1")
        where = f"tcp://127.0.0.1:{port}"
        with ReplayMemoryClient(where, where, where, timeout=1.0) as client:
            with pytest.raises(TimeoutError, match="no answer from") as late:
                client.sync_sizes(8)
            assert "keys" not in str(late.value)
        with ReplaySampler([where], timeout=1.0) as sampler:
            with pytest.raises(TimeoutError, match="no answer from") as late:
                sampler.get_batch(4)
            assert "keys" not in str(late.value)


def test_message_timeout_mentions_keys_only_without_a_connection() -> None:
    with started(1) as server, connected(server) as client:
        waits = Call(lambda: client.sub_bytes("t", timeout=SLACK))
        server.wait_subscribers("t", timeout=SLACK)
        server.pub_bytes("t", "m")
        assert waits.result() == b"m"
        with pytest.raises(TimeoutError, match="no message of topic b't'") as late:
            client.sub_bytes("t", timeout=0.01)
        assert "keys" not in str(late.value)
