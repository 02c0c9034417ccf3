"""Answers that clients have not received yet: libzmq bounds how many there are, not their bytes."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cogrs.limits import MOST_UNREAD, MOST_UNREAD_IN_ALL
from cogrs.replay.net.connection_monitor import Peer, bytes_acked

if TYPE_CHECKING:
    import zmq

_logger = logging.getLogger("cogrs.replay")

_FEW = 256
"""Clients among whom nobody looks for those that have left."""


@dataclass
class _Sent:
    """What was sent by a connection.

    Attributes:
        peer: The connection.
        acked: Bytes that its peer had received when `waiting` was counted.
        waiting: Bytes that were sent since, and those that it had not received then.
    """

    peer: Peer
    acked: int
    waiting: int = 0

    def look(self) -> int:
        """Count anew what waits, too little rather than too much: what was acked has overhead."""
        acked = bytes_acked(self.peer.descriptor) if self.peer.stays() else None
        if acked is None:
            self.waiting = 0
        else:
            self.waiting = max(0, self.waiting - (acked - self.acked))
            self.acked = acked
        return self.waiting


class UnreadReplies:
    """What waits of answers at a ROUTER socket, for its one loop.

    Answers go by the routing id of the client. Nothing is asked of the system while there may be
    few of them.
    """

    def __init__(self) -> None:
        """Know nobody."""
        self._sent: dict[bytes, _Sent] = {}
        self._total = 0
        self._most_clients = _FEW
        self._warned = False

    def asked(self, frames: list[zmq.Frame]) -> None:
        """Take note of the connection that a request has come from."""
        routing_id = frames[0].bytes
        if routing_id in self._sent:
            return
        peer = Peer.of(frames[-1])
        acked = None if peer is None else bytes_acked(peer.descriptor)
        if peer is None or acked is None:
            return
        if len(self._sent) >= self._most_clients:
            self._sent = {each: sent for each, sent in self._sent.items() if sent.peer.stays()}
            self._total = sum(sent.waiting for sent in self._sent.values())
            self._most_clients = max(_FEW, 2 * len(self._sent))
        self._sent[routing_id] = _Sent(peer, acked)

    def has_room(self, routing_id: bytes) -> bool:
        """Tell whether a client has received enough of its answers to be sent one more."""
        sent = self._sent.get(routing_id)
        if sent is None or sent.waiting <= MOST_UNREAD:
            return True
        self._total -= sent.waiting
        self._total += sent.look()
        if not sent.peer.stays():
            del self._sent[routing_id]
        return sent.waiting <= MOST_UNREAD

    def answered(self, routing_id: bytes, size: int) -> None:
        """Count an answer that was sent; where too many bytes wait, end the worst connection."""
        sent = self._sent.get(routing_id)
        if sent is None:
            return
        sent.waiting += size
        self._total += size
        if self._total <= MOST_UNREAD_IN_ALL:
            return
        self._total = sum(each.look() for each in self._sent.values())
        if self._total > MOST_UNREAD_IN_ALL:
            worst = max(self._sent, key=lambda each: self._sent[each].waiting)
            ended = self._sent.pop(worst)
            self._total -= ended.waiting
            ended.peer.disconnect()
            if not self._warned:
                self._warned = True
                text = "ended a connection that does not read its answers: %s bytes wait for it"
                _logger.warning(text, f"{ended.waiting:,}")
