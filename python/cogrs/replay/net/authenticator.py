"""The ZAP authenticator of an object with keys: ZeroMQ's authentication protocol (RFC 27).

libzmq asks it about each connection to a listening socket. Sockets demand a reply, so nobody gets
in once it has ended. The authenticator names each connection by its role and key (User-Id), which
workers read of each message.

Threads: keys that are known are answered at once, by the first thread, which owns the ZAP socket;
questions that only reading a folder answers go to the second by a queue, and its replies back.
"""

from __future__ import annotations

import queue
import time
from typing import TYPE_CHECKING, Final

import zmq
from zmq.utils import z85

from cogrs.replay.net.connection_monitor import FAILURES
from cogrs.replay.net.curve import SAMPLER
from cogrs.replay.net.socket_context import start_thread
from cogrs.replay.net.waker import Waker
from cogrs.replay.net.warn_once import WarnOnce

if TYPE_CHECKING:
    from cogrs.replay.net.curve import AllowList
    from cogrs.replay.net.socket_context import SocketContext

_ADDRESS = "inproc://zeromq.zap.01"

_USER_ID: Final = "User-Id"
"""The property of a frame in which libzmq has what the authenticator called its sender."""


class Authenticator:
    """Two threads that decide which peers may connect to the sockets of a context.

    It runs before the first of them listens.
    """

    def __init__(self, context: SocketContext, allowed: AllowList) -> None:
        """Start."""
        self._context = context
        self._allowed = allowed
        self._warn = WarnOnce()
        self._unknown: queue.SimpleQueue[tuple[float, list[bytes]] | None] = queue.SimpleQueue()
        """Questions for which a folder has to be read, and when they came."""
        self._replies: queue.SimpleQueue[list[bytes]] = queue.SimpleQueue()
        # A REP socket could not answer one question while another waits.
        socket = context.socket(zmq.ROUTER, hwm=0)
        socket.bind(_ADDRESS)
        self._waker = Waker(context)
        start_thread("authenticator", self._run, socket)
        start_thread("authenticator-reader", self._read)

    def on_event(self, endpoint: str, event: int) -> None:
        """Report a connection to a listening socket that failed before its key was asked about."""
        if event & FAILURES:
            self._refuse(f"to {endpoint}", "that ended before it showed a key")

    def _run(self, socket: zmq.Socket[bytes]) -> None:
        poller = zmq.Poller()
        for each in (socket, self._waker.socket):
            poller.register(each, zmq.POLLIN)
        with self._context.loop(), socket:
            try:
                while True:  # until the context is terminated, which raises
                    if socket in dict(poller.poll()):
                        self._handle(socket.recv_multipart(), socket)
                    self._waker.reset()
                    while not self._replies.empty():
                        socket.send_multipart(self._replies.get())
            finally:
                self._unknown.put(None)
                self._waker.close()

    def _handle(self, frames: list[bytes], socket: zmq.Socket[bytes]) -> None:
        reply = self._reply(frames)
        if reply is None:
            self._unknown.put((time.monotonic(), frames))
        else:
            socket.send_multipart(reply)

    def _read(self) -> None:
        """Answer the questions for which folders are read, until the other thread ends."""
        while (question := self._unknown.get()) is not None:
            asked_at, frames = question
            reply = self._reply(frames, asked_at)
            if reply is not None:
                self._replies.put(reply)
                try:
                    self._waker.wake()
                except zmq.ZMQError:  # closed meanwhile
                    return

    def _reply(self, frames: list[bytes], asked_at: float | None = None) -> list[bytes] | None:
        """Return the reply to a question; None where only reading a folder tells.

        Given when the question came, it reads folders that were not read since.
        """
        peer, delimiter, version, request, domain, address, _, mechanism, *credentials = frames
        where, name = domain.decode(), address.decode() or "this machine"
        role: str | None = ""
        user_id = which = ""
        if mechanism != b"CURVE" or len(credentials) != 1:
            which = "without a key"
        else:
            role = self._allowed.role_of(
                where, credentials[0], read=asked_at is not None, asked_at=asked_at or 0.0
            )
            user_id = z85.encode(credentials[0]).decode()
            which = f"with key {user_id}"
        if role is None:
            return None
        if not role:
            self._refuse(f"from {name}", f"{which}, which is not one of its {where}")
        # After 400, a permanent error, libzmq's clients give up; after 300 they try again later.
        status = (b"200", b"OK") if role else (b"300", b"this key is not allowed")
        identity = f"{role} {user_id}".encode() if role else b""
        return [peer, delimiter, version, request, *status, identity, b""]

    def _refuse(self, where: str, why: str) -> None:
        text = "refused a connection %s %s; further ones are not reported"
        self._warn((where, why), text, where, why)


class Identity:
    """The sender of a message, as the authenticator of the socket that it came to named it."""

    __slots__ = ("key", "samples")

    def __init__(self, user_id: str) -> None:
        """Read a User-Id: a role, and a public key of 40 characters, empty without keys."""
        role, _, self.key = user_id.partition(" ")
        self.samples = role == SAMPLER  # whether it may draw, send priorities, and publish


ANYBODY: Final = Identity(f"{SAMPLER} ")
"""The sender where there are no keys: it may do everything."""


def user_id_of(frame: zmq.Frame) -> str:
    """Return what the authenticator called the sender of a frame; empty for nobody.

    Only to be called where there is an authenticator: otherwise the sender chooses it.
    """
    try:
        return str(frame.get(_USER_ID))
    except zmq.ZMQError:
        return ""
