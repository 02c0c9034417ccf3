"""Floods of every kind: the memory of a server stays bounded, and other clients go on."""

import contextlib
import itertools
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from cogrs import Conn, ReplayMemoryClient, ReplaySampler
from cogrs.api import replay_pb2 as pb
from cogrs.replay import ReplayProxy
from cogrs.replay.pubsub.topic_key import ANNOUNCEMENTS, LAST, MESSAGES, TopicKey
from cogrs.replay.wire import encode
from tests.replay import build, network, zmtp
from tests.replay.network import SLACK, eventually, launch, said

MIB = 1 << 20
MOST = 48 * MIB
"""Of one connection, in the server that is flooded."""

SERVER = f"""
import resource, sys
from cogrs.replay import Conn, proxy
proxy.MOST_WAITING_OF_ANSWERS = {MOST // 4}
proxy.MOST_WAITING_OF_PUSHES = 0
resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))
from tests.replay.network import LOOPBACK, made
from tests.replay.network import Call
server = made(4).start()
proxy = proxy.ReplayProxy(*[LOOPBACK] * 4, max_frame={2 * MIB})
Call(lambda: server.rep_worker_main(proxy.rep_back, Conn))
Call(lambda: server.pull_worker_main(proxy.pull_back, Conn))
print(server.pub_endpoint, server.rep_endpoint, server.pull_endpoint)
print(proxy.rep_front, proxy.rep_back, proxy.pull_front, proxy.pull_back)
for line in sys.stdin:
    if line.startswith("publish"):
        server.pub_bytes("t", line)
    else:
        proxy.close()
        server.close()
        print("closed")
"""

Endpoints = dict[str, str]


@pytest.fixture(scope="module")
def flooded() -> Iterator[tuple[subprocess.Popen[str], Endpoints]]:
    """A server and a proxy in a process of their own, and where they listen."""
    names = ("pub", "rep", "pull", "rep_front", "rep_back", "pull_front", "pull_back")
    process = launch(SERVER)
    with network.ended([process]):
        lines = [process.stdout.readline() for _ in range(2)]
        where = dict(zip(names, " ".join(lines).split(), strict=True))
        assert len(where) == len(names)
        yield process, where


def peak(process: subprocess.Popen[str]) -> int:
    """The most memory that a process had since the last `reset_peak`."""
    with open(f"/proc/{process.pid}/status") as file:
        (line,) = (line for line in file if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10


def reset_peak(process: subprocess.Popen[str]) -> int:
    with open(f"/proc/{process.pid}/clear_refs", "w") as file:
        file.write("5")
    return peak(process)


def assert_serves(process: subprocess.Popen[str], where: Endpoints) -> None:
    """All that a client does is done, at the server and through the proxy.

    It may have the rest of a flood to read before, on cores that the senders of the flood use too.
    """
    for rep, pull in (("rep", "pull"), ("rep_front", "pull_front")):
        at = where["pub"], where[rep], where[pull]
        with ReplayMemoryClient(*at, max_step=64, timeout=6 * SLACK) as client:
            build.add_uniform(client.rem, 20)
            assert client.push_cache() == 0
            client.update_counter()
            process.stdin.write(f"publish {rep}\n")
            process.stdin.flush()
            assert client.sub_bytes("t", timeout=6 * SLACK, last=True)


def subscriptions(kind: str) -> Iterator[bytes]:
    """Messages of a subscriber that has no end of them."""
    for _ in range(400_000):
        if kind == "without a meaning":
            yield zmtp.frame(b"\1" + os.urandom(900))
        elif kind == "of ours":
            for form, length in ((MESSAGES, 32), (ANNOUNCEMENTS, 32), (LAST, 48)):
                yield zmtp.frame(b"\1" + TopicKey(form, os.urandom(length)).frame())
        else:
            yield zmtp.frame(b"\2" + os.urandom(900))


@pytest.mark.parametrize("kind", ["without a meaning", "of ours", "no subscriptions"])
def test_flood_of_subscriptions_takes_bounded_memory(flooded: Any, kind: str) -> None:
    process, where = flooded
    before = reset_peak(process)
    with zmtp.peer(where["pub"], "SUB") as connection:
        assert zmtp.send_until_ended(connection, subscriptions(kind))
    assert peak(process) - before < 150 * MIB
    assert_serves(process, where)


# On a busy machine the floods take a minute.
@pytest.mark.timeout(240)
def test_several_floods_of_subscriptions_at_once(flooded: Any) -> None:
    process, where = flooded
    before = reset_peak(process)

    def flood() -> None:
        with zmtp.peer(where["pub"], "SUB") as connection:
            assert zmtp.send_until_ended(connection, subscriptions("of ours"))

    calls = [network.Call(flood) for _ in range(2)]
    assert_serves(process, where)
    for call in calls:
        call.result(within=6 * SLACK)
    assert peak(process) - before < 500 * MIB


def test_large_subscriptions_end_a_connection(flooded: Any) -> None:
    process, where = flooded
    before = reset_peak(process)
    for _ in range(10):
        with zmtp.peer(where["pub"], "SUB") as connection:
            message = zmtp.frame(b"\1" + bytes(MIB))
            assert zmtp.send_until_ended(connection, [message] * 64)
    assert peak(process) - before < 50 * MIB
    assert_serves(process, where)


ENDS = [
    ("pub", "SUB"),
    ("pub", "XSUB"),
    ("rep", "REQ"),
    ("rep", "DEALER"),
    ("pull", "PUSH"),
    ("rep_front", "DEALER"),
    ("rep_back", "ROUTER"),
    ("pull_front", "PUSH"),
    ("pull_back", "PULL"),
]


@pytest.mark.parametrize(("name", "kind"), ENDS)
@pytest.mark.parametrize("size", [0, 100_000])
def test_endless_message_takes_bounded_memory(
    flooded: Any, name: str, kind: str, size: int
) -> None:
    process, where = flooded
    size = min(size, 200) if name == "pub" else size
    before = reset_peak(process)
    piece = zmtp.frame(bytes(size), zmtp.MORE) * (1 + 200_000 // (size + 2))
    with zmtp.peer(where[name], kind) as connection:
        assert zmtp.send_until_ended(connection, itertools.repeat(piece, 5000))
    # libzmq has some 64 bytes for each frame, however small.
    assert peak(process) - before < 16 * MOST
    assert_serves(process, where)


@pytest.mark.parametrize("name", ["rep", "rep_front"])
@pytest.mark.parametrize("size", [0, 100_000])
def test_message_without_end_of_a_client_that_has_asked(flooded: Any, name: str, size: int) -> None:
    """It may send requests ahead, but no larger ones, though others leave the worker no rest."""
    process, where = flooded
    before = reset_peak(process)
    request = zmtp.frame(b"", zmtp.MORE) + zmtp.frame(encode(1, sizes_request=pb.SizesRequest()))
    piece = zmtp.frame(bytes(size), zmtp.MORE) * (1 + 200_000 // (size + 2))
    stop = threading.Event()

    def ask() -> None:
        with zmtp.peer(where[name], "DEALER") as connection:
            while not stop.is_set():
                connection.sendall(10 * request)
                connection.recv(1 << 16)

    call = network.Call(ask)
    with zmtp.peer(where[name], "DEALER") as connection:
        connection.sendall(request)
        assert connection.recv(1 << 16)
        assert zmtp.send_until_ended(connection, itertools.repeat(piece, 5000))
    stop.set()
    call.result()
    assert peak(process) - before < 16 * MOST
    assert_serves(process, where)


@pytest.mark.parametrize(("name", "kind"), ENDS)
def test_frame_that_is_too_large(flooded: Any, name: str, kind: str) -> None:
    process, where = flooded
    before = reset_peak(process)
    with zmtp.peer(where[name], kind) as connection:
        head = zmtp.frame(bytes(300))[:1] + (1 << 40).to_bytes(8, "big")
        assert zmtp.send_until_ended(connection, [head, *[bytes(MIB)] * 1000])
    assert peak(process) - before < 50 * MIB
    assert_serves(process, where)


def test_more_connections_than_descriptors(flooded: Any) -> None:
    process, where = flooded
    at = where["rep"].removeprefix("tcp://").split(":")
    with ReplayMemoryClient(where["pub"], where["rep"], where["pull"], max_step=64) as client:
        connections = [socket.create_connection((at[0], int(at[1]))) for _ in range(600)]
        try:
            eventually(lambda: any(zmtp.is_ended(each) for each in connections))
            client.update_counter()
        finally:
            for connection in connections:
                connection.close()
    eventually(lambda: assert_serves(process, where) is None)


def test_server_closes_during_a_flood(flooded: Any) -> None:
    process, where = flooded
    stop = threading.Event()

    def flood(name: str, kind: str) -> None:
        while not stop.is_set():
            try:
                with zmtp.peer(where[name], kind) as connection:
                    for message in subscriptions("of ours"):
                        connection.sendall(message)
            except OSError:
                pass

    calls = [
        network.Call(lambda name=name, kind=kind: flood(name, kind)) for name, kind in ENDS[::4]
    ]
    process.stdin.write("close\n")
    process.stdin.flush()
    closed = network.Call(lambda: said(process, "closed"))
    try:
        closed.result(within=3 * SLACK)
    finally:
        stop.set()
        for call in calls:
            call.result(within=6 * SLACK)


CLIENT = f"""
import sys
from cogrs import ReplayMemoryClient
from cogrs.replay.net import request_socket
from cogrs.replay.pubsub import subscriber
subscriber.MOST_WAITING_OF_PUBLISHER = request_socket.MOST_WAITING_OF_ANSWERS = {MOST}
with ReplayMemoryClient(sys.argv[1], sys.argv[1], "", timeout=5) as client:
    try:
        client.sub_bytes("t") if sys.argv[2] == "XPUB" else client.sync_sizes(64)
    except TimeoutError:
        pass
"""


@pytest.mark.parametrize("kind", ["XPUB", "ROUTER"])
def test_hostile_server_sends_a_message_without_end(kind: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = launch(CLIENT, f"tcp://127.0.0.1:{listener.getsockname()[1]}", kind)
        with network.ended([process]):
            listener.settimeout(3 * SLACK)
            connection, _ = listener.accept()
            with connection:
                zmtp.shake_hands(connection, kind)
                piece = zmtp.frame(bytes(100_000), zmtp.MORE)
                assert zmtp.send_until_ended(connection, [piece] * 10_000)
            assert peak(process) < 12 * MOST


@pytest.mark.parametrize("proxied", [False, True])
def test_client_that_sends_much_is_not_ended(
    proxied: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("cogrs.replay.serving.server_state.MOST_WAITING_OF_PUSHES", 0)
    with network.made(1, s=np.zeros(1 << 14), cache_size=8, hwm=1) as server:
        rep, pull = "inproc://rep", "inproc://pull"
        if proxied:
            network.Call(lambda: server.rep_proxy_main(network.LOOPBACK, rep))
            network.Call(lambda: server.pull_proxy_main(network.LOOPBACK, pull))
            network.Call(lambda: server.rep_worker_main(rep, Conn))
            network.Call(lambda: server.pull_worker_main(pull, Conn))
            eventually(lambda: server.rep_endpoint and server.pull_endpoint)
        else:
            server.start()
        # Again and again: a new connection may get the descriptor of one that has left.
        for _ in range(3):
            before = server.total_caches
            with network.connected(server, hwm=1, timeout=3 * SLACK) as client:
                build.add_uniform(client.rem, 20, s=np.zeros((20, 1 << 14)))
                for _ in range(60):
                    client.push_cache()
                eventually(lambda before=before: server.total_caches == before + 60)
    assert caplog.messages == []


@pytest.mark.parametrize("proxied", [False, True])
@pytest.mark.parametrize("limit", ["MOST_UNREAD", "MOST_UNREAD_IN_ALL"])
def test_bytes_of_unread_replies_are_bounded(
    limit: str, proxied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"cogrs.replay.serving.unread_replies.{limit}", 4 * MIB)
    options: Any = {"s": np.zeros(1 << 15), "reuse_cache": True, "cache_size": 8}
    with network.made(1, **options) as server, contextlib.ExitStack() as stack:
        server.start()
        where = server.rep_endpoint
        if proxied:
            proxy = stack.enter_context(ReplayProxy(*[network.LOOPBACK] * 4))
            network.Call(lambda: server.rep_worker_main(proxy.rep_back, Conn))
            where = proxy.rep_front
        with network.connected(server, timeout=3 * SLACK) as client:
            build.add_uniform(client.rem, 20, s=np.zeros((20, 1 << 15)))
            client.push_cache()
            network.arrived(server, 1)
        with zmtp.peer(where, "DEALER") as connection:
            asked = encode(1, samples_request=pb.SamplesRequest(rows=8))
            request = zmtp.frame(b"", zmtp.MORE) + zmtp.frame(asked)
            with contextlib.suppress(OSError):  # it may be ended before
                connection.sendall(100 * request)
            sampler = stack.enter_context(ReplaySampler([where], timeout=3 * SLACK))
            # All of it is 400 MiB, and buffers of the system take some.
            for _ in range(20):
                assert len(sampler.get_batch(4).weight) == 4
            connection.settimeout(1)
            received = 0
            with contextlib.suppress(OSError):
                while piece := connection.recv(1 << 20):
                    received += len(piece)
            assert received < 100 * MIB
        assert len(sampler.get_batch(4).weight) == 4
