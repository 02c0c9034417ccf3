"""Messages that no client sends: a server drops and counts them, and goes on."""

import math
import random
from typing import Any

import numpy as np
import pytest
import zmq

from cogrs import ReplayMemoryClient
from cogrs.api import replay_pb2 as pb
from cogrs.replay.pubsub.topic_key import MESSAGES, TopicKey, digest_of_topic
from cogrs.replay.wire import decode, encode
from tests.replay import build, network
from tests.replay.network import (
    SLACK,
    Call,
    assert_serves,
    eventually,
    full_pair,
    started,
)


def hostile(client: Any) -> dict[str, list[bytes]]:
    """Messages that no client sends to a PULL worker, by what is wrong with them."""
    good = network.cache_message(client)
    nan = np.full(32, np.nan, np.float32).tobytes()

    def bad(**changes: Any) -> list[bytes]:
        return network.cache_message(client, **changes)

    return {
        "empty": [b""],
        "empty frames": [b""] * 5,
        "text": [b"GET / HTTP/1.1"],
        "other version": [pb.Header(version=1, log=pb.Log(text="x")).SerializeToString()],
        "older version": [pb.Header(version=0, log=pb.Log(text="x")).SerializeToString()],
        "no body": [encode(1)],
        "request": [encode(1, sizes_request=pb.SizesRequest())],
        "reply": [encode(1, counter_reply=pb.CounterReply())],
        "log with frames": [encode(1, log=pb.Log(text="x")), b"more"],
        "cache without frames": good[:1],
        "cut header": [good[0][:-3], *good[1:]],
        "other template": bad(template=1),
        "other flags": bad(flags=1),
        "more flags than fields": bad(flags=2**32 - 1),
        "other stack": bad(frame_stack=2),
        "no rows": bad(rows=0),
        "more rows": bad(rows=33),
        "huge rows": bad(rows=2**32 - 1),
        "NaN sum": bad(weight_sum=math.nan),
        "infinite sum": bad(weight_sum=math.inf),
        "huge sum": bad(weight_sum=1.7e308),
        "sum of zero": bad(weight_sum=0.0),
        "NaN weight": bad(frames=lambda frames: [nan, *frames[1:]]),
        "negative weight": bad(frames=lambda frames: [b"\0\0\x80\xbf" * 32, *frames[1:]]),
        "short frame": bad(frames=lambda frames: [*frames[:-1], frames[-1][:-1]]),
        "missing frame": bad(frames=lambda frames: frames[:-1]),
        "further frame": bad(frames=lambda frames: [*frames, b""]),
        "thousands of frames": bad(frames=lambda frames: frames * 500),
        "frames in another order": bad(frames=lambda frames: frames[::-1]),
    }


with full_pair() as (_, _client):
    KINDS = list(hostile(_client))


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_message_is_dropped_and_counted(kind: str) -> None:
    with full_pair(1) as (server, client):
        with network.raw(zmq.PUSH, server.pull_endpoint) as socket:
            socket.send_multipart(hostile(client)[kind])
            eventually(lambda: server.total_refused == 1)
        assert (server.total_caches, server.weight_sum) == (0, 0.0)
        assert_serves(server, client)
        assert server.total_refused == 1


def test_random_bytes_are_dropped_and_counted() -> None:
    rng = random.Random(0)
    with full_pair(1) as (server, client):
        with network.raw(zmq.PUSH, server.pull_endpoint) as socket:
            for _ in range(200):
                frames = rng.randint(1, 20)
                socket.send_multipart([rng.randbytes(rng.randint(0, 99)) for _ in range(frames)])
            eventually(lambda: server.total_refused == 200)
        assert_serves(server, client)


def test_frame_that_is_too_large_ends_only_its_own_connection() -> None:
    with full_pair(1) as (server, client):
        with network.raw(zmq.PUSH, server.pull_endpoint) as socket:
            socket.send(bytes(64 << 20))
            assert_serves(server, client)
        assert server.total_refused == 0


def test_connection_that_is_not_zeromq_is_ignored() -> None:
    with full_pair(1) as (server, client):
        for at in network.endpoints(server):
            with zmq.Context() as context, context.socket(zmq.STREAM) as socket:
                socket.connect(at)
                identity, _ = socket.recv_multipart()
                socket.send_multipart([identity, b"GET / HTTP/1.1\r\n\r\n" * 100])
        assert_serves(server, client)


BAD_REQUESTS = {
    "empty": [b""],
    "text": [b"GET / HTTP/1.1"],
    "other version": [pb.Header(version=9, sizes_request=pb.SizesRequest()).SerializeToString()],
    "no body": [encode(1)],
    "a cache": [encode(1, cache=pb.Cache(rows=1))],
    "a reply": [encode(1, sizes=pb.Sizes())],
    "frames": [encode(1, sizes_request=pb.SizesRequest()), b"more"],
    "thousands of frames": [encode(1, sizes_request=pb.SizesRequest())] * 3000,
}


@pytest.mark.parametrize("kind", BAD_REQUESTS)
def test_bad_request_is_refused_with_a_reason_and_counted(kind: str) -> None:
    with full_pair(1) as (server, client):
        with network.raw(zmq.REQ, server.rep_endpoint) as socket:
            socket.send_multipart(BAD_REQUESTS[kind])
            assert decode(socket.recv()).refusal.reason
        assert server.total_refused == 1
        assert_serves(server, client)


def test_requests_without_an_envelope_or_a_reader_block_no_other_client() -> None:
    request = encode(1, sizes_request=pb.SizesRequest())
    with full_pair(1) as (server, client):
        with network.raw(zmq.DEALER, server.rep_endpoint) as socket:
            socket.send(b"no envelope")
            for _ in range(500):
                socket.send_multipart([b"", request])
            assert_serves(server, client)
        assert_serves(server, client)


def test_publisher_takes_no_messages() -> None:
    with full_pair(1) as (server, client), network.raw(zmq.XSUB, server.pub_endpoint) as socket:
        for message in (b"", b"\x01", b"\x00", b"\x01\x05", b"hello", b"\x01" + b"\xff" * 10):
            socket.send(message)
        socket.send_multipart([b"\x01", b"\x01t"])
        server.pub_bytes("t", "m")
        assert client.sub_bytes("t", last=True, timeout=SLACK) == b"m"


def test_foreign_peer_does_not_change_the_number_of_subscribers() -> None:
    with full_pair(1) as (server, client):
        listening = Call(lambda: client.sub_bytes("t", timeout=60))
        server.wait_subscribers("t", timeout=SLACK)
        with network.raw(zmq.XSUB, server.pub_endpoint) as socket:
            key, other = (TopicKey(MESSAGES, digest_of_topic(topic)) for topic in (b"t", b"other"))
            socket.send(b"\x07" + key.frame())
            socket.send(b"\x01" + other.frame())
            server.wait_subscribers("other", timeout=SLACK)
            server.wait_subscribers("t", timeout=0)
        server.pub_bytes("t", "m")
        assert listening.result() == b"m"


def test_refused_messages_are_logged_once_per_peer(caplog: pytest.LogCaptureFixture) -> None:
    with started() as server, network.raw(zmq.PUSH, server.pull_endpoint) as socket:
        for _ in range(20):
            socket.send(b"garbage")
        eventually(lambda: server.total_refused == 20)
    (record,) = caplog.records
    assert "127.0.0.1" in record.getMessage()
    assert "not a message of cogrs" in record.getMessage()


def test_caches_with_other_templates_are_refused_and_counted() -> None:
    with full_pair(1) as (server, client), started(1, s=np.zeros(2)) as other:
        at = (other.pub_endpoint, other.rep_endpoint, server.pull_endpoint)
        with ReplayMemoryClient(*at, max_step=64) as foreign:
            build.add_uniform(foreign.rem, 20, s=np.zeros((20, 2)))
            for _ in range(3):
                foreign.push_cache()
            eventually(lambda: server.stats().refused["template"] == 3)
        assert server.total_caches == 0
        assert_serves(server, client)


def test_flood_of_garbage_does_not_make_a_server_grow() -> None:
    piece = bytes(1 << 16)
    pushed = [[piece], [encode(1, log=pb.Log(text="x")), *[piece] * 100], [piece] * 100]
    asked = [[b"", piece], [b"", *[piece] * 100]]
    with full_pair(1) as (server, client):
        for count in (12, 60):  # the first is to warm up
            before = network.resident_bytes()
            refused = server.total_refused
            with (
                network.raw(zmq.PUSH, server.pull_endpoint) as push,
                network.raw(zmq.DEALER, server.rep_endpoint) as ask,
            ):
                for number in range(count):
                    push.send_multipart(pushed[number % 3])
                    ask.send_multipart(asked[number % 2])
                    ask.recv_multipart()
                    # The server ends the connection of a sender that is far ahead of it.
                    behind = refused + 2 * number - 10
                    eventually(lambda behind=behind: server.total_refused >= behind)
                want = refused + 2 * count
                eventually(lambda want=want: server.total_refused == want)
        # 300 MiB came.
        assert network.resident_bytes() - before < 100 << 20
        assert_serves(server, client)


def test_subscriptions_of_a_stranger_end_with_its_connection() -> None:
    with full_pair(1) as (server, client):
        known = server._publisher._subscribers
        with zmq.Context() as context, context.socket(zmq.SUB) as socket:
            socket.set_hwm(0)
            socket.connect(server.pub_endpoint)
            for number in range(5000):
                socket.subscribe(TopicKey(MESSAGES, digest_of_topic(b"%d" % number)).frame())
            server.wait_subscribers("4999", timeout=6 * SLACK)
            assert len(known) == 5000
        eventually(lambda: not known, within=6 * SLACK)
        server.pub_bytes("t", "m")
        assert client.sub_bytes("t", last=True, timeout=SLACK) == b"m"
