"""What wakes a loop that polls sockets."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import zmq

if TYPE_CHECKING:
    from cogrs.replay.net.transport import Transport


class Waker:
    """Wakes a loop that polls sockets from another thread."""

    def __init__(self, transport: Transport) -> None:
        """Make both ends."""
        name = f"inproc://cogrs.{id(self):x}"
        self.socket = transport.socket(zmq.PAIR, hwm=0)
        self.socket.bind(name)
        self._rope = transport.socket(zmq.PAIR, hwm=0)
        self._rope.connect(name)
        self._lock = threading.Lock()
        self._rung = False

    def ring(self) -> None:
        """Wake the loop. A bell that rings already stays as it is."""
        with self._lock:
            if not self._rung and not self._rope.closed:
                self._rung = True
                self._rope.send(b"")

    def hush(self) -> None:
        """Reset the bell; the loop calls this before it looks for work."""
        with self._lock:
            self._rung = False
            while self.socket.poll(0):
                self.socket.recv()

    def close(self) -> None:
        """Close both ends; to be called by the loop when it ends."""
        with self._lock:
            self._rope.close(linger=0)
            self.socket.close(linger=0)
