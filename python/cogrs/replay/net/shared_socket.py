"""A socket that calls of several threads use in turn."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cogrs.replay.net.deadline import seconds_to
from cogrs.replay.net.transport import is_ready

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import zmq

    from cogrs.replay.net.transport import Transport

_SLICE = 0.1
"""Seconds that a call waits before it looks whether its object was closed."""


class SharedSocket:
    """A socket that is made on first use and that threads use in turn."""

    def __init__(
        self,
        transport: Transport,
        make: Callable[[], zmq.Socket[bytes]],
        retire: Callable[[zmq.Socket[bytes]], object] = lambda socket: None,
    ) -> None:
        """Use `make` whenever a socket is needed, and `retire` before it is closed."""
        self._transport = transport
        self._make = make
        self._retire = retire
        self._lock = threading.Lock()
        self._socket: zmq.Socket[bytes] | None = None

    @contextmanager
    def turn(self, deadline: float | None) -> Iterator[zmq.Socket[bytes] | None]:
        """Wait for the socket and give it; None when others have it until the deadline."""
        self._transport.check()
        if not self._lock.acquire(timeout=-1 if deadline is None else seconds_to(deadline)):
            yield None
            return
        try:
            self._transport.check()
            if self._socket is None:
                self._socket = self._make()
            yield self._socket
        finally:
            self._lock.release()

    def drop(self) -> None:
        """Close the socket, to be called in one's turn; the next turn makes a new one."""
        if self._socket is not None:
            self._retire(self._socket)
            self._socket.close(linger=0)
            self._socket = None

    def wait(self, socket: zmq.Socket[bytes], event: int, deadline: float | None) -> bool:
        """Wait until a socket can send or receive; tell whether it can.

        Raises:
            RuntimeError: Closed meanwhile.
        """
        # A poller is made for each poll, and as a rule there is nothing to wait for.
        while not is_ready(socket, event):
            left = _SLICE if deadline is None else min(_SLICE, seconds_to(deadline))
            if socket.poll(int(left * 1000 + 0.999), event):
                return True
            self._transport.check()
            if deadline is not None and seconds_to(deadline) <= 0:
                return False
        return True

    def close(self) -> None:
        """Close the socket for good; the transport is marked as closed before."""
        with self._lock:
            if self._socket is not None:
                self._retire(self._socket)
                self._socket.close()
                self._socket = None
