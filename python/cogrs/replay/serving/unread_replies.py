"""Replies that clients have not received yet: libzmq bounds their number, not their bytes.

For the one loop of a ROUTER socket. Their bytes are counted by what the system says that peers have
acknowledged (see `peer`), and only where a client has many: the system is not asked otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

import zmq

from cogrs.limits import MOST_UNREAD, MOST_UNREAD_IN_ALL
from cogrs.replay.net.peer import Peer, bytes_acked
from cogrs.replay.net.warn_once import WarnOnce

_FEW = 256
"""Clients among whom those that have left are not looked for."""


@dataclass
class _Sent:
    """The replies that were sent by a connection."""

    peer: Peer
    acked: int  # bytes that the peer had received when `waiting` was counted
    waiting: int = 0  # bytes that were sent since, or that it had not received then

    def recount(self) -> int:
        """Return the bytes that wait, too few rather than too many: acked bytes have overhead."""
        acked = bytes_acked(self.peer.descriptor) if self.peer.is_connected() else None
        if acked is None:
            self.waiting = 0
        else:
            self.waiting = max(0, self.waiting - (acked - self.acked))
            self.acked = acked
        return self.waiting


class UnreadReplies:
    """Counts the bytes of unread replies, by the routing ids of clients."""

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        """Create it without clients, for a ROUTER socket."""
        # A reply that cannot be sent is an error instead of being dropped in silence.
        socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._socket = socket
        self._sent: dict[bytes, _Sent] = {}
        self._total = 0
        self._most_clients = _FEW
        self._warn = WarnOnce()

    def add_client(self, frames: list[zmq.Frame]) -> None:
        """Register the connection that a request has come from."""
        routing_id = frames[0].bytes
        if routing_id in self._sent:
            return
        peer = Peer.of_frame(frames[-1])
        acked = None if peer is None else bytes_acked(peer.descriptor)
        if peer is None or acked is None:
            return
        if len(self._sent) >= self._most_clients:
            self._sent = {
                each: sent for each, sent in self._sent.items() if sent.peer.is_connected()
            }
            self._total = sum(sent.waiting for sent in self._sent.values())
            self._most_clients = max(_FEW, 2 * len(self._sent))
        self._sent[routing_id] = _Sent(peer, acked)

    def has_room(self, routing_id: bytes) -> bool:
        """Return whether a client has read enough of its replies to be sent one more."""
        sent = self._sent.get(routing_id)
        if sent is None or sent.waiting <= MOST_UNREAD:
            return True
        self._total -= sent.waiting
        self._total += sent.recount()
        if not sent.peer.is_connected():
            del self._sent[routing_id]
        return sent.waiting <= MOST_UNREAD

    def send(self, reply: list[zmq.Frame | bytes]) -> bool:
        """Send a reply, whose first frame is a client's routing id; return whether there was room.

        One whose client has left is dropped, for nobody waits for it. It must not be counted: a
        request of that client may have been registered when its descriptor was another's.
        """
        try:
            self._socket.send_multipart(reply, zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return False
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            return True
        routing_id = reply[0]
        self._add(
            routing_id if isinstance(routing_id, bytes) else routing_id.bytes,
            sum(map(len, reply[1:])),
        )
        return True

    def _add(self, routing_id: bytes, size: int) -> None:
        """Count a reply that was sent; where too many bytes wait, end the worst connection."""
        sent = self._sent.get(routing_id)
        if sent is None:
            return
        sent.waiting += size
        self._total += size
        if self._total <= MOST_UNREAD_IN_ALL:
            return
        self._total = sum(each.recount() for each in self._sent.values())
        if self._total > MOST_UNREAD_IN_ALL:
            worst = max(self._sent, key=lambda each: self._sent[each].waiting)
            ended = self._sent.pop(worst)
            self._total -= ended.waiting
            ended.peer.disconnect()
            text = "ended a connection that does not read its answers: %s bytes wait for it"
            self._warn("ended", text, f"{ended.waiting:,}")
