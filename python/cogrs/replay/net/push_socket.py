"""A client's caches and log lines, on their way to one server or to several in turn.

With one endpoint, messages wait for a server that is away, up to the high-water mark. With several
each goes to one that is there (ZMQ_IMMEDIATE): ZeroMQ would otherwise give those that are away as
many as the others, and keep them waiting.

Where one side has keys and the other has none, libzmq gives the connection up with the messages
that waited for it, and only a monitor is told. So this socket has a monitor of its own, and checks
it before each message.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import zmq
from zmq.utils.monitor import parse_monitor_message

from cogrs.limits import SMALL_FRAME
from cogrs.replay.endpoint import Conn
from cogrs.replay.net.deadline import SLICE, Deadline
from cogrs.replay.net.shared_socket import SharedSocket, SocketRenewedError
from cogrs.replay.net.socket_context import is_ready
from cogrs.replay.net.warn_once import WarnOnce

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cogrs.replay.net.transport import Transport

_VERDICTS = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
_EVENTS = _VERDICTS | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL

_FIRST = 1.0
"""Seconds that the first message waits for a connection, to learn whether the server takes any."""

_DOUBT = 10.0
"""Seconds that it waits where a connection broke without a verdict: libzmq tries again."""


class PushSocket:
    """A PUSH socket that is created on first use; threads take turns."""

    def __init__(self, transport: Transport, endpoints: Sequence[str], hwm: int) -> None:
        """Do not connect yet."""
        self._transport = transport
        self._endpoints = endpoints
        self._hwm = hwm
        # libzmq's thread waits for a reader of its events, so they stop before the reader goes.
        self._shared = SharedSocket(transport, self._create, zmq.Socket.disable_monitor)
        self._events: zmq.Socket[bytes] | None = None
        self._received: list[Any] = []
        """Events that were taken and not looked at."""
        self._warn = WarnOnce()
        self._connected = False
        """Whether there was a connection to any server."""

    def replace(self, endpoints: Sequence[str]) -> None:
        """Send to other endpoints from now on, also what waits for room."""
        self._endpoints = endpoints
        self._connected = False
        self._shared.renew()

    def send(
        self, call: str, head: Callable[[], bytes], frames: Sequence[Any], timeout: float | None
    ) -> None:
        """Send a message whose head is made at its turn; errors as of the client's `push_cache`."""
        if not self._endpoints[0]:
            raise RuntimeError(f"{call}: this client was created without a push_endpoint")
        deadline = Deadline.of("timeout", timeout)
        message: tuple[Any, ...] = ()
        while True:
            with (
                contextlib.suppress(SocketRenewedError),
                self._shared.acquire(deadline) as socket,
            ):
                while socket is not None and self._has_room(call, socket, deadline):
                    message = message or (head(), *frames)
                    # Room goes with the connection that had it; then none of the parts is sent.
                    try:
                        socket.send_multipart(message, zmq.NOBLOCK, copy=False)
                    except zmq.Again:
                        continue
                    except BaseException:
                        # Ctrl-C may come between two parts; they leave with the socket.
                        self._shared.renew()
                        raise
                    return
                where = ", ".join(self._endpoints)
                why = f"{self._hwm} messages wait to be taken by"
                if len(self._endpoints) > 1:
                    why = f"no connection, or {why}"
                hint = "" if self._connected else self._transport.hint
                raise TimeoutError(f"{call}: {why} {where} after {timeout:g} s{hint}")

    def close(self) -> None:
        """Close the socket for good; the transport is marked as closed before."""
        self._shared.close()

    def _create(self) -> zmq.Socket[bytes]:
        self._received.clear()
        if self._events is not None:
            self._events.close(linger=0)
            self._events = None
        # Nobody reads what comes to a PUSH socket, and it stays.
        socket = self._transport.socket(zmq.PUSH, hwm=self._hwm, max_frame=SMALL_FRAME)
        try:
            if len(self._endpoints) > 1:
                socket.setsockopt(zmq.IMMEDIATE, 1)
            self._events = self._transport.monitor(socket, _EVENTS)
            for endpoint in self._endpoints:
                self._transport.attach(socket, "push_endpoint", endpoint, Conn, quota=None)
            self._wait_first(self._events)
        except BaseException:
            if not socket.closed:
                socket.disable_monitor()
                socket.close(linger=0)
            raise
        return socket

    def _wait_first(self, events: zmq.Socket[bytes]) -> None:
        """Wait until something is known of a connection."""
        doubt = Deadline(_DOUBT)
        end = Deadline(_FIRST)
        while not end.passed and not self._shared.is_stale:
            self._transport.check()
            if not events.poll(50):
                continue
            event = parse_monitor_message(events.recv_multipart())
            if event["event"] & _VERDICTS:
                self._received.append(event)
                return
            end = doubt

    def _has_room(self, call: str, socket: zmq.Socket[bytes], deadline: Deadline) -> bool:
        """Wait until there is room for a message, and check connections meanwhile."""
        while True:
            self._check(call)
            if is_ready(socket, zmq.POLLOUT):  # as a rule
                return True
            if self._shared.wait(socket, zmq.POLLOUT, Deadline(deadline.within(SLICE))):
                return True
            if deadline.passed:
                return False

    def _check(self, call: str) -> None:
        """Refuse to send messages that would be lost."""
        events = self._events
        while events is not None and (self._received or is_ready(events, zmq.POLLIN)):
            event = (
                self._received.pop()
                if self._received
                else parse_monitor_message(events.recv_multipart())
            )
            self._connected |= event["event"] == zmq.EVENT_HANDSHAKE_SUCCEEDED
            if event["event"] != zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
                continue
            where = event["endpoint"].decode()
            if len(self._endpoints) == 1:
                self._shared.drop()  # libzmq does not connect this one again
                raise ConnectionError(
                    f"{call}: {where} and this client do not speak the same protocol: one of them "
                    "has keys and the other has none, or the peer is not a server of this kind; "
                    "nothing is sent, and what waited for it is lost"
                )
            text = "push_endpoint: %s gets nothing: it has keys and this client has none, or the "
            self._warn(where, f"{text}other way round", where)
