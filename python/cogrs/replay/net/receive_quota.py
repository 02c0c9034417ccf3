"""How many bytes of each connection of a socket may wait, and how many its loop has taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

import zmq

from cogrs.replay.net.peer import Peer, descriptor_of

if TYPE_CHECKING:
    from collections.abc import Sequence

_FRAME_OVERHEAD = 64
"""Bytes by which a frame is larger on its way, at most."""


class ReceiveQuota:
    """The limits of a socket's connections, and the messages that its one loop has taken.

    The loop counts here, and the thread of `ConnectionMonitor` reads: numbers may be a moment old.
    """

    def __init__(
        self, most: int, *, largest: int | None = None, most_of_strangers: int | None = None
    ) -> None:
        """Create limits: `most` bytes of a connection may wait, of whole and unfinished messages.

        `largest` of them are of one message that is not whole, and `most_of_strangers` is for
        connections that are not trusted; each is `most` if None.
        """
        self._most = most
        self._most_of_strangers = most if most_of_strangers is None else most_of_strangers
        self.largest = most if largest is None else largest
        self.taken: dict[int, int] = {}
        """Bytes taken, by the connection's descriptor; more than on the wire, never less."""
        self.seen: set[int] = set()  # descriptors that connections have had
        self.trusted: set[Peer] = set()  # connections with the larger limit
        self.times_empty = 0  # how often nothing was left to take
        self.messages = 0  # that were taken, of all connections

    def limit_of(self, peer: Peer) -> int:
        """Return how many bytes of a connection may wait."""
        return self._most if peer in self.trusted else self._most_of_strangers

    def trust(self, frame: zmq.Frame) -> None:
        """Give the larger limit to the connection that a frame came from."""
        if self._most_of_strangers < self._most and (peer := Peer.of_frame(frame)) is not None:
            self.trusted.add(peer)

    def count(self, frames: Sequence[zmq.Frame]) -> None:
        """Count a message. Its last frame has always come from the connection."""
        self.messages += 1
        try:
            descriptor = descriptor_of(frames[-1])
        except zmq.ZMQError:
            return  # of this process, or of libzmq itself
        size = sum(map(len, frames)) + _FRAME_OVERHEAD * len(frames)
        self.taken[descriptor] = self.taken.get(descriptor, 0) + size
