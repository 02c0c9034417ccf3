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

    Attributes:
        largest: Bytes of one message that may wait.
        taken: Bytes taken, by the connection's descriptor; more than on the wire, never less.
        seen: Descriptors that connections have had.
        trusted: Connections with the larger limit.
        times_empty: How often nothing was left to take.
        messages: How many messages were taken, of all connections.
    """

    def __init__(
        self, most: int, *, largest: int | None = None, most_of_strangers: int | None = None
    ) -> None:
        """Create limits, with nothing taken.

        Args:
            most: Bytes, of whole and of unfinished messages.
            largest: Bytes of one message that is not whole; None for `most`.
            most_of_strangers: Bytes of a connection that is not trusted; None for `most`.
        """
        self._most = most
        self._most_of_strangers = most if most_of_strangers is None else most_of_strangers
        self.largest = most if largest is None else largest
        self.taken: dict[int, int] = {}
        self.seen: set[int] = set()
        self.trusted: set[Peer] = set()
        self.times_empty = 0
        self.messages = 0

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
