"""Messages from a server to its subscribers."""

import random
import signal
import time
from typing import Any

import numpy as np
import pytest

from tests.replay import build, network
from tests.replay.network import SLACK, Call, connected, deaf, eventually, made, pair, started

TOPICS = ["", "a", "ab", "abc", "b", "ä", "\0", "\0\0", "model/1", "model/11", "x" * 5000]


def listening(client: Any, topic: Any, **options: Any) -> Call:
    return Call(lambda: client.sub_bytes(topic, timeout=60, **options))


# -- topics and messages --


def test_topics_are_matched_exactly() -> None:
    with made() as server, server.start(), connected(server, None) as client:
        waits = {topic: listening(client, topic) for topic in TOPICS}
        for topic in TOPICS:
            server.wait_subscribers(topic, timeout=SLACK)
        for topic in TOPICS[::-1]:
            server.pub_bytes(topic, f"to {topic}")
        for topic, wait in waits.items():
            assert wait.result() == f"to {topic}".encode()
        for topic in TOPICS:
            with pytest.raises(TimeoutError):
                client.sub_bytes(topic, timeout=0)


def test_subscription_to_a_prefix_of_a_topic_gets_no_message() -> None:
    with pair() as (server, client):
        waits = {topic: listening(client, topic) for topic in ("model", "model/12")}
        for topic in waits:
            server.wait_subscribers(topic, timeout=SLACK)
        server.pub_bytes("model/1", "no")
        server.pub_bytes("", "no")
        for topic in waits:
            server.pub_bytes(topic, "yes")
        assert [wait.result() for wait in waits.values()] == [b"yes", b"yes"]


def test_str_and_bytes_are_one_topic() -> None:
    with pair() as (server, client):
        server.pub_bytes("ä", "ö")
        assert client.sub_bytes("ä".encode(), last=True, timeout=SLACK) == "ö".encode()
        server.pub_bytes("ä".encode(), b"2")
        assert client.sub_bytes("ä", timeout=SLACK) == b"2"


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 65_536, 20_000_000])
def test_message_comes_whole(size: int) -> None:
    message = random.Random(size).randbytes(size)
    with pair() as (server, client):
        wait = listening(client, "t")
        server.wait_subscribers("t", timeout=SLACK)
        server.pub_bytes("t", message)
        got = wait.result()
    assert type(got) is bytes
    assert got == message


def test_published_message_is_copied_at_once() -> None:
    buffer = np.zeros(1 << 20, np.uint8)
    with pair() as (server, client):
        wait = listening(client, "t")
        server.wait_subscribers("t", timeout=SLACK)
        server.pub_bytes("t", memoryview(buffer))
        buffer[:] = 1
        assert wait.result() == bytes(1 << 20)


def test_messages_come_in_order() -> None:
    with pair(pub_hwm=1000) as (server, _), connected(server, sub_hwm=1000) as client:
        wait = listening(client, "t")
        server.wait_subscribers("t", timeout=SLACK)
        for number in range(300):
            server.pub_bytes("t", str(number))
        got = [wait.result(), *(client.sub_bytes("t", timeout=SLACK) for _ in range(299))]
        assert got == [str(number).encode() for number in range(300)]
        assert client.num_dropped("t") == 0


def test_memory_of_the_server_publishes_too() -> None:
    with pair() as (server, client):
        server.rem.pub_bytes("t", "m")
        assert client.sub_bytes("t", last=True, timeout=SLACK) == b"m"


def test_memory_of_no_server_cannot_publish() -> None:
    with pair() as (_, client):
        for rem in (client.rem, build.memory()):
            with pytest.raises(RuntimeError, match="server"):
                rem.pub_bytes("t", "m")


@pytest.mark.parametrize("bad", [None, 1, ["t"], bytearray(b"t"), np.zeros(2)], ids=repr)
def test_topic_of_a_wrong_type_is_refused(bad: Any) -> None:
    with pair() as (server, client):
        for call in (
            lambda: server.pub_bytes(bad, "m"),
            lambda: server.wait_subscribers(bad),
            lambda: client.sub_bytes(bad, timeout=1),
            lambda: client.num_dropped(bad),
        ):
            with pytest.raises(TypeError, match=r"^topic"):
                call()


@pytest.mark.parametrize("bad", [None, 1, ["t"], np.zeros(2)], ids=repr)
def test_message_of_a_wrong_type_is_refused(bad: Any) -> None:
    with made() as server, pytest.raises(TypeError, match=r"^message"):
        server.pub_bytes("t", bad)


@pytest.mark.parametrize(("timeout", "error"), [(-1, ValueError), ("1", TypeError)])
def test_invalid_timeout_is_refused_by_name(timeout: Any, error: type[Exception]) -> None:
    with pair() as (server, client):
        with pytest.raises(error, match="timeout"):
            client.sub_bytes("t", timeout=timeout)
        with pytest.raises(error, match="timeout"):
            server.wait_subscribers("t", timeout=timeout)


@pytest.mark.parametrize(("count", "error"), [("2", TypeError), (1.5, TypeError), (-1, ValueError)])
def test_invalid_count_is_refused_by_name(count: Any, error: type[Exception]) -> None:
    with made() as server, pytest.raises(error, match="count"):
        server.wait_subscribers("t", count, timeout=0)


# -- who listens when --


def test_no_message_is_a_timeout_that_names_topic_and_endpoint() -> None:
    with deaf() as client:
        with pytest.raises(TimeoutError, match=r"sub_bytes: no message of topic b'model'") as late:
            client.sub_bytes("model", timeout=0.05)
        assert "tcp://127.0.0.1:" in str(late.value)
        assert "0.05 s" in str(late.value)


def test_subscribing_needs_no_sizes() -> None:
    with started() as server, connected(server, None) as client:
        server.pub_bytes("t", "m")
        assert client.sub_bytes("t", last=True, timeout=SLACK) == b"m"


def test_subscriber_may_be_there_before_the_server() -> None:
    first = started()
    first.close()
    with connected(first, None) as client:
        wait = listening(client, "t")
        assert wait.blocks()
        with network.restarted(first) as server:
            server.wait_subscribers("t", timeout=SLACK)
            server.pub_bytes("t", "m")
            assert wait.result() == b"m"


def test_late_subscriber_gets_the_last_message() -> None:
    with pair() as (server, client):
        for number in range(5):
            server.pub_bytes("t", str(number))
        assert client.sub_bytes("t", last=True, timeout=SLACK) == b"4"
        server.pub_bytes("t", "5")
        assert client.sub_bytes("t", last=True, timeout=SLACK) == b"5"


def test_last_message_is_given_once_and_then_new_ones() -> None:
    with pair() as (server, client):
        server.pub_bytes("t", "old")
        assert client.sub_bytes("t", last=True, timeout=SLACK) == b"old"
        with pytest.raises(TimeoutError):
            client.sub_bytes("t", last=True, timeout=0.1)
        for number in range(3):
            server.pub_bytes("t", str(number))
        assert [client.sub_bytes("t", last=True, timeout=SLACK) for _ in range(3)] == [
            b"0",
            b"1",
            b"2",
        ]
        assert client.num_dropped("t") == 0


def test_last_message_may_be_asked_for_by_a_subscriber() -> None:
    with pair() as (server, client):
        # It goes to those who have subscribed by then, whenever it is sent.
        server.pub_bytes("t", "old")
        with pytest.raises(TimeoutError):
            client.sub_bytes("t", timeout=0)
        server.wait_subscribers("t", timeout=SLACK)
        with pytest.raises(TimeoutError):
            client.sub_bytes("t", timeout=0)
        assert client.sub_bytes("t", last=True, timeout=SLACK) == b"old"


@pytest.mark.parametrize("repetition", range(20))
def test_message_that_was_published_before_the_subscription_does_not_come(repetition: int) -> None:
    with pair() as (server, client):
        for number in range(repetition + 1):
            server.pub_bytes("t", b"old %d" % number)
        call = listening(client, "t")
        server.wait_subscribers("t", timeout=SLACK)
        server.pub_bytes("t", "new")
        assert call.result() == b"new"
        assert client.num_dropped("t") == 0


def test_no_subscription_is_lost_when_many_come_at_once() -> None:
    topics = [str(number) for number in range(300)]
    with started() as server, connected(server, None, sub_hwm=1) as client:
        for topic in topics:
            with pytest.raises(TimeoutError):
                client.sub_bytes(topic, timeout=0)
        for topic in topics:
            server.wait_subscribers(topic, timeout=SLACK)


def test_last_messages_of_topics_are_kept_apart() -> None:
    with pair() as (server, client):
        for topic in TOPICS:
            server.pub_bytes(topic, f"of {topic}")
        for topic in TOPICS:
            assert client.sub_bytes(topic, last=True, timeout=SLACK) == f"of {topic}".encode()


def test_last_message_goes_only_to_the_client_that_asked() -> None:
    with pair() as (server, client), connected(server) as late:
        wait = listening(client, "t")
        server.wait_subscribers("t", timeout=SLACK)
        server.pub_bytes("t", "m")
        assert wait.result() == b"m"
        assert late.sub_bytes("t", last=True, timeout=SLACK) == b"m"
        with pytest.raises(TimeoutError):
            client.sub_bytes("t", timeout=0.1)


def test_last_message_is_kept_without_subscribers_and_workers() -> None:
    with made() as server:
        server.pub_bytes("t", "m")
        server.start()
        with connected(server) as client:
            assert client.sub_bytes("t", last=True, timeout=SLACK) == b"m"


@pytest.mark.parametrize("repetition", range(20))
def test_subscriber_from_before_a_message_gets_the_message(repetition: int) -> None:
    with made() as server, server.start(), connected(server, None) as client:
        last = repetition % 2 == 0
        wait = listening(client, "t", last=last)
        if not last:
            server.wait_subscribers("t", 1, timeout=SLACK)
        server.pub_bytes("t", "m")
        assert wait.result() == b"m"


def test_subscriber_that_was_waited_for_gets_the_first_message() -> None:
    with started() as server:
        clients = [connected(server, None) for _ in range(4)]
        waits = [listening(client, "t") for client in clients]
        server.wait_subscribers("t", 4, timeout=SLACK)
        server.pub_bytes("t", "first")
        assert [wait.result() for wait in waits] == [b"first"] * 4
        for client in clients:
            client.close()


def test_too_few_subscribers_are_a_timeout_with_counts() -> None:
    with pair() as (server, client):
        wait = listening(client, "t")
        server.wait_subscribers("t", timeout=SLACK)
        with pytest.raises(TimeoutError, match="1 of 2 subscribed to 't' at tcp://"):
            server.wait_subscribers("t", 2, timeout=0.05)
        server.pub_bytes("t", "m")
        wait.result()


def test_subscriber_that_leaves_is_not_counted_any_more() -> None:
    with started() as server, connected(server) as stays:
        with connected(server) as leaves:
            for client in (stays, leaves):
                with pytest.raises(TimeoutError):
                    client.sub_bytes("t", timeout=0)
            server.wait_subscribers("t", 2, timeout=SLACK)

        def one_is_left() -> bool:
            try:
                server.wait_subscribers("t", 2, timeout=0)
            except TimeoutError:
                return True
            return False

        eventually(one_is_left)
        server.wait_subscribers("t", 1, timeout=0)


# -- several at once --


def test_several_topics_from_several_threads_through_one_client() -> None:
    names = [f"topic {number}" for number in range(6)]
    with pair(pub_hwm=500) as (server, _), connected(server, sub_hwm=500) as client:

        def reads(topic: str) -> list[bytes]:
            return [client.sub_bytes(topic, timeout=60) for _ in range(50)]

        calls = {topic: Call(lambda topic=topic: reads(topic)) for topic in names}
        for topic in names:
            server.wait_subscribers(topic, timeout=SLACK)
        for number in range(50):
            for topic in names:
                server.pub_bytes(topic, f"{topic} {number}")
        for topic, call in calls.items():
            assert call.result() == [f"{topic} {number}".encode() for number in range(50)]


def test_threads_at_one_topic_share_its_messages() -> None:
    with pair() as (server, client):
        waits = [listening(client, "t") for _ in range(4)]
        server.wait_subscribers("t", timeout=SLACK)
        for number in range(4):
            server.pub_bytes("t", str(number))
        assert sorted(wait.result() for wait in waits) == [b"0", b"1", b"2", b"3"]


def test_messages_published_from_several_threads_all_come() -> None:
    with pair(pub_hwm=1000) as (server, _), connected(server, sub_hwm=1000) as client:
        wait = listening(client, "t")
        server.wait_subscribers("t", timeout=SLACK)

        def publishes(thread: int) -> None:
            for number in range(50):
                server.pub_bytes("t", f"{thread} {number}")

        for call in [Call(lambda thread=thread: publishes(thread)) for thread in range(4)]:
            call.result()
        got = [wait.result(), *(client.sub_bytes("t", timeout=SLACK) for _ in range(199))]
        for thread in range(4):
            own = [each for each in got if each.startswith(b"%d " % thread)]
            assert own == [b"%d %d" % (thread, number) for number in range(50)]


# -- too slow --


@pytest.mark.parametrize("sub_hwm", [1, 2, 5])
def test_newest_win_at_the_high_water_mark_and_the_rest_is_counted(sub_hwm: int) -> None:
    with pair() as (server, _), connected(server, sub_hwm=sub_hwm) as client:
        with pytest.raises(TimeoutError):
            client.sub_bytes("t", timeout=0)
        server.wait_subscribers("t", timeout=SLACK)
        assert client.num_dropped("t") == 0
        for number in range(12):
            server.pub_bytes("t", str(number))
        eventually(lambda: client.num_dropped("t") == 12 - sub_hwm)
        got = [client.sub_bytes("t", timeout=0) for _ in range(sub_hwm)]
        assert got == [str(number).encode() for number in range(12 - sub_hwm, 12)]


def test_drops_are_counted_by_topic() -> None:
    with pair() as (server, _), connected(server, sub_hwm=1) as client:
        for topic in ("busy", "calm"):
            with pytest.raises(TimeoutError):
                client.sub_bytes(topic, timeout=0)
            server.wait_subscribers(topic, timeout=SLACK)
        for _ in range(3):
            server.pub_bytes("busy", "m")
        server.pub_bytes("calm", "m")
        eventually(lambda: client.num_dropped("busy") == 2)
        assert client.num_dropped("calm") == client.num_dropped("never heard of") == 0


# A process that does not read its connection: the publisher drops what does not fit.
ASLEEP = """
import sys
from cogrs import ReplayMemoryClient

with ReplayMemoryClient(sys.argv[1], "tcp://127.0.0.1:1", "tcp://127.0.0.1:1") as client:
    first = client.sub_bytes("t", timeout=30)
    print("ready", flush=True)
    sys.stdin.readline()
    newest = 0
    while newest < 99:
        try:
            newest = int(client.sub_bytes("t", timeout=3)[:3])
        except TimeoutError:
            break
    print("newest", newest, "dropped", client.num_dropped("t") > 0, flush=True)
"""


def test_newest_wins_when_the_connection_is_too_slow() -> None:
    with made(pub_hwm=2) as server:
        process = network.launch(ASLEEP, server.pub_endpoint)
        with network.ended([process]):
            server.wait_subscribers("t", timeout=60)
            server.pub_bytes("t", b"000")
            network.said(process, "ready")
            process.send_signal(signal.SIGSTOP)
            for number in range(1, 100):
                server.pub_bytes("t", b"%03d" % number + bytes(1 << 20))
            time.sleep(0.3)
            process.send_signal(signal.SIGCONT)
            process.stdin.write("go\n")
            process.stdin.flush()
            network.said(process, "newest 99 dropped True")


# -- a server that comes again --


def test_subscriber_finds_a_restarted_server() -> None:
    with pair() as (server, client):
        server.pub_bytes("t", "before")
        assert client.sub_bytes("t", last=True, timeout=SLACK) == b"before"
        wait = listening(client, "t")
        assert wait.blocks()
        server.close()
        with network.restarted(server) as again:
            again.wait_subscribers("t", timeout=50)
            again.pub_bytes("t", "after")
            assert wait.result() == b"after"
            assert client.num_dropped("t") == 0


def test_last_message_of_a_restarted_server_is_received() -> None:
    with pair() as (server, client):
        server.pub_bytes("t", "before")
        assert client.sub_bytes("t", last=True, timeout=SLACK) == b"before"
        server.close()
        with network.restarted(server) as again:
            again.pub_bytes("t", "after")
            assert client.sub_bytes("t", last=True, timeout=SLACK) == b"after"
