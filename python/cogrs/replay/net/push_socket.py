"""A client's caches and log lines, on their way to one server or to several in turn."""

from __future__ import annotations

import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any

import zmq
from zmq.utils.monitor import parse_monitor_message

from cogrs.limits import SMALL_FRAME
from cogrs.replay.endpoint import Conn
from cogrs.replay.net.deadline import deadline_after, seconds_to
from cogrs.replay.net.shared_socket import SharedSocket
from cogrs.replay.net.transport import is_ready

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cogrs.replay.net.transport import Transport

_logger = logging.getLogger("cogrs.replay")

_VERDICTS = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
_EVENTS = _VERDICTS | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL

_FIRST = 1.0
"""Seconds that the first message waits for a connection, to learn whether the server takes any."""

_DOUBT = 10.0
"""Seconds that it waits where connections broke before anybody had said why: libzmq tries again."""

_SLICE = 0.1
"""Seconds that it waits for room before it looks at connections."""


class PushSocket:
    """A PUSH socket that is made on first use and that threads use in turn.

    With one endpoint, messages wait for a server that is away, up to the high-water mark. With
    several each goes to one that is there: ZeroMQ would otherwise give those that are away as many
    as the others, and keep them waiting.

    Where one side has keys and the other has none, libzmq gives the connection up with what waited
    for it, and tells only who listens for it.
    """

    def __init__(self, transport: Transport, endpoints: Sequence[str], hwm: int) -> None:
        """Do not connect yet."""
        self._transport = transport
        self._endpoints = endpoints
        self._hwm = hwm
        # libzmq's thread waits for a reader of what it reports, so it stops before that goes.
        self._channel = SharedSocket(transport, self._make, zmq.Socket.disable_monitor)
        self._events: zmq.Socket[bytes] | None = None
        self._heard: list[Any] = []
        self._reported: set[str] = set()
        self._connected = False
        """Whether there was a connection to any server."""

    def send(
        self, call: str, head: Callable[[], bytes], frames: Sequence[Any], timeout: float | None
    ) -> None:
        """Send a message whose first frame is made when its turn has come.

        Raises:
            TimeoutError: It cannot be sent in time.
            ConnectionError: The only server has keys and this client none, or the other way round.
            RuntimeError: Closed.
        """
        if not self._endpoints[0]:
            raise RuntimeError(f"{call}: this client was created without a push_endpoint")
        deadline = deadline_after("timeout", timeout)
        with self._channel.turn(deadline) as socket:
            message: tuple[Any, ...] = ()
            while socket is not None and self._has_room(call, socket, deadline):
                message = message or (head(), *frames)
                # Room goes with the connection that had it; then none of the parts is sent.
                with contextlib.suppress(zmq.Again):
                    socket.send_multipart(message, zmq.NOBLOCK, copy=False)
                    break
            else:
                where = ", ".join(self._endpoints)
                why = f"{self._hwm} messages wait to be taken by"
                if len(self._endpoints) > 1:
                    why = f"no connection, or {why}"
                hint = "" if self._connected else self._transport.hint
                raise TimeoutError(f"{call}: {why} {where} after {timeout:g} s{hint}")

    def close(self) -> None:
        """Close the socket for good; the transport is marked as closed before."""
        self._channel.close()

    def _make(self) -> zmq.Socket[bytes]:
        self._forget_events()
        # Nobody reads what comes to a PUSH socket, and it stays.
        socket = self._transport.socket(zmq.PUSH, hwm=self._hwm, max_frame=SMALL_FRAME)
        try:
            if len(self._endpoints) > 1:
                socket.setsockopt(zmq.IMMEDIATE, 1)
            self._events = self._transport.monitor(socket, _EVENTS)
            for endpoint in self._endpoints:
                self._transport.attach(socket, "push_endpoint", endpoint, Conn, intake=None)
            self._wait_first(self._events)
        except BaseException:
            if not socket.closed:
                socket.disable_monitor()
                socket.close(linger=0)
            raise
        return socket

    def _wait_first(self, events: zmq.Socket[bytes]) -> None:
        """Wait until something is known of a connection."""
        begin = time.monotonic()
        end = begin + _FIRST
        while seconds_to(end) > 0:
            self._transport.check()
            if not events.poll(50):
                continue
            event = parse_monitor_message(events.recv_multipart())
            if event["event"] & _VERDICTS:
                self._heard.append(event)
                return
            end = begin + _DOUBT

    def _has_room(self, call: str, socket: zmq.Socket[bytes], deadline: float | None) -> bool:
        """Wait until there is room for a message, and look meanwhile at connections."""
        while True:
            self._check(call, socket)
            slice_end = time.monotonic() + _SLICE
            end = slice_end if deadline is None else min(slice_end, deadline)
            if self._channel.wait(socket, zmq.POLLOUT, end):
                return True
            if deadline is not None and seconds_to(deadline) <= 0:
                return False

    def _check(self, call: str, socket: zmq.Socket[bytes]) -> None:
        """Refuse to send what would be lost."""
        events = self._events
        while events is not None and (self._heard or is_ready(events, zmq.POLLIN)):
            event = (
                self._heard.pop() if self._heard else parse_monitor_message(events.recv_multipart())
            )
            self._connected |= event["event"] == zmq.EVENT_HANDSHAKE_SUCCEEDED
            if event["event"] != zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
                continue
            where = event["endpoint"].decode()
            if len(self._endpoints) == 1:
                self._channel.drop()  # libzmq does not connect this one again
                raise ConnectionError(
                    f"{call}: {where} and this client do not speak the same protocol: one of them "
                    "has keys and the other has none, or the peer is no server of this kind; "
                    "nothing is sent, and what waited for it is lost"
                )
            if where not in self._reported:
                self._reported.add(where)
                _logger.warning(
                    "push_endpoint: %s gets nothing: it has keys and this client has none, or the "
                    "other way round",
                    where,
                )

    def _forget_events(self) -> None:
        self._heard.clear()
        if self._events is not None:
            self._events.close(linger=0)
            self._events = None
