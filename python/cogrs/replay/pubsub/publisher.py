"""The publishing half of PUB/SUB: a server's messages to its subscribers.

Each subscriber has a queue for each topic, where the newest messages wait until there is room for
them; a subscriber sees by their numbers how many were dropped. Priorities are about different
entries, and are merged instead.

ZeroMQ gives a subscriber nothing that was sent before it subscribed. So the last message of each
topic is kept: a client that asks for it, by a subscription that nobody else has, gets it alone. And
the number of each topic's last message is announced every second, by which a subscriber sees what a
broken connection has lost.

Topics of clients come and go, so their number is bounded: a topic that was forgotten begins a new
stream, which subscribers see.

Threads: one thread uses the socket. The condition `_changed` guards all state here and the queues;
calls change it and wake the thread, which takes the lock for each message that it sends.
"""

from __future__ import annotations

import secrets
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

import zmq

from cogrs.api import replay_pb2 as pb
from cogrs.limits import (
    LARGEST_MESSAGE,
    LARGEST_SUBSCRIPTION,
    MOST_CLIENTS_TOPICS,
    MOST_CLIENTS_TOPICS_BYTES,
    MOST_WAITING_OF_SUBSCRIBER,
)
from cogrs.replay.endpoint import Bind
from cogrs.replay.net.deadline import Deadline
from cogrs.replay.net.receive_quota import ReceiveQuota
from cogrs.replay.net.socket_context import start_thread
from cogrs.replay.net.waker import Waker
from cogrs.replay.pubsub.merging_queue import MergingQueue
from cogrs.replay.pubsub.subscriber_queues import SubscriberQueues
from cogrs.replay.pubsub.topic_key import (
    ALLOWANCE,
    ANNOUNCEMENTS,
    TopicKey,
    digest_of_topic,
    message_bytes,
    topic_bytes,
)
from cogrs.replay.wire import encode
from cogrs.validation import check_count

if TYPE_CHECKING:
    from cogrs.replay.net.transport import Transport

_PERIOD = 1.0
"""Seconds between announcements."""

_RETRY_MS = 20
"""Milliseconds after which a slow subscriber is tried again, should libzmq not tell of room."""

_BUSY = 0.1
"""Seconds after which a publisher whose work does not end does other things."""

_ROOM = 16
"""Messages that ZeroMQ keeps for a subscriber, at most; the others wait in its queue."""

_TURN = 16
"""Messages that a subscription is sent before it is the turn of the next."""

_MOST_PRIORITY_TOPICS = 1024
"""Topics of priorities whose last message is kept, those that were published to last."""

_MOST_WAITING, _MOST_ABSENT = 32 << 20, 1 << 18
"""Bytes of priorities that wait, for a subscriber that is there, and for one that is not."""


class _Last(NamedTuple):
    """The last message of a topic; numbers count from 1 in each stream."""

    stream: int
    number: int = 0
    body: bytes = b""


class Publisher:
    """An XPUB socket and the thread that serves it."""

    def __init__(self, transport: Transport, endpoint: str, sender: int, hwm: int) -> None:
        """Bind and start; an OSError if the endpoint cannot be bound."""
        self._transport = transport
        self._sender = sender
        self._stream = secrets.randbits(64)
        self._last: dict[bytes, _Last] = {}
        self._priority_streams: dict[bytes, int] = {}
        """Of topics of priorities; the one that has been silent longest comes first."""
        self._client_streams: dict[bytes, int] = {}
        """Of topics that clients alone have had published; likewise."""
        self._client_bytes = 0
        """Of the last messages of those."""
        self._merging: dict[bytes, MergingQueue] = {}
        """The priorities that wait, by topic."""
        self._unannounced: set[bytes] = set()
        self._changed = threading.Condition()
        self.total_published = 0
        self._due = Deadline(_PERIOD)
        self._done = threading.Event()
        socket = transport.socket(zmq.XPUB, hwm=min(hwm, _ROOM), max_frame=LARGEST_SUBSCRIPTION)
        self._queues = SubscriberQueues(socket, hwm, self._newest, transport.receive)
        self._subscribers = self._queues.by_topic
        quota = ReceiveQuota(MOST_WAITING_OF_SUBSCRIBER)
        self.endpoint = transport.attach(socket, "pub_endpoint", endpoint, Bind, quota=quota)
        self._waker = Waker(transport)
        self._thread = start_thread(f"publisher-{self.endpoint}", self._run, socket)

    def publish(self, topic: str | bytes, message: str | bytes | bytearray | memoryview) -> None:
        """See `ReplayMemoryServer.pub_bytes`."""
        body = message_bytes(message)
        if len(body) > LARGEST_MESSAGE:
            raise ValueError(f"message: expected at most {LARGEST_MESSAGE} bytes, got {len(body)}")
        digest = digest_of_topic(topic_bytes(topic))
        self._transport.check()
        with self._changed:
            self.total_published += 1
            self._take_from_clients(digest)
            self._put(digest, body, self._stream)
        self._waker.wake()

    def publish_allowance(self, allowance: pb.Allowance) -> None:
        """Publish how the server's rate limiter stands; never waits."""
        body = encode(self._sender, allowance=allowance)
        self._transport.check()
        with self._changed:
            self._put(digest_of_topic(ALLOWANCE), body, self._stream)
        self._waker.wake()

    def publish_for_client(self, digest: bytes, body: bytes) -> None:
        """Send a message of a client to all subscribers of its topic; never waits.

        The last message is kept of so many topics that only clients publish to.
        """
        self._transport.check()
        with self._changed:
            self.total_published += 1
            known = self._last.get(digest)
            if known is not None and digest not in self._client_streams:
                self._put(digest, body, known.stream)  # which the owner has published to as well
            else:
                self._put_for_client(digest, body)
        self._waker.wake()

    def publish_priorities(self, topic: bytes, message: bytes) -> None:
        """Send priorities to a client; never waits.

        Only of the topics that were published to last it is known what came before.
        """
        digest = digest_of_topic(topic)
        self._transport.check()
        with self._changed:
            self._take_from_clients(digest)
            stream = self._priority_stream(digest)
            waiting = self._merging.setdefault(digest, MergingQueue(self._sender))
            most = _MOST_WAITING if digest in self._subscribers else _MOST_ABSENT
            dropped = waiting.add(message, most)
            _, number, body = self._last[digest]
            self._last[digest] = _Last(stream, number + dropped, body)
        self._waker.wake()

    def wait_subscribers(self, topic: str | bytes, count: int, timeout: float | None) -> None:
        """See `ReplayMemoryServer.wait_subscribers`."""
        self._transport.check()
        digest = digest_of_topic(topic_bytes(topic))
        check_count("count", count, 0)
        deadline = Deadline.of("timeout", timeout)
        with self._changed:
            while (there := len(self._subscribers.get(digest, ()))) < count:
                self._transport.check()
                if deadline.passed:
                    raise TimeoutError(
                        f"wait_subscribers: {there} of {count} subscribed to {topic!r} at "
                        f"{self.endpoint} within {timeout:g} s"
                    )
                self._changed.wait(deadline.left)

    def finish(self) -> None:
        """Wake all calls that wait, for the transport is closed, and wait until all is sent."""
        with self._changed:
            self._changed.notify_all()
        self._waker.wake()
        if threading.current_thread() is not self._thread:
            self._done.wait(_PERIOD)

    def _take_from_clients(self, digest: bytes) -> None:
        """Keep the last message of a topic that clients alone had published until now."""
        if self._client_streams.pop(digest, None) is not None:
            self._client_bytes -= len(self._last[digest].body)

    def _priority_stream(self, digest: bytes) -> int:
        """Return the stream of a topic of priorities, which was published to last now."""
        stream = self._priority_streams.pop(digest, 0) or secrets.randbits(64)
        self._priority_streams[digest] = stream
        if self._last.get(digest, _Last(0)).stream != stream:
            self._last[digest] = _Last(stream)
        if len(self._priority_streams) > _MOST_PRIORITY_TOPICS:
            absent = (each for each in self._priority_streams if each not in self._subscribers)
            silent = next(absent, next(iter(self._priority_streams)))
            del self._priority_streams[silent], self._last[silent]
            if silent not in self._subscribers:
                self._merging.pop(silent, None)
        return stream

    def _put(self, digest: bytes, body: bytes, stream: int) -> None:
        known, number, _ = self._last.get(digest, _Last(stream))
        number = number + 1 if known == stream else 1
        self._last[digest] = _Last(stream, number, body)
        headers: dict[int, bytes] = {}
        for queue in self._subscribers.get(digest, {}).values():
            since = queue.since[1] if queue.since[0] == stream else 0
            if since not in headers:
                headers[since] = self._header(stream, number, since)
            self._queues.put(queue, headers[since], body)

    def _put_for_client(self, digest: bytes, body: bytes) -> None:
        stream = self._client_streams.pop(digest, 0) or secrets.randbits(64)
        self._client_bytes += len(body) - len(self._last.get(digest, _Last(0)).body)
        self._client_streams[digest] = stream
        self._put(digest, body, stream)
        while len(self._client_streams) > 1 and (
            len(self._client_streams) > MOST_CLIENTS_TOPICS
            or self._client_bytes > MOST_CLIENTS_TOPICS_BYTES
        ):
            silent = next(iter(self._client_streams))
            del self._client_streams[silent]
            self._client_bytes -= len(self._last.pop(silent).body)
            self._queues.drop(silent)

    def _newest(self, digest: bytes) -> tuple[int, int]:
        return self._last.get(digest, _Last(self._stream))[:2]

    def _header(self, stream: int, number: int, since: int | None = None) -> bytes:
        publication = pb.Publication(stream=stream, number=number, since=since)
        return encode(self._sender, publication=publication)

    def _run(self, socket: zmq.Socket[bytes]) -> None:
        poller = zmq.Poller()
        poller.register(self._waker.socket, zmq.POLLIN)
        with self._transport.loop(), socket:
            try:
                # The descriptor instead of the socket: it also tells of room for waiting messages.
                poller.register(socket.fileno(), zmq.POLLIN)
                while not self._transport.closed:
                    poller.poll(self._serve(socket))
                end = Deadline(_PERIOD)
                while (wait := self._exchange(socket)) is not None and not end.passed:
                    poller.poll(wait)
            finally:
                self._waker.close()
                self._done.set()

    def _serve(self, socket: zmq.Socket[bytes]) -> int:
        """Do all work, and return the milliseconds until there may be more."""
        self._waker.reset()
        if self._due.passed:
            self._due = Deadline(_PERIOD)
            with self._changed:
                self._unannounced.update(self._last)
                self._queues.forget_departed()
        left = int(self._due.within(_PERIOD) * 1000 + 0.999)
        wait = self._exchange(socket)
        return left if wait is None else min(left, wait)

    def _exchange(self, socket: zmq.Socket[bytes]) -> int | None:
        """Take subscriptions and send the messages that there is room for, for a while.

        Returns:
            After how many milliseconds to go on; None if nothing is left.
        """
        goes_on = True
        end = time.monotonic() + _BUSY
        while goes_on:
            if time.monotonic() >= end:
                return 0
            with self._changed:
                questions, came = self._queues.read()
                for peer, key in questions:
                    stream, number, body = self._last.get(key.digest, _Last(self._stream))
                    self._queues.answer(peer, key, self._header(stream, number), body)
                self._changed.notify_all()
            self._release_priorities()
            goes_on = self._send_waiting() or came
        if self._queues.busy:
            return _RETRY_MS
        if not self._unannounced:
            return None
        # Sending takes note of new subscriptions, and then the descriptor does not tell of them.
        return _RETRY_MS if self._announce(socket) or socket.poll(0) else None

    def _release_priorities(self) -> None:
        """Hand priorities that wait to subscribers that have nothing else to read."""
        with self._changed:
            for digest in self._merging.keys() & self._subscribers.keys():
                if any(not queue.waiting for queue in self._subscribers[digest].values()):
                    waiting = self._merging[digest]
                    if (message := waiting.pop()) is not None:
                        self._put(digest, message, self._priority_stream(digest))
                    if not waiting:
                        del self._merging[digest]

    def _send_waiting(self) -> bool:
        """Send each queue's messages while there is room; return whether any was sent."""
        sent = False
        for frame in list(self._queues.busy):
            for _ in range(_TURN):
                with self._changed:
                    queue = self._queues.busy.get(frame)
                    if queue is None or not self._queues.send(queue):
                        break
                    sent = True
        return sent

    def _announce(self, socket: zmq.Socket[bytes]) -> bool:
        """Announce the numbers of last messages; return whether there was no room for some."""
        with self._changed:
            # A topic whose messages are still on their way is left for the next time.
            while self._unannounced:
                digest = next(iter(self._unannounced))
                if digest in self._last and not self._queues.waits(digest):
                    frame = TopicKey(ANNOUNCEMENTS, digest).frame()
                    header = self._header(*self._newest(digest))
                    try:
                        socket.send_multipart((frame, header, b""), zmq.NOBLOCK)
                    except zmq.Again:
                        return True
                self._unannounced.discard(digest)
        return False
