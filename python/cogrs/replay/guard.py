"""Who may connect to a server that has keys: ZeroMQ's authentication protocol (ZAP, RFC 27)."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

import zmq
from zmq.utils import z85

if TYPE_CHECKING:
    from cogrs.replay.keys import Allowed
    from cogrs.replay.transport import Transport

_logger = logging.getLogger("cogrs.replay")

_ADDRESS = "inproc://zeromq.zap.01"
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
        self._refused: set[str] = set()
        socket = transport.socket(zmq.REP, hwm=0)
        socket.bind(_ADDRESS)
        threading.Thread(target=self._run, args=(socket,), name="cogrs-guard", daemon=True).start()

    def _run(self, socket: zmq.Socket[bytes]) -> None:
        with self._transport.loop(), socket:
            for frames in self._transport.messages(socket):
                if frames is not None:
                    socket.send_multipart(self._answer([frame.bytes for frame in frames]))

    def _answer(self, frames: list[bytes]) -> list[bytes]:
        version, request, domain, address, _, mechanism, *credentials = frames
        where, peer = domain.decode(), address.decode()
        if mechanism != b"CURVE" or len(credentials) != 1:
            takes, who = False, "without a key"
        else:
            takes = self._allowed.takes(where, credentials[0])
            who = f"with key {z85.encode(credentials[0]).decode()}"
        if not takes:
            self._refuse(peer, f"{who}, which is none of its {where}")
        status = (b"200", b"OK") if takes else (b"400", b"this key is not allowed")
        return [version, request, *status, b"", b""]

    def _refuse(self, peer: str, why: str) -> None:
        if peer in self._refused or len(self._refused) == _MOST_PEERS:
            return
        self._refused.add(peer)
        _logger.warning("refused a connection from %s %s; others of it are not told", peer, why)
