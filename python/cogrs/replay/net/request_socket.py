"""A client's requests: one at a time, each answered or given up; threads take turns."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import zmq

from cogrs.escape import escaped
from cogrs.limits import LARGEST_REPLY, MOST_WAITING_OF_ANSWERS
from cogrs.replay.endpoint import Conn
from cogrs.replay.net.deadline import Deadline
from cogrs.replay.net.receive_quota import ReceiveQuota
from cogrs.replay.net.shared_socket import SharedSocket, SocketRenewedError
from cogrs.replay.net.socket_context import REQUEST_HWM
from cogrs.replay.wire import WireError, decode, encode

if TYPE_CHECKING:
    from cogrs.api import replay_pb2 as pb
    from cogrs.replay.net.transport import Transport


class RequestSocket:
    """A REQ socket. After a request without a reply the next one uses a fresh socket."""

    def __init__(
        self, transport: Transport, endpoint: str, sender: int, timeout: float | None
    ) -> None:
        """Do not connect yet; `timeout` is the seconds that a call waits, None for ever."""
        self._transport = transport
        self._endpoint = endpoint
        self._sender = sender
        self._timeout = timeout
        self._answered = False
        self._shared = SharedSocket(transport, self._create)

    def replace(self, endpoint: str) -> None:
        """Send requests to another endpoint from now on, those that wait for a reply too."""
        self._endpoint = endpoint
        self._answered = False
        self._shared.renew()

    def ask(
        self, call: str, expected: str, *, within: float | None = None, **body: object
    ) -> pb.Header:
        """Send a request, and return its reply; errors as of the client's `sync_sizes`.

        `within` is a shorter timeout for this request. It has to do no harm if it arrives twice.
        """
        self._transport.check()
        if not self._endpoint:
            raise RuntimeError(f"{call}: this client was created without a req_endpoint")
        seconds = min((each for each in (self._timeout, within) if each is not None), default=None)
        deadline = Deadline.of("timeout", seconds)
        message = encode(self._sender, **body)
        while True:
            with contextlib.suppress(SocketRenewedError):
                return self._read(self._exchange(call, message, deadline, seconds), expected)

    def _exchange(
        self, call: str, message: bytes, deadline: Deadline, seconds: float | None
    ) -> list[bytes]:
        """Send a request, and return the frames of its reply."""
        with self._shared.acquire(deadline) as socket:
            if socket is None:
                raise self._timed_out(call, "other calls still wait for", seconds)
            try:
                if not self._sent(socket, message, deadline):
                    hint = "" if self._answered else self._transport.hint
                    raise self._timed_out(call, "no answer from", seconds, hint)
                if not self._shared.wait(socket, zmq.POLLIN, deadline):
                    raise self._timed_out(call, "no answer from", seconds)
                frames = [frame.bytes for frame in self._transport.receive(socket)]
                self._answered = True
                return frames
            except BaseException:
                self._shared.drop()  # a REQ socket that waits for a reply cannot ask again
                raise

    def close(self) -> None:
        """Close the socket for good; the transport is marked as closed before."""
        self._shared.close()

    def _create(self) -> zmq.Socket[bytes]:
        return connect(zmq.REQ, self._transport, "req_endpoint", self._endpoint)

    def _sent(self, socket: zmq.Socket[bytes], message: bytes, deadline: Deadline) -> bool:
        """Send a request as soon as there is a connection; return whether there was one."""
        while self._shared.wait(socket, zmq.POLLOUT, deadline):
            # The connection may go in between.
            with contextlib.suppress(zmq.Again):
                socket.send(message, zmq.NOBLOCK)
                return True
        return False

    def _read(self, frames: list[bytes], expected: str) -> pb.Header:
        try:
            if len(frames) != 1:
                raise WireError(f"{len(frames)} frames where 1 is expected")
            header = decode(frames[0])
        except WireError as error:
            raise RuntimeError(f"{self._endpoint} answered with {error}") from None
        kind = header.WhichOneof("body")
        if kind == "refusal":
            raise RuntimeError(f"{self._endpoint} refused: {escaped(header.refusal.reason)}")
        if kind != expected:
            raise RuntimeError(f"{self._endpoint} answered with something other than {expected}")
        return header

    def _timed_out(
        self, call: str, why: str, seconds: float | None, hint: str = ""
    ) -> TimeoutError:
        return TimeoutError(f"{call}: {why} {self._endpoint} after {seconds:g} s{hint}")


def connect(kind: int, transport: Transport, name: str, endpoint: str) -> zmq.Socket[bytes]:
    """Return a socket for requests that sends only where there is a connection (ZMQ_IMMEDIATE).

    So it is known whether the connection or the reply was missing, and a message that was not sent
    is not sent twice.
    """
    socket = transport.socket(kind, hwm=REQUEST_HWM, max_frame=LARGEST_REPLY)
    socket.setsockopt(zmq.IMMEDIATE, 1)
    transport.attach(socket, name, endpoint, Conn, quota=ReceiveQuota(MOST_WAITING_OF_ANSWERS))
    return socket
