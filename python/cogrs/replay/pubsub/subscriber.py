"""The subscribing half of PUB/SUB: one reader, and a queue for each topic.

A subscriber that wants the last message subscribes to a key that nobody else has; the publisher,
which sees subscriptions, sends it there. So this needs no second connection, and after a
reconnect ZeroMQ asks again by itself.

Threads: one thread uses the socket. The condition `_changed` guards the topics. Keys to subscribe
to are appended to `_wanted` and `_unwanted` under it, and taken by the thread without it.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

import zmq

from cogrs.limits import (
    LARGEST_MESSAGE,
    MOST_KEPT_OF_PUBLISHER,
    MOST_TOPICS,
    MOST_WAITING_OF_PUBLISHER,
)
from cogrs.replay.endpoint import Conn
from cogrs.replay.net.deadline import Deadline
from cogrs.replay.net.receive_quota import ReceiveQuota
from cogrs.replay.net.socket_context import start_thread
from cogrs.replay.net.waker import Waker
from cogrs.replay.net.warn_once import WarnOnce
from cogrs.replay.pubsub.topic_key import (
    ANNOUNCEMENTS,
    LAST,
    MESSAGES,
    TopicKey,
    digest_of_topic,
    new_nonce,
)
from cogrs.replay.pubsub.topic_queue import NewestTopicQueue, PriorityTopicQueue, TopicQueue
from cogrs.replay.wire import WireError, decode

if TYPE_CHECKING:
    from collections.abc import Callable

    from cogrs.api import replay_pb2 as pb
    from cogrs.replay.net.transport import Transport


class Subscriber:
    """A socket and the thread that reads it, both created when a topic is first asked for."""

    def __init__(self, transport: Transport, endpoint: str, hwm: int) -> None:
        """Do not connect yet."""
        self._transport = transport
        self._endpoint = endpoint
        self._hwm = hwm
        self._changed = threading.Condition()
        self._topics: dict[bytes, TopicQueue] = {}
        self._wanted: deque[TopicKey] = deque()
        self._unwanted: deque[TopicKey] = deque()
        self._questions: dict[bytes, TopicKey] = {}
        """Of topics whose last message was asked for: the key of the question."""
        self._waker: Waker | None = None
        self._next: zmq.Socket[bytes] | None = None
        """A socket at another endpoint, which the thread is to go on with."""
        self._connected = False
        """Whether there was ever a connection to this endpoint."""
        self._warn = WarnOnce()
        self.total_refused = 0  # messages that were dropped, for they are not of this protocol

    def replace(self, endpoint: str) -> None:
        """Receive from another endpoint from now on; topics, counts and what waits stay.

        Raises:
            OSError: The process has no file descriptors left; nothing is changed.
        """
        with self._changed:
            if self._waker is None:
                self._endpoint = endpoint
                return
            new = self._connect(endpoint)
            if self._next is not None:
                self._next.close(linger=0)
            self._endpoint, self._next, self._connected = endpoint, new, False
            self._waker.wake()

    def get(self, topic: bytes, timeout: float | None, last: bool) -> bytes:
        """Wait for a message of a topic; a TimeoutError if no message came."""
        self._transport.check()
        deadline = Deadline.of("timeout", timeout)
        with self._changed:
            digest = digest_of_topic(topic)
            queue = self._subscribed(digest)
            if last:
                self._start_with_last(digest, alone=True)
            while (message := queue.take()) is None:
                if deadline.passed:
                    hint = "" if self._connected else self._transport.hint
                    raise TimeoutError(
                        f"sub_bytes: no message of topic {topic!r} from {self._endpoint} within "
                        f"{timeout:g} s{hint}"
                    )
                self._changed.wait(deadline.left)
                self._transport.check()
        return message

    def subscribe(self, topic: bytes) -> None:
        """Keep the priorities that are published to a topic from now on, without waiting for them.

        The last message from before is kept too: it may have been published after this call, and
        before the publisher saw the subscription.
        """
        with self._changed:
            digest = digest_of_topic(topic)
            self._subscribed(digest, PriorityTopicQueue)
            self._start_with_last(digest, alone=False)

    def take(self, topic: bytes, timeout: float | None) -> list[bytes]:
        """Take all messages of a topic that have come; wait until the timeout for the first."""
        self._transport.check()
        deadline = Deadline.of("timeout", timeout)
        with self._changed:
            queue = self._subscribed(digest_of_topic(topic))
            while not (messages := list(iter(queue.take, None))) and not deadline.passed:
                self._changed.wait(deadline.left)
                self._transport.check()
        return messages

    def newest(self, topic: bytes, seen: bytes | None, timeout: float | None) -> bytes | None:
        """Wait until the newest message of a topic is another one than `seen`, and return it.

        Returns `seen` after the timeout. The message is not taken away from other calls.
        """
        self._transport.check()
        deadline = Deadline.of("timeout", timeout)
        with self._changed:
            queue = self._subscribed(digest_of_topic(topic), NewestTopicQueue)
            assert isinstance(queue, NewestTopicQueue), "no other call asks for this topic"
            while queue.newest in (None, seen) and not deadline.passed:
                self._changed.wait(deadline.left)
                self._transport.check()
            return seen if queue.newest is None else queue.newest

    def dropped(self, topic: bytes) -> int:
        """Return how many messages of a topic were published to this subscriber and lost."""
        with self._changed:
            queue = self._topics.get(digest_of_topic(topic))
            return queue.dropped if queue else 0

    def total_dropped(self) -> int:
        """Return how many messages of all topics were published to this subscriber and lost."""
        with self._changed:
            return sum(queue.dropped for queue in self._topics.values())

    def wake(self) -> None:
        """Wake all calls that wait, for the transport has been closed."""
        with self._changed:
            if self._waker is not None:
                self._waker.wake()
            self._changed.notify_all()

    def _subscribed(
        self, digest: bytes, create: Callable[[], TopicQueue] | None = None
    ) -> TopicQueue:
        self._transport.check()
        if not self._endpoint:
            raise RuntimeError("this client was created without a sub_endpoint")
        waker = self._waker or self._start()
        if digest not in self._topics:
            if len(self._topics) >= MOST_TOPICS:
                raise RuntimeError(
                    f"this client has subscribed to {MOST_TOPICS} topics, which is the limit: "
                    "use another client for more"
                )
            self._topics[digest] = create() if create else TopicQueue(self._hwm)
            self._wanted += TopicKey(MESSAGES, digest), TopicKey(ANNOUNCEMENTS, digest)
            waker.wake()
        return self._topics[digest]

    def _start_with_last(self, digest: bytes, *, alone: bool) -> None:
        if not self._topics[digest].has_received:
            self._topics[digest].start_with_last(alone=alone)
            self._ask_for_last(digest)

    def _ask_for_last(self, digest: bytes) -> None:
        # An earlier question without an answer, which may never come, is taken back.
        if digest in self._questions:
            self._unwanted.append(self._questions[digest])
        self._questions[digest] = key = TopicKey(LAST, digest, new_nonce())
        self._wanted.append(key)
        assert self._waker is not None, "no topic has been asked for"
        self._waker.wake()

    def _start(self) -> Waker:
        socket = self._connect(self._endpoint)
        waker = Waker(self._transport)
        start_thread(f"subscriber-{self._endpoint}", self._run, socket, waker)
        self._waker = waker
        return waker

    def _connect(self, endpoint: str) -> zmq.Socket[bytes]:
        # Subscriptions are all that it sends, and nobody misses those of a socket that closes.
        socket = self._transport.socket(
            zmq.SUB, hwm=self._hwm, max_frame=LARGEST_MESSAGE, linger_ms=0
        )
        # Subscriptions beyond a high-water mark would be dropped, without a word.
        socket.setsockopt(zmq.SNDHWM, 0)
        self._transport.attach(
            socket,
            "sub_endpoint",
            endpoint,
            Conn,
            quota=ReceiveQuota(MOST_WAITING_OF_PUBLISHER),
            on_event=self._on_event,
        )
        return socket

    def _on_event(self, endpoint: str, event: int) -> None:
        if endpoint == self._endpoint:
            self._connected |= event == zmq.EVENT_HANDSHAKE_SUCCEEDED

    def _run(self, socket: zmq.Socket[bytes], waker: Waker) -> None:
        with self._transport.loop():
            try:
                while not self._transport.closed:
                    with socket:
                        new = self._read(socket, waker)
                    if new is not None:
                        self._subscribe_again()
                        waker.wake()
                        socket = new
            finally:
                waker.close()

    def _read(self, socket: zmq.Socket[bytes], waker: Waker) -> zmq.Socket[bytes] | None:
        """Read a socket until it is replaced; return the other one, None when all is closed."""
        poller = zmq.Poller()
        for each in (socket, waker.socket):
            poller.register(each, zmq.POLLIN)
        while not self._transport.closed:
            with self._changed:
                new, self._next = self._next, None
            if new is not None:
                return new
            self._serve(socket, waker, dict(poller.poll()))
        return None

    def _subscribe_again(self) -> None:
        """Subscribe to all topics on a new socket; announcements tell which messages it missed."""
        with self._changed:
            self._wanted.clear()
            self._unwanted.clear()
            for digest in self._topics:
                self._wanted += TopicKey(MESSAGES, digest), TopicKey(ANNOUNCEMENTS, digest)
            self._wanted += self._questions.values()

    def _serve(self, socket: zmq.Socket[bytes], waker: Waker, ready: dict[object, int]) -> None:
        if waker.socket in ready:
            waker.reset()
        while self._wanted:
            socket.subscribe(self._wanted.popleft().frame())
        while self._unwanted:
            socket.unsubscribe(self._unwanted.popleft().frame())
        if socket in ready:
            self._receive(socket)

    def _receive(self, socket: zmq.Socket[bytes]) -> None:
        frames = self._transport.receive(socket)
        self._connected = True  # which the monitor may tell later
        try:
            if len(frames) != 3:
                raise WireError(f"{len(frames)} frames")
            key = TopicKey.of(frames[0].bytes)
            header = decode(frames[1])
            if header.WhichOneof("body") != "publication":
                raise WireError("something other than a message of a topic")
        except WireError as error:
            self.total_refused += 1
            text = "%s published %s; it is dropped, further ones are only counted"
            self._warn("refused", text, self._endpoint, error)
            return
        with self._changed:
            self._handle(key, header.publication, frames[2])
            self._changed.notify_all()

    def _handle(self, key: TopicKey, publication: pb.Publication, body: zmq.Frame) -> None:
        queue = self._topics.get(key.digest)
        if queue is None:
            return
        if key.kind == MESSAGES:
            queue.add(publication, body.bytes)
            self._make_room(queue)
        elif key.kind == LAST and self._questions.get(key.digest) == key:
            self._unwanted.append(self._questions.pop(key.digest))
            queue.add_last(publication, body.bytes)
            self._make_room(queue)
        elif key.kind == ANNOUNCEMENTS and queue.misses(publication):
            self._ask_for_last(key.digest)

    def _make_room(self, queue: TopicQueue) -> None:
        """Drop the oldest messages of a topic where too many bytes wait, not its newest."""
        while (
            queue.has_several
            and sum(each.size for each in self._topics.values()) > MOST_KEPT_OF_PUBLISHER
        ):
            queue.drop_oldest()
