"""What wakes a loop that polls sockets."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import zmq

if TYPE_CHECKING:
    from cogrs.replay.net.socket_context import SocketContext


class Waker:
    """Wakes a loop that polls `socket`. Any thread may call `wake`; the rest is the loop's."""

    def __init__(self, context: SocketContext) -> None:
        """Create a pair of connected sockets."""
        name = f"inproc://cogrs.{id(self):x}"
        self.socket = context.socket(zmq.PAIR, hwm=0)
        self.socket.bind(name)
        self._sender = context.socket(zmq.PAIR, hwm=0)
        self._sender.connect(name)
        self._lock = threading.Lock()
        self._woken = False

    def wake(self) -> None:
        """Wake the loop; once, however often this is called before the loop resets it."""
        with self._lock:
            if not self._woken and not self._sender.closed:
                self._woken = True
                self._sender.send(b"")

    def reset(self) -> None:
        """Take the message that woke the loop; to be called before the loop looks for work."""
        with self._lock:
            self._woken = False
            while self.socket.poll(0):
                self.socket.recv()

    def close(self) -> None:
        """Close both sockets, when the loop ends."""
        with self._lock:
            self._sender.close(linger=0)
            self.socket.close(linger=0)
