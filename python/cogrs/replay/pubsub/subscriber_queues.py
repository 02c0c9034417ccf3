"""Subscriptions at an XPUB socket, and the messages that wait for each subscriber.

ZeroMQ drops the newest message where a subscriber has no room, and does not say which subscriber
has none. So each subscription gets a key of its own (ZMQ_XPUB_MANUAL), which begins with the one
that the subscriber asked for, and a message is sent to each as soon as there is room
(ZMQ_XPUB_NODROP). Until then it waits here, where the newest replaces the oldest.

libzmq keeps a node of some 50 bytes for each byte of a subscription, and takes all that have come
whenever it is called. So there is room for two at a time (ZMQ_RCVHWM). A message that is not a
subscription of cogrs counts against its connection, and many of them end it, as does a subscription
more than a client has.

Threads: only the publisher's thread uses the socket; the publisher locks everything here.
"""

from __future__ import annotations

import contextlib
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import zmq

from cogrs.limits import (
    MOST_IN_ZEROMQ,
    MOST_STRIKES,
    MOST_SUBSCRIPTIONS,
    MOST_SUBSCRIPTIONS_EACH,
    MOST_UNDELIVERED,
)
from cogrs.replay.net.peer import Peer
from cogrs.replay.net.warn_once import WarnOnce
from cogrs.replay.pubsub.topic_key import LAST, MESSAGES, TopicKey, new_nonce
from cogrs.replay.wire import WireError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_LARGE = 1 << 20
"""Bytes from which on messages in libzmq are counted by size: it bounds their number alone."""

_ROOM = 2
"""Subscriptions of a connection that libzmq takes before it has to be asked; with 1 it stalls."""

_MOST_EVENTS = 256
"""Subscriptions that are taken before waiting messages are sent."""


class SubscriberQueue(NamedTuple):
    """The newest messages for one subscription of one peer."""

    peer: Peer
    key: TopicKey  # of this subscription, which no other one has
    since: tuple[int, int]  # stream and number of the topic's last message when it was made
    waiting: deque[tuple[bytes, bytes]]  # header and contents of messages, oldest first


class QueuedBodies:
    """Contents of messages that wait, each counted once in however many queues it is."""

    def __init__(self) -> None:
        """Create an empty collection."""
        self.size = 0
        """Bytes of all."""
        self._counts: dict[int, int] = {}

    def add(self, body: bytes) -> None:
        """Count a body in one more queue."""
        count = self._counts.get(id(body), 0)
        self._counts[id(body)] = count + 1
        if not count:
            self.size += len(body)

    def remove(self, body: bytes) -> None:
        """Count a body in one queue less."""
        count = self._counts.pop(id(body)) - 1
        if count:
            self._counts[id(body)] = count
        else:
            self.size -= len(body)


class SubscriberQueues:
    """The queues of all subscribers of an XPUB socket."""

    def __init__(
        self,
        socket: zmq.Socket[bytes],
        hwm: int,
        newest: Callable[[bytes], tuple[int, int]],
        receive: Callable[[zmq.Socket[bytes]], list[zmq.Frame]],
    ) -> None:
        """Prepare an XPUB socket that is not bound yet; at most `hwm` messages wait in each queue.

        `newest` returns stream and number of a topic's last message. `receive` takes a message
        from the socket, or raises `zmq.Again`.
        """
        socket.setsockopt(zmq.XPUB_MANUAL, 1)
        socket.setsockopt(zmq.XPUB_NODROP, 1)
        socket.setsockopt(zmq.RCVHWM, _ROOM)
        self._socket = socket
        self._hwm = hwm
        self._newest = newest
        self._receive = receive
        self._keys: dict[Peer, dict[bytes, TopicKey]] = {}
        """The subscriptions of each peer, by frame."""
        self._subscriptions = 0
        """Of all peers together."""
        self._strikes: dict[Peer, int] = {}
        self._ended: set[Peer] = set()
        """Peers whose connections were ended here, until they are gone."""
        self._warn = WarnOnce()
        self._doubtful: set[Peer | None] | None = None
        """Peers of the subscriptions since the last other message; None without such a message."""
        self._bodies = QueuedBodies()
        self._sent: dict[Peer, list[tuple[zmq.MessageTracker, int]]] = {}
        """Large messages that libzmq may still hold, with their sizes."""
        self.by_topic: dict[bytes, dict[Peer, SubscriberQueue]] = {}
        """Queues of each topic that has subscribers, by peer."""
        self.busy: dict[bytes, SubscriberQueue] = {}
        """Queues with messages, by their frames; those that were sent to last come last."""

    def put(self, queue: SubscriberQueue, header: bytes, body: bytes) -> None:
        """Add a message; the oldest makes room, for its number and for its size."""
        frame = queue.key.frame()
        if (before := self.busy.get(frame, queue)) is not queue:
            self._clear(before)
        if len(queue.waiting) == queue.waiting.maxlen:
            self._drop_oldest(queue)
        self._bodies.add(body)
        queue.waiting.append((header, body))
        self.busy[frame] = queue
        if self._bodies.size > MOST_UNDELIVERED:
            others = self.by_topic.get(queue.key.digest, {}).values()
            self._make_room([queue, *others, *self.busy.values()])

    def send(self, queue: SubscriberQueue) -> bool:
        """Send the oldest message of a busy queue; return whether there was room."""
        frame = queue.key.frame()
        header, body = queue.waiting[0]
        large = len(body) >= _LARGE
        if large and not self._may_send(queue.peer, len(body)):
            return False
        try:
            sent = self._socket.send_multipart(
                (frame, header, body), zmq.NOBLOCK, copy=False, track=large
            )
        except zmq.Again:
            return False
        if sent is not None:
            self._sent.setdefault(queue.peer, []).append((sent, len(body)))
        self._drop_oldest(queue)
        del self.busy[frame]
        if queue.waiting:
            self.busy[frame] = queue
        return True

    def read(self) -> tuple[list[tuple[Peer, TopicKey]], bool]:
        """Take some subscriptions.

        Returns:
            The questions for last messages among them, and whether anything had come.
        """
        questions: list[tuple[Peer, TopicKey]] = []
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
            peer, event = Peer.of_frame(frame), frame.bytes
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
                    # An event of a connection that has ended does not tell of which.
                    left = left or peer is None
                    self._unsubscribe(peer, key)
                elif self._subscribe(peer, key) and peer is not None:
                    questions.append((peer, key))
            self._doubt(peer)
        if left:
            self.forget_departed()
        return questions, came

    def waits(self, digest: bytes) -> bool:
        """Return whether messages of a topic wait."""
        return any(queue.waiting for queue in self.by_topic.get(digest, {}).values())

    def drop(self, digest: bytes) -> None:
        """Drop the messages of a topic that wait."""
        for queue in self.by_topic.get(digest, {}).values():
            self._clear(queue)
            self.busy.pop(queue.key.frame(), None)

    def answer(self, peer: Peer, key: TopicKey, header: bytes, body: bytes) -> None:
        """Send a peer the last message that it has asked for, as soon as there is room."""
        if key.frame() in self._keys.get(peer, ()):
            self.put(SubscriberQueue(peer, key, (0, 0), deque(maxlen=1)), header, body)

    def forget_departed(self) -> None:
        """Forget the subscriptions of peers that have left."""
        for peer in [each for each in self._keys if not each.is_connected()]:
            for key in list(self._keys[peer].values()):
                self._forget(peer, key)
        self._ended = {each for each in self._ended if each.is_connected()}
        self._sent = {each: sent for each, sent in self._sent.items() if each.is_connected()}
        self._strikes = {each: n for each, n in self._strikes.items() if each.is_connected()}

    def _drop_oldest(self, queue: SubscriberQueue) -> None:
        self._bodies.remove(queue.waiting.popleft()[1])

    def _clear(self, queue: SubscriberQueue) -> None:
        while queue.waiting:
            self._drop_oldest(queue)

    def _make_room(self, queues: Iterable[SubscriberQueue]) -> None:
        """Drop all but the newest message of queues until the rest is small enough."""
        for queue in queues:
            while len(queue.waiting) > 1:
                if self._bodies.size <= MOST_UNDELIVERED:
                    return
                self._drop_oldest(queue)

    def _may_send(self, peer: Peer, size: int) -> bool:
        """Return whether libzmq holds so little for a peer that it may get a large message."""
        held = [(sent, length) for sent, length in self._sent.pop(peer, ()) if not sent.done]
        if held:
            self._sent[peer] = held
        return not held or sum(length for _, length in held) + size <= MOST_IN_ZEROMQ

    def _doubt(self, peer: Peer | None) -> None:
        """Disconnect peers whose subscriptions may have been mixed up; they subscribe again.

        After a message that is not a subscription, libzmq attributes the subscriptions that wait to
        the peers of later ones, until none waits. Of a single peer that makes no difference.
        """
        if self._doubtful is None:
            return
        self._doubtful.add(peer)
        if len(self._doubtful) > 1:
            for each in self._doubtful:
                if each is not None:
                    each.disconnect()

    def _subscribe(self, peer: Peer | None, key: TopicKey) -> bool:
        """Subscribe the peer; return whether it asks for a last message."""
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
            since = self._newest(key.digest)
            queue = SubscriberQueue(peer, own, since, deque(maxlen=self._hwm))
            self.by_topic.setdefault(key.digest, {})[peer] = queue
        return key.kind == LAST

    def _has_room(self, peer: Peer) -> bool:
        """Return whether a peer may subscribe once more; disconnect the one that has too many."""
        if len(self._keys.get(peer, ())) >= MOST_SUBSCRIPTIONS_EACH:
            self._end(peer, f"which has subscribed more than {MOST_SUBSCRIPTIONS_EACH} times")
            return False
        if self._subscriptions >= MOST_SUBSCRIPTIONS:
            largest = max(self._keys, key=lambda each: len(self._keys[each]))
            self._end(
                largest,
                f"because there are {MOST_SUBSCRIPTIONS} subscriptions, most of them its own",
            )
            return largest != peer
        return True

    def _strike(self, peer: Peer | None) -> None:
        """Count a message that no subscriber sends; disconnect a peer that sends many."""
        if peer is not None:
            self._strikes[peer] = self._strikes.get(peer, 0) + 1
            if self._strikes[peer] > MOST_STRIKES:
                self._end(peer, "which has sent something other than subscriptions of cogrs")

    def _end(self, peer: Peer, why: str) -> None:
        """Disconnect a peer, and forget its subscriptions."""
        if peer in self._ended:
            return
        self._ended.add(peer)
        peer.disconnect()
        for key in list(self._keys.get(peer, {}).values()):
            self._forget(peer, key)
        text = "ended the connection of a subscriber, %s; further ones are not reported"
        self._warn("ended", text, why)

    def _unsubscribe(self, peer: Peer | None, key: TopicKey) -> None:
        if peer is None or peer in self._ended:
            return
        own = key
        if key.kind == MESSAGES:
            queue = self.by_topic.get(key.digest, {}).get(peer)
            if queue is None:
                return
            own = queue.key
        with contextlib.suppress(zmq.ZMQError):  # it has left meanwhile
            self._socket.setsockopt(zmq.UNSUBSCRIBE, own.frame())
        self._forget(peer, own)

    def _forget(self, peer: Peer, own: TopicKey) -> None:
        frame = own.frame()
        if (queue := self.busy.pop(frame, None)) is not None:
            self._clear(queue)
        keys = self._keys.get(peer, {})
        self._subscriptions -= keys.pop(frame, None) is not None
        if not keys:
            self._keys.pop(peer, None)
        peers = self.by_topic.get(own.digest, {})
        if own.kind == MESSAGES and peer in peers:
            del peers[peer]
            if not peers:
                del self.by_topic[own.digest]  # there may be no end of topics
