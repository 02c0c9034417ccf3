"""Messages that no publisher of ours sends: a client drops and counts them, and goes on."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import zmq

from cogrs import ReplayMemoryClient
from cogrs.api import replay_pb2 as pb
from cogrs.replay.pubsub.topic_key import ANNOUNCEMENTS, LAST, MESSAGES, TopicKey, digest_of_topic
from cogrs.replay.wire import encode
from tests.replay import network
from tests.replay.network import SLACK, Call, eventually, started

TOPIC = digest_of_topic(b"t")
MESSAGE, ANNOUNCEMENT = (TopicKey(kind, TOPIC).frame() for kind in (MESSAGES, ANNOUNCEMENTS))
LARGEST = 2**64 - 1


def head(number: int, stream: int = 1) -> bytes:
    return encode(1, publication=pb.Publication(stream=stream, number=number))


@contextmanager
def publishing() -> Iterator[tuple[zmq.Socket[bytes], ReplayMemoryClient, Call]]:
    """A publisher of ZeroMQ's own, a client that has subscribed there, and its call."""
    with started() as server, zmq.Context() as context, context.socket(zmq.XPUB) as socket:
        socket.set_hwm(0)
        socket.linger = 0
        socket.rcvtimeo = int(SLACK * 1000)
        socket.bind(network.LOOPBACK)
        at = (socket.last_endpoint.decode(), server.rep_endpoint, server.pull_endpoint)
        with ReplayMemoryClient(*at, max_step=8) as client:
            hears = Call(lambda: client.sub_bytes("t"))
            assert {socket.recv(), socket.recv()} == {b"\1" + MESSAGE, b"\1" + ANNOUNCEMENT}
            yield socket, client, hears


GARBAGE = {
    "key alone": [MESSAGE],
    "no body": [MESSAGE, head(1)],
    "further frame": [MESSAGE, head(1), b"m", b"more"],
    "thousands of frames": [MESSAGE, head(1), *[b"m"] * 3000],
    "longer key": [MESSAGE + b"x", head(1), b"m"],
    "text": [MESSAGE, b"GET / HTTP/1.1", b"m"],
    "empty header": [MESSAGE, b"", b"m"],
    "older version": [MESSAGE, pb.Header(version=0).SerializeToString(), b"m"],
    "other version": [
        MESSAGE,
        pb.Header(version=1, publication=pb.Publication(number=1)).SerializeToString(),
        b"m",
    ],
    "another kind": [MESSAGE, encode(1, log=pb.Log(text="x")), b"m"],
    "nothing": [MESSAGE, encode(1), b"m"],
    "announcement of nothing": [ANNOUNCEMENT, encode(1), b""],
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_is_dropped_and_counted(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    with publishing() as (socket, client, hears):
        for _ in range(3):
            socket.send_multipart(GARBAGE[kind])
        eventually(lambda: client.total_refused == 3)
        assert hears.blocks(0)
        socket.send_multipart([MESSAGE, head(1), b"good"])
        assert hears.result() == b"good"
        assert client.num_dropped("t") == 0
    (record,) = caplog.records
    assert "further ones are only counted" in record.getMessage()


def test_large_messages_that_are_not_taken_are_dropped_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cogrs.replay.pubsub.subscriber.MOST_KEPT_OF_PUBLISHER", 5_000)
    with publishing() as (socket, client, hears):
        socket.send_multipart([MESSAGE, head(1), b"first"])
        assert hears.result() == b"first"
        for number in range(2, 12):
            socket.send_multipart([MESSAGE, head(number), bytes([number]) * 1000])
        eventually(lambda: client.num_dropped("t") == 5)
        queue = client._subscriber._topics[TOPIC]
        assert [client.sub_bytes("t", timeout=SLACK)[0] for _ in range(5)] == [7, 8, 9, 10, 11]
        assert queue.size == 0
        # The newest stays, however large.
        for number in (12, 13):
            socket.send_multipart([MESSAGE, head(number), bytes([number]) * 6_000])
        eventually(lambda: client.num_dropped("t") == 6)
        assert client.sub_bytes("t", timeout=SLACK)[0] == 13


def test_reply_without_a_question_is_ignored() -> None:
    with publishing() as (socket, client, hears):
        socket.send_multipart([TopicKey(LAST, TOPIC, bytes(16)).frame(), head(9), b"bad"])
        socket.send_multipart([MESSAGE, head(1), b"good"])
        assert hears.result() == b"good"
        assert client.total_refused == 0


def test_endless_announcements_leave_one_subscription() -> None:
    with publishing() as (socket, client, hears):
        socket.send_multipart([MESSAGE, head(1), b"first"])
        assert hears.result() == b"first"
        for number in range(2, 2000):
            socket.send_multipart([ANNOUNCEMENT, head(number), b""])
        asked: set[bytes] = set()

        def one_question() -> bool:
            while socket.poll(1000):
                event = socket.recv()
                (asked.add if event[:1] == b"\1" else asked.remove)(event[1:])
            return len(asked) == 1

        eventually(one_question)
        socket.send_multipart([asked.pop(), head(1999), b"last"])
        assert client.sub_bytes("t", timeout=SLACK) == b"last"


def test_numbers_beyond_all_messages_do_not_stop_the_counters() -> None:
    with publishing() as (socket, client, hears):
        for stream in (1, 2):
            for number in (1, LARGEST):
                socket.send_multipart([MESSAGE, head(number, stream), b"m"])
        assert hears.result() == b"m"
        eventually(lambda: client.num_dropped("t") > LARGEST)
        client.update_counter()


def test_flood_does_not_make_a_client_grow() -> None:
    body = bytes(1 << 20)
    floods: list[list[Any]] = [
        [MESSAGE, b"garbage", body],
        [MESSAGE, head(1), *[body[:1000]] * 1000],
        [MESSAGE, body, body],
    ]
    with publishing() as (socket, client, hears):
        for count in (30, 180):  # the first is to warm up
            before = network.resident_bytes()
            refused = client.total_refused
            for number in range(count):
                socket.send_multipart(floods[number % 3])
                eventually(lambda want=refused + number + 1: client.total_refused >= want)
        # 240 MiB came.
        assert network.resident_bytes() - before < 60 << 20
        socket.send_multipart([MESSAGE, head(1), b"good"])
        assert hears.result() == b"good"
