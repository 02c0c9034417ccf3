"""Subscriptions at an XPUB socket, and the messages that wait for each subscriber."""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from typing import TYPE_CHECKING

import zmq

from cogrs.limits import (
    MOST_IN_ZEROMQ,
    MOST_STRIKES,
    MOST_SUBSCRIPTIONS,
    MOST_SUBSCRIPTIONS_EACH,
    MOST_UNDELIVERED,
)
from cogrs.replay.net.connection_monitor import Peer
from cogrs.replay.wire import LAST, MESSAGES, TopicKey, WireError, new_nonce

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_logger = logging.getLogger("cogrs.replay")

_LARGE = 1 << 20
"""Bytes from which on messages in libzmq are counted by size: it bounds their number alone."""

_ROOM = 2
"""Subscriptions of a connection that libzmq takes before it has to be asked; with 1 it stalls."""

_MOST_EVENTS = 256
"""Subscriptions that are taken before it is looked again at what there is to send."""


class SubscriberQueue:
    """What waits for one subscription of one peer, the newest messages.

    Attributes:
        peer: The subscriber.
        key: What it has subscribed to, and nobody else has.
        since: Stream and number of the topic's last message at that time.
        waiting: Header and contents of messages, oldest first.
    """

    def __init__(self, peer: Peer, key: TopicKey, since: tuple[int, int], hwm: int) -> None:
        """Hold nothing, and at most `hwm` messages."""
        self.peer = peer
        self.key = key
        self.since = since
        self.waiting: deque[tuple[bytes, bytes]] = deque(maxlen=hwm)


class QueuedBodies:
    """Contents of messages that wait, each counted once in however many outboxes it is."""

    def __init__(self) -> None:
        """Create an empty collection."""
        self.size = 0
        """Bytes of all."""
        self._counts: dict[int, int] = {}

    def add(self, body: bytes) -> None:
        """Count a body in one more outbox."""
        count = self._counts.get(id(body), 0)
        self._counts[id(body)] = count + 1
        if not count:
            self.size += len(body)

    def remove(self, body: bytes) -> None:
        """Count a body in one outbox less."""
        count = self._counts.pop(id(body)) - 1
        if count:
            self._counts[id(body)] = count
        else:
            self.size -= len(body)


class SubscriberQueues:
    """The outboxes of an XPUB socket. Not thread-safe; the owner locks.

    ZeroMQ drops the newest message where a subscriber has no room. So each subscription gets a key
    of its own (ZMQ_XPUB_MANUAL), which begins with what was asked for, and a message is sent to
    each as soon as there is room (ZMQ_XPUB_NODROP). What waits until then waits here.

    libzmq keeps a node of some 50 bytes for each byte of a subscription, and takes all that have
    come whenever it is called. So there is room for two at a time (ZMQ_RCVHWM); what is none of
    ours ends its connection, and so do more of them than a client has.

    Attributes:
        by_topic: SubscriberQueues of each topic that somebody has subscribed to, by peer.
        busy: Those with messages, by their frames; those that were sent to last come last.
    """

    def __init__(
        self,
        socket: zmq.Socket[bytes],
        hwm: int,
        newest: Callable[[bytes], tuple[int, int]],
        receive: Callable[[zmq.Socket[bytes]], list[zmq.Frame]],
    ) -> None:
        """Look after a socket that is not bound yet.

        Args:
            socket: An XPUB.
            hwm: Messages that wait in each outbox, at most.
            newest: Tells stream and number of the last message of a topic.
            receive: Takes a message from the socket, or raises `zmq.Again`.
        """
        socket.setsockopt(zmq.XPUB_MANUAL, 1)
        socket.setsockopt(zmq.XPUB_NODROP, 1)
        socket.setsockopt(zmq.RCVHWM, _ROOM)
        self._socket = socket
        self._hwm = hwm
        self._newest = newest
        self._receive = receive
        self._keys: dict[Peer, dict[bytes, TopicKey]] = {}
        """What each peer has subscribed to, by frame."""
        self._subscriptions = 0
        """Of all peers together."""
        self._strikes: dict[Peer, int] = {}
        self._ended: set[Peer] = set()
        """Peers whose connections were ended here, until they are gone."""
        self._warned = False
        self._doubtful: set[Peer | None] | None = None
        """Peers of the subscriptions since the last other message; None without such a message."""
        self._bodies = QueuedBodies()
        self._sent: dict[Peer, list[tuple[zmq.MessageTracker, int]]] = {}
        """Large messages that libzmq may still hold, with their sizes."""
        self.by_topic: dict[bytes, dict[Peer, SubscriberQueue]] = {}
        self.busy: dict[bytes, SubscriberQueue] = {}

    def put(self, outbox: SubscriberQueue, header: bytes, body: bytes) -> None:
        """Add a message; the oldest makes room, for its number and for its size."""
        frame = outbox.key.frame()
        if (before := self.busy.get(frame, outbox)) is not outbox:
            self._clear(before)
        if len(outbox.waiting) == outbox.waiting.maxlen:
            self._bodies.remove(outbox.waiting.popleft()[1])
        self._bodies.add(body)
        outbox.waiting.append((header, body))
        self.busy[frame] = outbox
        if self._bodies.size > MOST_UNDELIVERED:
            others = self.by_topic.get(outbox.key.digest, {}).values()
            self._make_room([outbox, *others, *self.busy.values()])

    def send(self, outbox: SubscriberQueue) -> bool:
        """Send the oldest message of a busy outbox; tell whether there was room."""
        frame = outbox.key.frame()
        header, body = outbox.waiting[0]
        large = len(body) >= _LARGE
        if large and not self._may_send(outbox.peer, len(body)):
            return False
        try:
            sent = self._socket.send_multipart(
                (frame, header, body), zmq.NOBLOCK, copy=False, track=large
            )
        except zmq.Again:
            return False
        if sent is not None:
            self._sent.setdefault(outbox.peer, []).append((sent, len(body)))
        self._bodies.remove(outbox.waiting.popleft()[1])
        del self.busy[frame]
        if outbox.waiting:
            self.busy[frame] = outbox
        return True

    def read(self) -> tuple[list[tuple[Peer, TopicKey]], bool]:
        """Take some of what has come.

        Returns:
            The questions for last messages that are new, and whether anything had come.
        """
        asked: list[tuple[Peer, TopicKey]] = []
        left = came = False
        for _ in range(_MOST_EVENTS):
            try:
                # Unlike a look at the socket's events, this lets other threads run meanwhile.
                frames = self._receive(self._socket)
            except zmq.Again:
                self._doubtful = None
                break
            came = True
            frame = frames[0]
            peer, event = Peer.of(frame), frame.bytes
            if event[:1] not in (b"\0", b"\1") or len(frames) > 1:
                self._doubtful = self._doubtful or set()  # no subscriber sends this
                self._strike(peer)
                continue
            try:
                key = TopicKey.of(event[1:])
            except WireError:
                self._strike(peer)
            else:
                if event[:1] == b"\0":
                    # What came of a connection that has ended does not tell of which.
                    left = left or peer is None
                    self._unsubscribe(peer, key)
                elif self._subscribe(peer, key) and peer is not None:
                    asked.append((peer, key))
            self._doubt(peer)
        if left:
            self.sweep()
        return asked, came

    def waits(self, digest: bytes) -> bool:
        """Tell whether messages of a topic wait for anybody."""
        return any(outbox.waiting for outbox in self.by_topic.get(digest, {}).values())

    def drop(self, digest: bytes) -> None:
        """Drop what waits of a topic."""
        for outbox in self.by_topic.get(digest, {}).values():
            self._clear(outbox)
            self.busy.pop(outbox.key.frame(), None)

    def answer(self, peer: Peer, key: TopicKey, header: bytes, body: bytes) -> None:
        """Send a peer the last message that it has asked for, as soon as there is room."""
        if key.frame() in self._keys.get(peer, ()):
            self.put(SubscriberQueue(peer, key, (0, 0), 1), header, body)

    def sweep(self) -> None:
        """Forget what peers that have left had subscribed to."""
        for peer in [each for each in self._keys if not each.stays()]:
            for key in list(self._keys[peer].values()):
                self._forget(peer, key)
        self._ended = {each for each in self._ended if each.stays()}
        self._sent = {each: sent for each, sent in self._sent.items() if each.stays()}
        self._strikes = {each: count for each, count in self._strikes.items() if each.stays()}

    def _clear(self, outbox: SubscriberQueue) -> None:
        while outbox.waiting:
            self._bodies.remove(outbox.waiting.popleft()[1])

    def _make_room(self, outboxes: Iterable[SubscriberQueue]) -> None:
        """Drop all but the newest message of outboxes until the rest is small enough."""
        for outbox in outboxes:
            while len(outbox.waiting) > 1:
                if self._bodies.size <= MOST_UNDELIVERED:
                    return
                self._bodies.remove(outbox.waiting.popleft()[1])

    def _may_send(self, peer: Peer, size: int) -> bool:
        """Tell whether libzmq holds so little for a peer that it may be given a large message."""
        held = [(sent, length) for sent, length in self._sent.pop(peer, ()) if not sent.done]
        if held:
            self._sent[peer] = held
        return not held or sum(length for _, length in held) + size <= MOST_IN_ZEROMQ

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

    def _subscribe(self, peer: Peer | None, key: TopicKey) -> bool:
        """Give the peer what it asks for; tell whether that is a last message."""
        if peer is None or peer in self._ended:
            return False  # it has left meanwhile
        own = key
        if key.kind == MESSAGES:
            if key.nonce or peer in self.by_topic.get(key.digest, ()):
                return False
            own = TopicKey(MESSAGES, key.digest, new_nonce())
        if own.frame() not in self._keys.get(peer, ()) and not self._has_room(peer):
            return False
        try:
            self._socket.setsockopt(zmq.SUBSCRIBE, own.frame())
        except zmq.ZMQError:  # it has left meanwhile
            return False
        keys = self._keys.setdefault(peer, {})
        self._subscriptions += own.frame() not in keys
        keys[own.frame()] = own
        if key.kind == MESSAGES:
            outbox = SubscriberQueue(peer, own, self._newest(key.digest), self._hwm)
            self.by_topic.setdefault(key.digest, {})[peer] = outbox
        return key.kind == LAST

    def _has_room(self, peer: Peer) -> bool:
        """Tell whether a peer may have one more; end the connection that has too many."""
        if len(self._keys.get(peer, ())) >= MOST_SUBSCRIPTIONS_EACH:
            self._end(peer, f"which has subscribed more than {MOST_SUBSCRIPTIONS_EACH} times")
            return False
        if self._subscriptions >= MOST_SUBSCRIPTIONS:
            largest = max(self._keys, key=lambda each: len(self._keys[each]))
            self._end(largest, f"for there are {MOST_SUBSCRIPTIONS} subscriptions, most of it")
            return largest != peer
        return True

    def _strike(self, peer: Peer | None) -> None:
        """Count what no subscriber sends, and end the connection that goes on with it."""
        if peer is not None:
            self._strikes[peer] = self._strikes.get(peer, 0) + 1
            if self._strikes[peer] > MOST_STRIKES:
                self._end(peer, "which has sent something else than subscriptions of cogrs")

    def _end(self, peer: Peer, why: str) -> None:
        """End the connection of a peer, and forget what it has subscribed to."""
        if peer in self._ended:
            return
        self._ended.add(peer)
        peer.disconnect()
        for key in list(self._keys.get(peer, {}).values()):
            self._forget(peer, key)
        if not self._warned:
            self._warned = True
            _logger.warning("ended the connection of a subscriber, %s; others are not told", why)

    def _unsubscribe(self, peer: Peer | None, key: TopicKey) -> None:
        if peer is None or peer in self._ended:
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

    def _forget(self, peer: Peer, own: TopicKey) -> None:
        frame = own.frame()
        if (waits := self.busy.pop(frame, None)) is not None:
            self._clear(waits)
        keys = self._keys.get(peer, {})
        self._subscriptions -= keys.pop(frame, None) is not None
        if not keys:
            self._keys.pop(peer, None)
        peers = self.by_topic.get(own.digest, {})
        if own.kind == MESSAGES and peer in peers:
            del peers[peer]
            if not peers:
                del self.by_topic[own.digest]  # there may be no end of topics
