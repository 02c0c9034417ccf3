"""A socket that calls of several threads use in turn: a lock is held for each turn."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cogrs.replay.net.deadline import SLICE
from cogrs.replay.net.socket_context import is_ready

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import zmq

    from cogrs.replay.net.deadline import Deadline
    from cogrs.replay.net.socket_context import SocketContext


class SocketRenewedError(ConnectionError):
    """The socket that a call waits for is to be replaced: the call begins again with a new one."""


class SharedSocket:
    """A socket that is created on first use and that threads use in turn."""

    def __init__(
        self,
        context: SocketContext,
        create: Callable[[], zmq.Socket[bytes]],
        retire: Callable[[zmq.Socket[bytes]], object] = lambda socket: None,
    ) -> None:
        """Call `create` whenever a socket is needed, and `retire` before it is closed."""
        self._context = context
        self._create = create
        self._retire = retire
        self._lock = threading.Lock()
        self._socket: zmq.Socket[bytes] | None = None
        self.is_stale = False
        """Whether the next turn is to create a new socket."""

    def renew(self) -> None:
        """Give the next turn a new socket; calls that wait raise SocketRenewedError.

        What the old one was given and has not sent still goes out where its peer is there.
        """
        self.is_stale = True

    @contextmanager
    def acquire(self, deadline: Deadline) -> Iterator[zmq.Socket[bytes] | None]:
        """Wait for the socket and give it; None when others have it until the deadline."""
        self._context.check()
        left = deadline.left
        if not self._lock.acquire(timeout=-1 if left is None else left):
            yield None
            return
        try:
            self._context.check()
            if self.is_stale:
                self.is_stale = False
                self._close_socket()
            if self._socket is None:
                self._socket = self._create()
            yield self._socket
        finally:
            self._lock.release()

    def drop(self) -> None:
        """Close the socket, while it is acquired; the next turn creates a new one."""
        if self._socket is not None:
            self._retire(self._socket)
            self._socket.close(linger=0)
            self._socket = None

    def wait(self, socket: zmq.Socket[bytes], event: int, deadline: Deadline) -> bool:
        """Wait until a socket can send or receive; return whether it can.

        Raises:
            SocketRenewedError: The socket is to be replaced.
        """
        # A poller is made for each poll, and as a rule there is nothing to wait for.
        while not is_ready(socket, event):
            if socket.poll(int(deadline.within(SLICE) * 1000 + 0.999), event):
                return True
            self._context.check()
            if self.is_stale:
                raise SocketRenewedError("the socket is replaced by another")
            if deadline.passed:
                return False
        return True

    def close(self) -> None:
        """Close the socket for good; the context is marked as closed before."""
        with self._lock:
            self._close_socket()

    def _close_socket(self) -> None:
        if self._socket is not None:
            self._retire(self._socket)
            self._socket.close()
            self._socket = None
