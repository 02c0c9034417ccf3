"""A directory that runs in another process, and may move."""

from __future__ import annotations

import json
import threading
import weakref
from typing import TYPE_CHECKING, Any, ClassVar, Final

import zmq

from cogrs.cluster.directory import LateGenerationError
from cogrs.replay.net.closeable import Closeable
from cogrs.replay.net.curve import Curve
from cogrs.replay.net.deadline import SLICE, Deadline
from cogrs.replay.net.request_socket import connect
from cogrs.replay.net.transport import Transport

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cogrs.replay.key_pair import KeyLike

_ANSWER: Final = 2.0
"""Seconds in which a directory that is there answers, beside what it was asked to wait."""


class DirectoryClient(Closeable):
    """Asks a directory, one request at a time; threads take turns.

    A request that was not answered may have arrived: all calls can be repeated.
    """

    _instead: ClassVar[str] = "create one in each process"

    def __init__(
        self, where: Callable[[], str | None], *, key: KeyLike, server_key: KeyLike
    ) -> None:
        """Connect later.

        Args:
            where: Returns the directory's endpoint, None while it is not known. It is called often,
                during a wait for an answer too, so that a directory that moves is found.
            key: The key pair of this part.
            server_key: The run's public server key.
        """
        self._where = where
        self._transport = Transport(type(self).__name__, Curve.of_client(key, server_key))
        self._next = threading.Lock()
        """Held by the thread whose turn is next: one that asks again and again lets others in."""
        self._lock = threading.Lock()
        self._endpoint: str | None = None
        self._sockets: list[zmq.Socket[bytes]] = []
        """The one that is connected, or nothing."""
        parts = (self._transport, self._lock, self._sockets)
        self._finalize = weakref.finalize(self, _close, *parts)

    def exchange(
        self, part: Mapping[str, Any] | None, seen: int, timeout: float
    ) -> dict[str, Any] | None:
        """Register a part, or nothing; return the snapshot when its version is larger than `seen`.

        Returns:
            The snapshot; None if there is no newer one after `timeout` seconds.

        Raises:
            LateGenerationError: The part was replaced.
            TimeoutError: The directory does not answer.
            RuntimeError: It refuses, or this client is closed.
        """
        request = {"call": "exchange", "part": part, "seen": seen, "timeout": timeout}
        snapshot: dict[str, Any] | None = self._ask(request, timeout)["snapshot"]
        return snapshot

    def status(self) -> dict[str, Any]:
        """Return all that parts have told; errors as of `exchange`."""
        return self._ask({"call": "status"}, 0.0)

    def order(self, **what: Any) -> None:
        """Ask the supervisor for something; errors as of `exchange`."""
        self._ask({"call": "order", "what": what}, 0.0)

    def _ask(self, request: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        message = json.dumps(request).encode()
        with self._next:
            self._lock.acquire()
        try:
            reply = self._exchange(message, Deadline(timeout + _ANSWER))
        except BaseException:
            self._disconnect()  # a REQ socket that waits for a reply cannot ask again
            raise
        finally:
            self._lock.release()
        if "late" in reply:
            raise LateGenerationError(reply["late"])
        if "error" in reply:
            raise RuntimeError(f"the directory refused: {reply['error']}")
        return reply

    def _exchange(self, message: bytes, deadline: Deadline) -> dict[str, Any]:
        is_sent = False
        while not deadline.passed:
            self._transport.check()
            if (endpoint := self._where()) != self._endpoint or not self._sockets:
                self._disconnect()
                if endpoint is None:
                    self._transport.wait_closing(deadline.within(SLICE))
                    continue
                self._sockets.append(connect(zmq.REQ, self._transport, "directory", endpoint))
                self._endpoint, is_sent = endpoint, False
            socket = self._sockets[0]
            event = zmq.POLLIN if is_sent else zmq.POLLOUT
            if not socket.poll(int(deadline.within(SLICE) * 1000 + 0.999), event):
                continue
            if is_sent:
                reply: dict[str, Any] = json.loads(self._transport.receive(socket)[-1].bytes)
                return reply
            try:
                socket.send(message, zmq.NOBLOCK)
                is_sent = True
            except zmq.Again:
                continue
        where = self._endpoint or "its endpoint, which is not known yet"
        raise TimeoutError(f"directory: no answer from {where}")

    def _disconnect(self) -> None:
        _disconnect(self._sockets)
        self._endpoint = None


def _disconnect(sockets: list[zmq.Socket[bytes]]) -> None:
    while sockets:
        sockets.pop().close(linger=0)


def _close(transport: Transport, lock: threading.Lock, sockets: list[zmq.Socket[bytes]]) -> None:
    if transport.begin_close():
        # A call that waits sees within a slice that it is closed.
        if lock.acquire(timeout=10 * SLICE):
            _disconnect(sockets)
            lock.release()
        transport.finish_close()
