"""The thread that watches connections, when sockets go away and descriptors are used again."""

from __future__ import annotations

import itertools
import socket
import struct
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import zmq

from cogrs.replay.net.connection_monitor import ConnectionMonitor, WatchedSocket
from cogrs.replay.net.receive_quota import ReceiveQuota
from cogrs.replay.net.socket_context import SocketContext

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

SLACK = 60.0
_names = itertools.count()


@contextmanager
def received(size: int) -> Iterator[socket.socket]:
    """A connection that has read some bytes, which make no message."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        there = socket.create_connection(listener.getsockname())
        here, _ = listener.accept()
    with here, there:
        there.sendall(bytes(size))
        here.settimeout(SLACK)
        assert len(here.recv(size, socket.MSG_WAITALL)) == size
        yield here


class Told:
    """A monitor, and sockets of which the test tells it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.context = SocketContext("server")
        self.monkeypatch = monkeypatch
        self.looked = threading.Condition()
        self.looks = 0
        self.sockets: list[zmq.Socket[bytes]] = []
        check = ConnectionMonitor._check_some

        def counted(monitor: ConnectionMonitor) -> None:
            check(monitor)
            with self.looked:
                self.looks += 1
                self.looked.notify_all()

        monkeypatch.setattr(ConnectionMonitor, "_check_some", counted)
        self.monitor = ConnectionMonitor(self.context)

    def socket(self, *events: tuple[int, int], most: int = 1_000) -> zmq.Socket[bytes]:
        """A socket with a limit whose events, with their descriptors, are there at once."""
        name = f"inproc://test-{next(_names)}"
        tells = self.context.socket(zmq.PAIR, hwm=0)
        self.sockets.append(tells)
        reader = self.context.socket(zmq.PAIR, hwm=0)
        tells.bind(name)
        reader.connect(name)
        tell(tells, *events)
        self.monkeypatch.setattr(self.context, "monitor", lambda *_: reader)
        self.monitor.watch(tells, WatchedSocket(name, ReceiveQuota(most)))
        return tells

    def look(self, times: int = 3) -> None:
        """Wait until it has looked at its connections some more times."""
        with self.looked:
            until = self.looks + times
            assert self.looked.wait_for(lambda: self.looks >= until, SLACK)

    def close(self) -> None:
        for each in self.sockets:
            each.close()
        self.context.begin_close()
        self.context.finish_close()


def tell(socket: zmq.Socket[bytes], *events: tuple[int, int]) -> None:
    for event, descriptor in events:
        socket.send_multipart([struct.pack("=HI", event, descriptor), b"here"])


def is_shut_down(connection: socket.socket) -> bool:
    try:
        return connection.send(b"-") == 0
    except BrokenPipeError:
        return True


def test_connection_with_more_than_may_wait_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    with received(100_000) as connection:
        told = Told(monkeypatch)
        told.socket((zmq.EVENT_ACCEPTED, connection.fileno()))
        told.look()
        assert is_shut_down(connection)
        told.close()


def test_descriptor_of_an_ended_connection_is_of_another_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with received(100_000) as connection:
        told = Told(monkeypatch)
        mine = (connection.fileno(),)
        told.socket((zmq.EVENT_ACCEPTED, *mine), (zmq.EVENT_DISCONNECTED, *mine))
        told.look()
        assert not is_shut_down(connection)
        told.close()


def test_connection_is_watched_when_its_descriptor_was_of_another_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with received(100_000) as connection:
        told = Told(monkeypatch)
        mine = (connection.fileno(),)
        before = told.socket((zmq.EVENT_ACCEPTED, *mine), most=1 << 20)
        after = told.socket((zmq.EVENT_CONNECTED, *mine), most=1 << 20)
        told.look()
        tell(before, (zmq.EVENT_DISCONNECTED, *mine))
        told.look()
        assert [key[1] for key in told.monitor._connections] == [*mine]
        tell(after, (zmq.EVENT_DISCONNECTED, *mine))
        told.look()
        assert not told.monitor._connections
        told.close()


def test_monitor_whose_socket_was_closed_under_the_poller_ends(monkeypatch: Any) -> None:
    polled = threading.Event()

    class ClosedUnder(zmq.Poller):
        """Has a closed socket, in whose place libzmq looks at descriptor 0."""

        def poll(self, timeout: int | None = None) -> list[tuple[Any, int]]:
            found = super().poll(timeout)
            polled.set()
            return [(0, zmq.POLLIN), *found]

    monkeypatch.setattr(zmq, "Poller", ClosedUnder)
    before = set(threading.enumerate())
    context = SocketContext("server")
    monitor = ConnectionMonitor(context)
    socket = context.socket(zmq.PULL, hwm=1)
    monitor.watch(socket, WatchedSocket("here", ReceiveQuota(1)))
    assert polled.wait(60)
    for thread in set(threading.enumerate()) - before:
        if thread.name == "cogrs-connections":
            thread.join(60)
            assert not thread.is_alive()
    socket.disable_monitor()
    context.begin_close()
    context.finish_close()
