"""Subscriptions at an XPUB socket, and the messages that wait for each subscriber."""

from __future__ import annotations

import contextlib
import os
import socket as sockets
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import zmq

from cogrs.replay.transport import is_ready
from cogrs.replay.wire import LAST, MESSAGES, Key, WireError, new_nonce

if TYPE_CHECKING:
    from collections.abc import Callable

_SOURCE = 2
"""Of libzmq's message options: the descriptor of the connection that a message came from."""

_MOST_EVENTS = 10_000
"""Subscriptions that are taken before it is looked again at what there is to send."""


class Peer(NamedTuple):
    """A connection: its descriptor, and the inode behind, by which a descriptor used again shows.

    Fields:
        descriptor: Of the process.
        inode: Of the socket.
    """

    descriptor: int
    inode: int

    @classmethod
    def of(cls, frame: zmq.Frame) -> Peer | None:
        """Return where a frame came from; None when it was not sent, or its peer has left."""
        try:
            descriptor = int(frame.get(_SOURCE))
            return cls(descriptor, os.fstat(descriptor).st_ino)
        except (zmq.ZMQError, OSError):
            return None

    def stays(self) -> bool:
        """Tell whether the connection is still there."""
        try:
            return os.fstat(self.descriptor).st_ino == self.inode
        except OSError:
            return False

    def disconnect(self) -> None:
        """End the connection; a subscriber connects again, and subscribes again."""
        if self.stays():
            with (
                contextlib.suppress(OSError),
                sockets.socket(fileno=os.dup(self.descriptor)) as connection,
            ):
                connection.shutdown(sockets.SHUT_RDWR)


class Outbox:
    """What waits for one subscription of one peer, the newest messages.

    Attributes:
        key: What it has subscribed to, and nobody else has.
        since: Stream and number of the topic's last message at that time.
        waiting: Header and contents of messages, oldest first.
    """

    def __init__(self, key: Key, since: tuple[int, int], hwm: int) -> None:
        """Hold nothing, and at most `hwm` messages."""
        self.key = key
        self.since = since
        self.waiting: deque[tuple[bytes, bytes]] = deque(maxlen=hwm)


class Outboxes:
    """The outboxes of an XPUB socket. Not thread-safe; the owner locks.

    ZeroMQ drops the newest message where a subscriber has no room. So each subscription gets a key
    of its own (ZMQ_XPUB_MANUAL), which begins with what was asked for, and a message is sent to
    each as soon as there is room (ZMQ_XPUB_NODROP). What waits until then waits here.

    Attributes:
        by_topic: Outboxes of each topic that somebody has subscribed to, by peer.
        busy: Those with messages, by their frames; those that were sent to last come last.
    """

    def __init__(
        self,
        socket: zmq.Socket[bytes],
        hwm: int,
        newest: Callable[[bytes], tuple[int, int]],
    ) -> None:
        """Look after a socket that is not bound yet.

        Args:
            socket: An XPUB.
            hwm: Messages that wait in each outbox, at most.
            newest: Tells stream and number of the last message of a topic.
        """
        socket.setsockopt(zmq.XPUB_MANUAL, 1)
        socket.setsockopt(zmq.XPUB_NODROP, 1)
        self._socket = socket
        self._hwm = hwm
        self._newest = newest
        self._keys: dict[Peer, dict[bytes, Key]] = {}
        """What each peer has subscribed to that it alone gets, by frame."""
        self._doubtful: set[Peer | None] | None = None
        """Return the subscriptions since the last other message; None if there are none."""
        self.by_topic: dict[bytes, dict[Peer, Outbox]] = {}
        self.busy: dict[bytes, Outbox] = {}

    def put(self, outbox: Outbox, header: bytes, body: bytes) -> None:
        """Add a message; the oldest makes room."""
        outbox.waiting.append((header, body))
        self.busy[outbox.key.frame()] = outbox

    def send(self, outbox: Outbox) -> bool:
        """Send the oldest message of a busy outbox; tell whether there was room."""
        frame = outbox.key.frame()
        header, body = outbox.waiting[0]
        try:
            self._socket.send_multipart((frame, header, body), zmq.NOBLOCK, copy=False)
        except zmq.Again:
            return False
        outbox.waiting.popleft()
        del self.busy[frame]
        if outbox.waiting:
            self.busy[frame] = outbox
        return True

    def read(self) -> list[tuple[Peer, Key]]:
        """Take what has come, and return the questions for last messages that are new."""
        asked: list[tuple[Peer, Key]] = []
        for _ in range(_MOST_EVENTS):
            if not is_ready(self._socket, zmq.POLLIN):
                self._doubtful = None
                break
            frame = self._socket.recv(copy=False)
            peer, event = Peer.of(frame), frame.bytes
            if event[:1] not in (b"\0", b"\1"):
                self._doubtful = self._doubtful or set()  # no subscriber sends this
                continue
            with contextlib.suppress(WireError):
                key = Key.of(event[1:])
                if event[:1] == b"\0":
                    self._unsubscribe(peer, key)
                elif self._subscribe(peer, key) and peer is not None:
                    asked.append((peer, key))
            self._doubt(peer)
        return asked

    def waits(self, digest: bytes) -> bool:
        """Tell whether messages of a topic wait for anybody."""
        return any(outbox.waiting for outbox in self.by_topic.get(digest, {}).values())

    def answer(self, peer: Peer, key: Key, header: bytes, body: bytes) -> None:
        """Send a peer the last message that it has asked for, as soon as there is room."""
        if key.frame() in self._keys.get(peer, ()):
            self.put(Outbox(key, (0, 0), 1), header, body)

    def sweep(self) -> None:
        """Forget what peers that have left had subscribed to."""
        for peer in [each for each in self._keys if not each.stays()]:
            for key in list(self._keys[peer].values()):
                self._forget(peer, key)

    def _doubt(self, peer: Peer | None) -> None:
        """Ask peers to subscribe again whose subscriptions may have been mixed up with others.

        After a message that is no subscription, libzmq takes the subscriptions that wait for those
        of the peers of later ones, until none waits. Of a single peer that makes no difference.
        """
        if self._doubtful is None:
            return
        self._doubtful.add(peer)
        if len(self._doubtful) > 1:
            for each in self._doubtful:
                if each is not None:
                    each.disconnect()

    def _subscribe(self, peer: Peer | None, key: Key) -> bool:
        """Give the peer what it asks for; tell whether that is a last message."""
        own = key
        if key.kind == MESSAGES:
            if peer is None or key.nonce or peer in self.by_topic.get(key.digest, ()):
                return False
            own = Key(MESSAGES, key.digest, new_nonce())
        try:
            self._socket.setsockopt(zmq.SUBSCRIBE, own.frame())
        except zmq.ZMQError:  # it has left meanwhile
            return False
        if peer is None:
            return False
        if key.kind == MESSAGES:
            self._keys.setdefault(peer, {})[own.frame()] = own
            outbox = Outbox(own, self._newest(key.digest), self._hwm)
            self.by_topic.setdefault(key.digest, {})[peer] = outbox
        elif key.kind == LAST:
            self._keys.setdefault(peer, {})[own.frame()] = own
        return key.kind == LAST

    def _unsubscribe(self, peer: Peer | None, key: Key) -> None:
        if peer is None:
            self.sweep()  # this came of a connection that ended, and does not tell of which
            return
        own = key
        if key.kind == MESSAGES:
            outbox = self.by_topic.get(key.digest, {}).get(peer)
            if outbox is None:
                return
            own = outbox.key
        with contextlib.suppress(zmq.ZMQError):  # it has left meanwhile
            self._socket.setsockopt(zmq.UNSUBSCRIBE, own.frame())
        self._forget(peer, own)

    def _forget(self, peer: Peer, own: Key) -> None:
        frame = own.frame()
        self.busy.pop(frame, None)
        keys = self._keys.get(peer, {})
        keys.pop(frame, None)
        if not keys:
            self._keys.pop(peer, None)
        peers = self.by_topic.get(own.digest, {})
        if own.kind == MESSAGES and peer in peers:
            del peers[peer]
            if not peers:
                del self.by_topic[own.digest]  # there may be no end of topics
