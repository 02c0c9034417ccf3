"""The thread that watches connections, when its sockets go away."""

from __future__ import annotations

import threading
from typing import Any

import zmq

from cogrs.replay.net.connection_monitor import ConnectionMonitor, WatchedSocket
from cogrs.replay.net.receive_quota import ReceiveQuota
from cogrs.replay.net.socket_context import SocketContext


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
