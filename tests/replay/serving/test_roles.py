"""Requests that clients may send by their keys, and the limits of one request."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import pytest
import zmq

from cogrs import Conn, KeyPair, ReplayMemoryClient, ReplayMemoryServer, ReplaySampler
from cogrs.api import replay_pb2 as pb
from cogrs.limits import MOST_PRIORITY_CLIENTS, MOST_PRIORITY_ROWS, MOST_SAMPLES, SMALL_FRAME
from cogrs.replay.priorities import Priorities
from cogrs.replay.proxy import ReplayProxy
from cogrs.replay.wire import decode, encode
from tests.replay import build, network
from tests.replay.network import LOOPBACK, SLACK, Call, arrived, eventually, made, started

SERVER, PUSHER, OTHER, SAMPLER = (KeyPair.new() for _ in range(4))
SAFE: dict[str, Any] = {
    "key": SERVER,
    "allow": [PUSHER, OTHER],
    "allow_samplers": [SAMPLER],
    "ids": True,
}


def keys(pair: KeyPair) -> dict[str, Any]:
    return {"key": pair, "server_key": SERVER.public, "timeout": SLACK}


@contextmanager
def served(behind: str) -> Iterator[tuple[ReplayMemoryServer, tuple[str, str, str]]]:
    """A server with keys, and where its clients go."""
    with ExitStack() as stack:
        server = stack.enter_context(made(1, **SAFE))
        if behind == "nothing":
            server.start()
            yield server, network.endpoints(server)
            return
        if behind == "a proxy":
            keys = {name: SAFE[name] for name in ("key", "allow", "allow_samplers")}
            proxy = stack.enter_context(ReplayProxy(*[LOOPBACK] * 4, **keys))
            fronts, backs = (proxy.rep_front, proxy.pull_front), (proxy.rep_back, proxy.pull_back)
        else:
            backs = "inproc://rep", "inproc://pull"
            Call(lambda: server.rep_proxy_main(LOOPBACK, backs[0]))
            Call(lambda: server.pull_proxy_main(LOOPBACK, backs[1]))
            eventually(lambda: server.rep_endpoint and server.pull_endpoint)
            fronts = server.rep_endpoint, server.pull_endpoint
        Call(lambda: server.rep_worker_main(backs[0], Conn))
        Call(lambda: server.pull_worker_main(backs[1], Conn))
        yield server, (server.pub_endpoint, *fronts)


BEHIND = pytest.mark.parametrize("behind", ["nothing", "a proxy", "its own proxies"])


@BEHIND
def test_pushers_push_and_samplers_draw(behind: str) -> None:
    with served(behind) as (server, where):
        with ReplayMemoryClient(*where, max_step=64, **keys(PUSHER)) as client:
            build.add_uniform(client.rem, 20)
            client.push_cache()
            client.update_counter()
            client.write_log("line")
            arrived(server, 1)
            eventually(lambda: server.stats().log_lines == 1)
            for pair in (SAMPLER, SERVER):
                with ReplaySampler([where[1]], **keys(pair)) as sampler:
                    batch = sampler.get_batch(4, wait=SLACK)
                    assert sampler.update_priority(batch.id, batch.sender, batch.weight) == 0
                    assert client.apply_priorities(timeout=SLACK).entries > 0
                    sampler.pub_bytes("model", pair.public)
                    assert client.sub_bytes("model", timeout=SLACK, last=True)
        assert server.total_refused == 0


@BEHIND
def test_pushers_do_not_draw(behind: str) -> None:
    with served(behind) as (server, where):
        unused = server.stats().samples_unused
        for number, ask in enumerate(
            (
                lambda sampler: sampler.get_batch(1, wait=SLACK),
                lambda sampler: sampler.pub_bytes("model", "other"),
            ),
            1,
        ):
            with (
                ReplaySampler([where[1]], **keys(PUSHER)) as sampler,
                pytest.raises(RuntimeError, match="allow_samplers"),
            ):
                ask(sampler)
            assert server.stats().refused["key"] == number
        stats = server.stats()
        assert (stats.samples_unused, stats.published) == (unused, 0)


@BEHIND
def test_uuid_belongs_to_the_key_of_its_first_use(behind: str) -> None:
    with (
        served(behind) as (server, where),
        ReplayMemoryClient(*where, 7, max_step=64, **keys(PUSHER)) as client,
        ReplayMemoryClient(*where, 7, max_step=64, **keys(OTHER)) as thief,
        ReplayMemoryClient(*where, 8, max_step=64, **keys(OTHER)) as other,
    ):
        for each, steps in ((client, 20), (thief, 30), (other, 10)):
            build.add_uniform(each.rem, steps)
        client.update_counter()
        other.update_counter()
        with pytest.raises(RuntimeError, match="00000007 used another key"):
            thief.update_counter()
        thief.push_cache()
        thief.write_log("in the name of another")
        eventually(lambda: server.stats().refused["key"] == 3)
        assert (server.total_steps, server.total_caches) == (30, 0)
        assert server.stats().log_lines == 0
        client.push_cache()
        arrived(server, 1)


def test_allowed_clients_may_draw_if_samplers_are_not_listed() -> None:
    with started(1, key=SERVER, allow=[PUSHER]) as server:
        where = network.endpoints(server)
        with (
            ReplayMemoryClient(*where, max_step=64, **keys(PUSHER)) as client,
            ReplaySampler([where[1]], **keys(PUSHER)) as sampler,
        ):
            build.add_uniform(client.rem, 20)
            client.push_cache()
            assert len(sampler.get_batch(4, wait=SLACK).weight) == 4


def test_samplers_need_keys() -> None:
    with pytest.raises(ValueError, match=r"key: expected .*allow_samplers was given"):
        made(1, allow_samplers=[SAMPLER])
    with pytest.raises(ValueError, match="allow: expected"):
        made(1, key=SERVER, allow_samplers=[SAMPLER])
    with pytest.raises(TypeError, match="allow_samplers: expected"):
        made(1, key=SERVER, allow=[], allow_samplers=3)


def priorities(rows: int, clients: int) -> bytes:
    ids, errors = np.arange(rows, dtype=np.uint64), np.ones(rows, np.float32)
    senders = (np.arange(rows) % clients).astype(np.uint32)
    told = pb.Priorities(ids=ids.tobytes(), senders=senders.tobytes(), errors=errors.tobytes())
    return encode(1, priorities=told)


LARGE = {
    "samples": (encode(1, samples_request=pb.SamplesRequest(rows=MOST_SAMPLES + 1)), "65536"),
    "rows": (priorities(MOST_PRIORITY_ROWS + 1, 1), str(MOST_PRIORITY_ROWS)),
    "clients": (priorities(MOST_PRIORITY_CLIENTS + 1, 1 << 20), str(MOST_PRIORITY_CLIENTS)),
}


@pytest.mark.parametrize("what", LARGE)
def test_request_for_too_much_is_refused_with_the_bound(what: str) -> None:
    message, bound = LARGE[what]
    with started(1, ids=True) as server, network.raw(zmq.REQ, server.rep_endpoint) as socket:
        socket.send(message)
        reason = decode(socket.recv()).refusal.reason
        assert bound in reason
        assert server.stats().refused["size"] == 1
        assert server.stats().published == 0


def test_header_that_is_too_large() -> None:
    # Frames may be larger than headers where caches are.
    with (
        started(1, s=np.zeros(1 << 16), cache_size=64) as server,
        network.raw(zmq.REQ, server.rep_endpoint) as socket,
    ):
        socket.send(bytes(SMALL_FRAME + 1))
        assert str(SMALL_FRAME) in decode(socket.recv()).refusal.reason


@pytest.mark.parametrize(
    ("rows", "clients"), [(5, 2), (40_000, 3), (5_000, 3_000), (70_000, 1_025)]
)
def test_priorities_are_sent_in_parts_that_a_server_takes(rows: int, clients: int) -> None:
    ids, errors = np.arange(rows, dtype=np.uint64), np.random.rand(rows).astype(np.float32)
    senders = np.random.randint(0, clients, rows).astype(np.uint32)
    parts = [Priorities.read(part) for part in Priorities(ids, senders, errors).requests()]
    assert all(len(part.ids) <= MOST_PRIORITY_ROWS for part in parts)
    assert all(part.num_clients <= MOST_PRIORITY_CLIENTS for part in parts)
    columns = zip(*(part[:3] for part in parts), strict=True)
    merged = [np.concatenate(column) for column in columns]
    order = np.argsort(merged[0], kind="stable")
    for column, expected in zip(merged, (ids, senders, errors), strict=True):
        np.testing.assert_array_equal(column[order], expected)


def test_batch_larger_than_the_limit_of_one_request_is_filled() -> None:
    with network.full_pair(1, reuse_cache=True) as (server, client):
        client.push_cache()
        arrived(server, 1)
        with ReplaySampler([server.rep_endpoint], timeout=SLACK) as sampler:
            assert (
                len(sampler.get_batch(MOST_SAMPLES + 100, wait=SLACK).weight) == MOST_SAMPLES + 100
            )


def test_client_subscribes_to_so_many_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cogrs.replay.pubsub.subscriber.MOST_TOPICS", 3)
    with network.pair() as (server, client):
        for topic in "abc":
            with pytest.raises(TimeoutError):
                client.sub_bytes(topic, timeout=0)
        with pytest.raises(RuntimeError, match="3 topics"):
            client.sub_bytes("d", timeout=0)
        server.wait_subscribers("a", timeout=SLACK)
        server.pub_bytes("a", "message")
        assert client.sub_bytes("a", timeout=SLACK, last=True) == b"message"


def test_publication_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cogrs.replay.pubsub.publisher.LARGEST_MESSAGE", 10)
    with made(1) as server:
        server.pub_bytes("t", bytes(10))
        for publish in (server.pub_bytes, server.rem.pub_bytes):
            with pytest.raises(ValueError, match="message: expected at most 10 bytes, got 11"):
                publish("t", bytes(11))
