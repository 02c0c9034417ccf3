"""Who may connect to a server that has keys: ZeroMQ's authentication protocol (ZAP, RFC 27)."""

from __future__ import annotations

import logging
import queue
import threading
import time
from typing import TYPE_CHECKING, Final

import zmq
from zmq.utils import z85

from cogrs.replay.net.connection_monitor import FAILURES
from cogrs.replay.net.curve import SAMPLER
from cogrs.replay.net.waker import Waker

if TYPE_CHECKING:
    from cogrs.replay.net.curve import AllowList
    from cogrs.replay.net.transport import Transport

_logger = logging.getLogger("cogrs.replay")

_ADDRESS = "inproc://zeromq.zap.01"

_MOST_PEERS = 1000
"""Peers that are remembered because they were refused."""

_USER_ID: Final = "User-Id"
"""The property of a frame by which libzmq tells what this module has called its sender."""


class Authenticator:
    """A thread that libzmq asks about each connection to a listening socket of a transport.

    It runs before the first of them listens, and libzmq refuses everybody once it has ended. Where
    the answer takes a look into a folder, that is left to a second thread, and others are answered
    meanwhile.
    """

    def __init__(self, transport: Transport, allowed: AllowList) -> None:
        """Start.

        Raises:
            OSError: No socket can be made.
        """
        self._transport = transport
        self._allowed = allowed
        self._refused: set[tuple[str, str]] = set()
        self._unknown: queue.SimpleQueue[tuple[float, list[bytes]] | None] = queue.SimpleQueue()
        """Questions that take a look into a folder, and when they came."""
        self._answers: queue.SimpleQueue[list[bytes]] = queue.SimpleQueue()
        # A REP socket could not answer one question while another waits.
        socket = transport.socket(zmq.ROUTER, hwm=0)
        socket.bind(_ADDRESS)
        self._bell = Waker(transport)
        for name, run, args in (("guard", self._run, (socket,)), ("guard-reader", self._read, ())):
            threading.Thread(target=run, args=args, name=f"cogrs-{name}", daemon=True).start()

    def heard(self, endpoint: str, event: int) -> None:
        """Report a connection to a listening socket that failed before anybody was asked."""
        if event & FAILURES:
            self._refuse(f"to {endpoint}", "that ended without keys for this server")

    def _run(self, socket: zmq.Socket[bytes]) -> None:
        poller = zmq.Poller()
        for each in (socket, self._bell.socket):
            poller.register(each, zmq.POLLIN)
        with self._transport.loop(), socket:
            try:
                while True:  # until the context is terminated, which raises
                    if socket in dict(poller.poll()):
                        self._ask(socket.recv_multipart(), socket)
                    self._bell.hush()
                    while not self._answers.empty():
                        socket.send_multipart(self._answers.get())
            finally:
                self._unknown.put(None)
                self._bell.close()

    def _ask(self, frames: list[bytes], socket: zmq.Socket[bytes]) -> None:
        """Answer a question, or have it answered when the folders have been read."""
        answer = self._answer(frames)
        if answer is None:
            self._unknown.put((time.monotonic(), frames))
        else:
            socket.send_multipart(answer)

    def _read(self) -> None:
        """Answer what takes a look into folders, until the other thread ends."""
        while (question := self._unknown.get()) is not None:
            asked_at, frames = question
            answer = self._answer(frames, asked_at)
            if answer is not None:
                self._answers.put(answer)
                try:
                    self._bell.ring()
                except zmq.ZMQError:  # closed meanwhile
                    return

    def _answer(self, frames: list[bytes], asked_at: float | None = None) -> list[bytes] | None:
        """Return the answer to a question; None where it is not known without reading a folder.

        Folders are read where that is told when the question came.
        """
        peer, delimiter, version, request, domain, address, _, mechanism, *credentials = frames
        where, name = domain.decode(), address.decode() or "this machine"
        role: str | None = ""
        user_id = who = ""
        if mechanism != b"CURVE" or len(credentials) != 1:
            who = "without a key"
        else:
            role = self._allowed.role_of(
                where, credentials[0], read=asked_at is not None, asked_at=asked_at or 0.0
            )
            user_id = z85.encode(credentials[0]).decode()
            who = f"with key {user_id}"
        if role is None:
            return None
        if not role:
            self._refuse(f"from {name}", f"{who}, which is none of its {where}")
        # After 400, an error for good, libzmq's clients give up; after 300 they try again later.
        status = (b"200", b"OK") if role else (b"300", b"this key is not allowed")
        identity = f"{role} {user_id}".encode() if role else b""
        return [peer, delimiter, version, request, *status, identity, b""]

    def _refuse(self, where: str, why: str) -> None:
        if (where, why) in self._refused or len(self._refused) >= _MOST_PEERS:
            return
        self._refused.add((where, why))
        _logger.warning("refused a connection %s %s; further ones are not told", where, why)


class Identity:
    """Who sends a message, as the guard of the socket that it came to has found.

    Attributes:
        key: The sender's public key, as 40 characters; empty where there are no keys.
        samples: Whether it may draw samples, send priorities and have messages published.
    """

    __slots__ = ("key", "samples")

    def __init__(self, user_id: str) -> None:
        """Read what the guard called the sender."""
        role, _, self.key = user_id.partition(" ")
        self.samples = role == SAMPLER


ANYBODY: Final = Identity(f"{SAMPLER} ")
"""The sender where there are no keys: it may do everything."""


def user_id_of(frame: zmq.Frame) -> str:
    """Return what the guard called the sender of a frame; empty for nobody.

    Only to be asked where there is a guard: otherwise it is the sender that says it.
    """
    try:
        return str(frame.get(_USER_ID))
    except zmq.ZMQError:
        return ""
