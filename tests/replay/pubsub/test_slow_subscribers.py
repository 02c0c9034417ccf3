"""More messages than a subscriber takes: priorities are merged, of others the newest are kept."""

import signal
import time
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st

from cogrs import ReplayMemoryClient
from cogrs.api import replay_pb2 as pb
from cogrs.replay.priorities import Priorities, topic_of
from cogrs.replay.pubsub import subscriber_queues
from cogrs.replay.pubsub.merging_queue import MergingQueue
from cogrs.replay.pubsub.topic_key import MESSAGES, TopicKey, digest_of_topic
from cogrs.replay.wire import encode
from tests.replay import build, network
from tests.replay.network import SLACK, Call, connected, eventually, made, started


def weights(client: ReplayMemoryClient) -> dict[int, float]:
    """The weight of each entry of a client's first episode."""
    episode = client.rem.episode(0)
    return dict(zip(episode.id.tolist(), episode.weight.tolist(), strict=True))


def applied(client: ReplayMemoryClient, entries: int) -> tuple[int, int]:
    """Take priorities until so many entries have new ones; tell what was refused and dropped."""
    found = refused = dropped = 0
    end = time.monotonic() + SLACK
    while found < entries and time.monotonic() < end:
        told = client.apply_priorities(timeout=0.1)
        found += told.entries
        refused += told.refused
        dropped += told.dropped
    assert found == entries
    return refused, dropped


# -- priorities --


@pytest.mark.parametrize("updates", [50, 3_000 if build.SOAK else 400])
@pytest.mark.parametrize(("pub_hwm", "sub_hwm"), [(1, 1), (16, 16), (16, 1), (2, 100)])
def test_burst_of_priorities_reaches_every_entry(pub_hwm: int, sub_hwm: int, updates: int) -> None:
    with (
        started(1, ids=True, pub_hwm=pub_hwm) as server,
        connected(server, 8_192, sub_hwm=sub_hwm) as client,
    ):
        first = build.add_uniform(client.rem, updates + 1)
        server.wait_subscribers(topic_of(client.uuid), timeout=SLACK)
        for number in range(updates):
            server.update_priority([first + number], [client.uuid], [number + 2.0])
        assert applied(client, updates) == (0, 0)
        weight = weights(client)
    exponent = 0.5
    for number in range(updates):
        assert weight[first + number] == pytest.approx((number + 2.0) ** exponent)


def test_each_of_several_clients_gets_the_whole_of_its_burst() -> None:
    with started(1, ids=True) as server, ExitStack() as stack:
        clients = [stack.enter_context(connected(server, 1_024, sub_hwm=1)) for _ in range(3)]
        firsts = [build.add_uniform(client.rem, 301) for client in clients]
        for client in clients:
            server.wait_subscribers(topic_of(client.uuid), timeout=SLACK)
        for number in range(300):
            ids = [first + number for first in firsts]
            server.update_priority(ids, [client.uuid for client in clients], [4.0] * 3)
        for client in clients:
            assert applied(client, 300) == (0, 0)


def test_priorities_sent_before_the_client_listens_are_not_lost() -> None:
    with started(1, ids=True) as server:
        uuid = 77
        for number in range(50):
            server.update_priority([number], [uuid], [1.0])
        with connected(server, input_uuid=uuid) as client:
            found = 0
            end = time.monotonic() + SLACK
            while found < 50 and time.monotonic() < end:
                found += client.apply_priorities(timeout=0.1).stale
            assert found == 50


@pytest.mark.parametrize("sub_hwm", [1, 4])
def test_parameters_and_priorities_have_separate_limits(sub_hwm: int) -> None:
    with started(1, ids=True) as server, connected(server, 1_024, sub_hwm=sub_hwm) as client:
        first = build.add_uniform(client.rem, 101)
        with pytest.raises(TimeoutError):
            client.sub_bytes("model", timeout=0)
        server.wait_subscribers("model", timeout=SLACK)
        server.wait_subscribers(topic_of(client.uuid), timeout=SLACK)
        for number in range(100):
            server.pub_bytes("model", b"%d" % number)
            server.update_priority([first + number], [client.uuid], [4.0])
        eventually(lambda: client.num_dropped("model") == 100 - sub_hwm)
        assert client.sub_bytes("model", timeout=0) == b"%d" % (100 - sub_hwm)
        assert applied(client, 100) == (0, 0)


def test_one_priority_above_the_limit_does_not_change_other_priorities() -> None:
    with (
        started(1, ids=True, priority_exponent=3.0) as server,
        connected(server, 1_024) as client,
    ):
        first = build.add_uniform(client.rem, 61)
        server.wait_subscribers(topic_of(client.uuid), timeout=SLACK)
        for number in range(60):
            priority = 1e30 if number == 33 else 2.0
            server.update_priority([first + number], [client.uuid], [priority])
        assert applied(client, 59) == (1, 0)
        weight = weights(client)
    assert [weight[first + number] for number in (32, 33, 34)] == [8, 1, 8]


# A process that does not read its connection.
STOPPED = """
import sys
import numpy as np
from cogrs import ReplayMemoryClient

pub, req, push, entries = sys.argv[1:]
with ReplayMemoryClient(pub, req, push, max_step=4_096, input_uuid=5, sub_hwm=1) as client:
    rows = int(entries) + 1
    column = np.zeros(rows, np.float32)
    steps = np.zeros(rows, np.int64)
    client.rem.add_episode(
        steps, steps, column, column, column, steps, 1.0, do_update_weight=False
    )
    print(client.rem.episode(0).id[0], flush=True)
    client.sub_bytes("model", timeout=60)
    print("ready", flush=True)
    sys.stdin.readline()
    found = dropped = 0
    while found < int(entries):
        told = client.apply_priorities(timeout=30)
        if told == (0, 0, 0, 0):
            break
        found += told.entries
        dropped += told.dropped
    print("entries", found, "dropped", dropped, flush=True)
"""


def test_priorities_for_a_process_that_does_not_read_for_a_while_are_not_lost() -> None:
    with started(1, ids=True, pub_hwm=2) as server:
        process = network.launch(STOPPED, *network.endpoints(server), "900")
        with network.ended([process]):
            first = int(process.stdout.readline())
            server.wait_subscribers("model", timeout=60)
            server.wait_subscribers(topic_of(5), timeout=60)
            server.pub_bytes("model", b"0")
            network.said(process, "ready")
            process.send_signal(signal.SIGSTOP)
            for number in range(900):
                if number % 30 == 0:
                    server.pub_bytes("model", bytes(1 << 20))  # no room is left for long
                server.update_priority([first + number], [5], [2.0])
            process.send_signal(signal.SIGCONT)
            process.stdin.write("go\n")
            process.stdin.flush()
            network.said(process, "entries 900 dropped 0")


ROWS = st.lists(st.tuples(st.integers(0, 30), st.floats(0, 100, width=32)), max_size=5)


@given(st.lists(st.one_of(ROWS, st.none()), max_size=30))
def test_merging_queue_keeps_the_newest_error_of_each_entry(calls: list[Any]) -> None:
    """Against a dict; None takes one message."""
    backlog, waiting, seen = MergingQueue(3), {}, {}
    model: dict[int, float] = {}

    def take() -> None:
        if (message := backlog.pop()) is not None:
            told = Priorities.from_message(message)
            seen.update(zip(told.ids.tolist(), told.errors.tolist(), strict=True))

    for rows in calls:
        if rows is None:
            take()
            continue
        ids = np.array([row[0] for row in rows], np.uint64)
        errors = np.array([row[1] for row in rows], np.float32)
        told = pb.Priorities(ids=ids.tobytes(), errors=errors.tobytes())
        assert backlog.add(encode(3, priorities=told), 1 << 20) == 0
        model.update(zip(ids.tolist(), errors.tolist(), strict=True))
    while backlog:
        take()
    assert seen | waiting == model


def test_merging_queue_is_bounded_and_counts_dropped_messages() -> None:
    backlog, dropped, most = MergingQueue(3), 0, 1 << 20
    rows = np.arange(10_000, dtype=np.uint64)
    for number in range(60):
        ids = rows + 10_000 * number
        told = pb.Priorities(ids=ids.tobytes(), errors=np.ones(10_000, np.float32).tobytes())
        dropped += backlog.add(encode(3, priorities=told), most)
        assert backlog._size <= 2 * most
    assert dropped > 0
    last = None
    while backlog:
        last = Priorities.from_message(backlog.pop())
    assert last.ids[-1] == 599_999


def test_merging_queue_of_the_same_entries_never_drops() -> None:
    backlog = MergingQueue(3)
    ids = np.arange(10_000, dtype=np.uint64).tobytes()
    for number in range(300):
        errors = np.full(10_000, number, np.float32).tobytes()
        told = pb.Priorities(ids=ids, errors=errors)
        assert backlog.add(encode(3, priorities=told), 1 << 20) == 0
    told = Priorities.from_message(backlog.pop())
    assert not backlog
    assert (told.ids.tobytes(), set(told.errors.tolist())) == (ids, {299.0})


# -- messages --


def numbers(client: ReplayMemoryClient, last: int) -> list[int]:
    """The messages of topic "t" that come, until the last."""
    found = [int(client.sub_bytes("t", timeout=SLACK)[:4])]
    while found[-1] != last:
        found.append(int(client.sub_bytes("t", timeout=SLACK)[:4]))
    return found


@pytest.mark.parametrize("pub_hwm", [1, 2, 16])
@pytest.mark.parametrize("sub_hwm", [1, 16, 1_000])
def test_burst_gives_the_newest_message_and_counts_dropped_messages_at_once(
    pub_hwm: int, sub_hwm: int
) -> None:
    with started(1, pub_hwm=pub_hwm) as server, connected(server, sub_hwm=sub_hwm) as client:
        with pytest.raises(TimeoutError):
            client.sub_bytes("t", timeout=0)
        server.wait_subscribers("t", timeout=SLACK)
        for number in range(50):
            server.pub_bytes("t", b"%04d" % number)
        least = min(pub_hwm, sub_hwm)
        found = numbers(client, 49)
        # When the last message has come, all that is missing has been counted.
        assert client.num_dropped("t") == 50 - len(found)
        assert found == sorted(set(found))
        assert found[-least:] == list(range(50 - least, 50))


def test_newest_messages_wait_for_a_process_that_does_not_read() -> None:
    script = """
import sys
from cogrs import ReplayMemoryClient

with ReplayMemoryClient(sys.argv[1], "", "", sub_hwm=500) as client:
    client.sub_bytes("t", timeout=60)
    print("ready", flush=True)
    sys.stdin.readline()
    found = []
    while not found or found[-1] != 99:
        found.append(int(client.sub_bytes("t", timeout=60)[:4]))
    print(*found, client.num_dropped("t"), flush=True)
"""
    with (
        made(pub_hwm=5) as server,
        ReplayMemoryClient(server.pub_endpoint, "", "", sub_hwm=500) as reads,
    ):
        process = network.launch(script, server.pub_endpoint)
        fast: list[int] = []

        def takes() -> None:
            while not fast or fast[-1] != 99:
                fast.append(int(reads.sub_bytes("t", timeout=60)[:4]))

        call = Call(takes)
        with network.ended([process]):
            server.wait_subscribers("t", 2, timeout=60)
            server.pub_bytes("t", b"0000")
            network.said(process, "ready")
            process.send_signal(signal.SIGSTOP)
            for number in range(1, 100):
                server.pub_bytes("t", b"%04d" % number + bytes(1 << 20))
                # A client that reads is not held up by one that does not.
                eventually(lambda number=number: fast and fast[-1] == number)
            call.result()
            process.send_signal(signal.SIGCONT)
            process.stdin.write("go\n")
            process.stdin.flush()
            *found, dropped = map(int, process.stdout.readline().split())
    assert found[-5:] == [95, 96, 97, 98, 99]
    assert dropped == 99 - len(found)
    assert fast == list(range(100))


@pytest.mark.parametrize("pub_hwm", [1, 1_000])
def test_unread_messages_are_bounded_by_size(pub_hwm: int, monkeypatch: pytest.MonkeyPatch) -> None:
    most, most_in_zeromq = 16 << 20, 4 << 20
    monkeypatch.setattr(subscriber_queues, "MOST_UNDELIVERED", most)
    monkeypatch.setattr(subscriber_queues, "MOST_IN_ZEROMQ", most_in_zeromq)
    topics = [b"a", b"b", b"c"]
    with started(1, pub_hwm=pub_hwm) as server, network.raw(zmq.SUB, server.pub_endpoint) as deaf:
        held = server._publisher._queues
        for topic in topics:
            deaf.subscribe(TopicKey(MESSAGES, digest_of_topic(topic)).frame())
            server.wait_subscribers(topic, timeout=SLACK)
        for number in range(60):
            for topic in topics:
                server.pub_bytes(topic, b"%s%04d" % (topic, number) + bytes(2 << 20))
                assert held._bodies.size <= max(most, len(topics) * (2 << 20) + 15)
        assert pub_hwm == 1 or held._bodies.size > most // 2
        in_zeromq = [size for sent in held._sent.values() for done, size in sent if not done.done]
        assert sum(in_zeromq) <= most_in_zeromq
        newest: dict[bytes, bytes] = {}
        deaf.rcvtimeo = int(SLACK * 1000)
        while set(newest.values()) != {b"%s%04d" % (topic, number) for topic in topics}:
            body = deaf.recv_multipart()[2]
            newest[body[:1]] = body[:5]
        eventually(lambda: held._bodies.size == 0)
        assert not held._bodies._counts


def test_foreign_peer_that_sends_messages_does_not_end_other_subscriptions() -> None:
    with started(1) as server, network.raw(zmq.XSUB, server.pub_endpoint) as stranger:
        for number in range(20):
            topic = b"t%d" % number
            for _ in range(30):
                stranger.send(b"hello")
            stranger.send(b"\1" + TopicKey(MESSAGES, digest_of_topic(b"other")).frame())
            with connected(server, None) as client:
                waits = Call(lambda client=client, topic=topic: client.sub_bytes(topic, timeout=60))
                for _ in range(30):
                    stranger.send(b"hello")
                server.wait_subscribers(topic, timeout=SLACK)

                def came(topic: bytes = topic, waits: Call = waits) -> bool:
                    server.pub_bytes(topic, b"m")
                    return not waits.blocks(0.01)

                eventually(came)
                assert waits.result() == b"m"


def test_subscriptions_end_when_the_connection_closes() -> None:
    with started(1) as server:
        for _ in range(5):
            with connected(server, None) as client:
                with pytest.raises(TimeoutError):
                    client.sub_bytes("t", timeout=0)
                server.wait_subscribers("t", timeout=SLACK)
            eventually(lambda: not server._publisher._subscribers)
        assert not server._publisher._queues._keys
