"""A client's requests: one at a time, each answered or given up."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

import zmq

from cogrs.escape import escaped
from cogrs.limits import LARGEST_REPLY, MOST_WAITING_OF_ANSWERS
from cogrs.replay.endpoint import Conn
from cogrs.replay.net.connection_monitor import ReceiveQuota
from cogrs.replay.net.deadline import deadline_after
from cogrs.replay.net.shared_socket import SharedSocket
from cogrs.replay.wire import REQUEST_HWM, WireError, decode, encode

if TYPE_CHECKING:
    from cogrs.api import replay_pb2 as pb
    from cogrs.replay.net.transport import Transport


class RequestSocket:
    """A REQ socket that is made on first use and that threads use in turn."""

    def __init__(
        self, transport: Transport, endpoint: str, sender: int, timeout: float | None
    ) -> None:
        """Do not connect yet; `timeout` is the seconds that a call waits, None for ever."""
        self._transport = transport
        self._endpoint = endpoint
        self._sender = sender
        self._timeout = timeout
        self._answered = False
        self._channel = SharedSocket(transport, partial(_connect, transport, endpoint))

    def ask(self, call: str, expected: str, **body: object) -> pb.Header:
        """Send a request, and return its answer, whose body is of the expected kind.

        Raises:
            TimeoutError: There is no answer.
            RuntimeError: There is no endpoint, the answer is not what was expected, or the client
                is closed.
        """
        self._transport.check()
        if not self._endpoint:
            raise RuntimeError(f"{call}: this client was created without a req_endpoint")
        deadline = deadline_after("timeout", self._timeout)
        with self._channel.turn(deadline) as socket:
            if socket is None:
                raise self._timed_out(call, "no turn: others wait for")
            try:
                if not self._sent(socket, encode(self._sender, **body), deadline):
                    hint = "" if self._answered else self._transport.hint
                    raise self._timed_out(call, "no answer from", hint)
                if not self._channel.wait(socket, zmq.POLLIN, deadline):
                    raise self._timed_out(call, "no answer from")
                frames = [frame.bytes for frame in self._transport.receive(socket)]
                self._answered = True
            except BaseException:
                self._channel.drop()  # a REQ socket that waits for an answer cannot ask again
                raise
        return self._understood(frames, expected)

    def close(self) -> None:
        """Close the socket for good; the transport is marked as closed before."""
        self._channel.close()

    def _sent(self, socket: zmq.Socket[bytes], message: bytes, deadline: float | None) -> bool:
        """Send a request as soon as there is a connection; tell whether there was one."""
        while self._channel.wait(socket, zmq.POLLOUT, deadline):
            # The connection may go in between.
            with contextlib.suppress(zmq.Again):
                socket.send(message, zmq.NOBLOCK)
                return True
        return False

    def _understood(self, frames: list[bytes], expected: str) -> pb.Header:
        try:
            if len(frames) != 1:
                raise WireError(f"{len(frames)} frames where 1 is expected")
            header = decode(frames[0])
        except WireError as error:
            raise RuntimeError(f"{self._endpoint} answered with {error}") from None
        if header.WhichOneof("body") == "refusal":
            raise RuntimeError(f"{self._endpoint} refused: {escaped(header.refusal.reason)}")
        if header.WhichOneof("body") != expected:
            raise RuntimeError(f"{self._endpoint} answered with something else than {expected}")
        return header

    def _timed_out(self, call: str, why: str, hint: str = "") -> TimeoutError:
        return TimeoutError(f"{call}: {why} {self._endpoint} after {self._timeout:g} s{hint}")


def _connect(transport: Transport, endpoint: str) -> zmq.Socket[bytes]:
    socket = transport.socket(zmq.REQ, hwm=REQUEST_HWM, max_frame=LARGEST_REPLY)
    # A request is sent once there is a connection, so that it is known which of both was missing.
    socket.setsockopt(zmq.IMMEDIATE, 1)
    transport.attach(
        socket, "req_endpoint", endpoint, Conn, intake=ReceiveQuota(MOST_WAITING_OF_ANSWERS)
    )
    return socket
