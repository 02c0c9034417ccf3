"""Who may connect to a server that has keys: ZeroMQ's authentication protocol (ZAP, RFC 27)."""

from __future__ import annotations

import itertools
import logging
import threading
from collections import deque
from typing import TYPE_CHECKING

import zmq
from zmq.utils import z85

if TYPE_CHECKING:
    from cogrs.replay.keys import Allowed
    from cogrs.replay.transport import Transport

_logger = logging.getLogger("cogrs.replay")

_ADDRESS = "inproc://zeromq.zap.01"

_FAILURES = zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
"""What comes of peers whose key nobody could be asked about."""

_IDLE_MS = 500
"""For so long it waits for something to do before it looks for new sockets to watch."""

_MOST_PEERS = 1000
"""Peers that are remembered because they were refused."""


class Guard:
    """A thread that libzmq asks about each connection to a listening socket of a transport.

    It runs before the first of them listens, and libzmq refuses everybody once it has ended.
    """

    def __init__(self, transport: Transport, allowed: Allowed) -> None:
        """Start.

        Raises:
            OSError: No socket can be made.
        """
        self._transport = transport
        self._allowed = allowed
        self._refused: set[tuple[str, str]] = set()
        self._new: deque[tuple[zmq.Socket[bytes], str]] = deque()
        self._readers: dict[zmq.Socket[bytes], str] = {}
        self._numbers = itertools.count()
        socket = transport.socket(zmq.REP, hwm=0)
        socket.bind(_ADDRESS)
        threading.Thread(target=self._run, args=(socket,), name="cogrs-guard", daemon=True).start()

    def watch(self, socket: zmq.Socket[bytes], endpoint: str) -> None:
        """Report connections to a listening socket that fail before anybody is asked.

        Raises:
            OSError: No socket can be made.
            RuntimeError: Closed.
        """
        # libzmq's thread would wait for a reader of what it reports, and for room. So the reader is
        # there first, has room for all, and stays until the context is terminated.
        reader = self._transport.socket(zmq.PAIR, hwm=0, linger_ms=0)
        name = f"inproc://cogrs.guard-{next(self._numbers)}"
        reader.connect(name)
        socket.monitor(name, _FAILURES)
        self._new.append((reader, endpoint))

    def _run(self, socket: zmq.Socket[bytes]) -> None:
        poller = zmq.Poller()
        poller.register(socket, zmq.POLLIN)
        with self._transport.loop(), socket:
            try:
                while True:  # until the context is terminated, which raises
                    self._register(poller)
                    for ready, _ in poller.poll(_IDLE_MS):
                        frames = ready.recv_multipart()
                        if ready is socket:
                            socket.send_multipart(self._answer(frames))
                        else:
                            why = "that ended without keys for this server"
                            self._refuse(f"to {self._readers[ready]}", why)
            finally:
                self._register(poller)
                for reader in self._readers:
                    reader.close()

    def _register(self, poller: zmq.Poller) -> None:
        while self._new:
            reader, endpoint = self._new.popleft()
            self._readers[reader] = endpoint
            poller.register(reader, zmq.POLLIN)

    def _answer(self, frames: list[bytes]) -> list[bytes]:
        version, request, domain, address, _, mechanism, *credentials = frames
        where, peer = domain.decode(), address.decode() or "this machine"
        if mechanism != b"CURVE" or len(credentials) != 1:
            takes, who = False, "without a key"
        else:
            takes = self._allowed.takes(where, credentials[0])
            who = f"with key {z85.encode(credentials[0]).decode()}"
        if not takes:
            self._refuse(f"from {peer}", f"{who}, which is none of its {where}")
        # After 400, an error for good, libzmq's clients give up; after 300 they try again later.
        status = (b"200", b"OK") if takes else (b"300", b"this key is not allowed")
        return [version, request, *status, b"", b""]

    def _refuse(self, where: str, why: str) -> None:
        if (where, why) in self._refused or len(self._refused) == _MOST_PEERS:
            return
        self._refused.add((where, why))
        _logger.warning("refused a connection %s %s; further ones are not told", where, why)
