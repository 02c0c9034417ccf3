"""The publishing half of PUB/SUB: a server's messages to all who listen."""

from __future__ import annotations

import secrets
import threading
import time
from typing import TYPE_CHECKING

import zmq

from cogrs.api import replay_pb2 as pb
from cogrs.limits import (
    LARGEST_MESSAGE,
    LARGEST_SUBSCRIPTION,
    MOST_CLIENTS_TOPICS,
    MOST_CLIENTS_TOPICS_BYTES,
    MOST_WAITING_OF_SUBSCRIBER,
)
from cogrs.replay.endpoint import Bind, check_count
from cogrs.replay.net.connection_monitor import ReceiveQuota
from cogrs.replay.net.deadline import deadline_after, seconds_to
from cogrs.replay.net.waker import Waker
from cogrs.replay.pubsub.merging_queue import MergingQueue
from cogrs.replay.pubsub.subscriber_queues import SubscriberQueues
from cogrs.replay.wire import (
    ANNOUNCEMENTS,
    TopicKey,
    digest_of_topic,
    encode,
    message_bytes,
    topic_bytes,
)

if TYPE_CHECKING:
    from cogrs.replay.net.transport import Transport

_PERIOD = 1.0
"""Seconds between announcements."""

_RETRY_MS = 20
"""Milliseconds after which a slow subscriber is tried again, should libzmq not tell of room."""

_BUSY = 0.1
"""Seconds after which a publisher that has no end of work looks after other things."""

_ROOM = 16
"""Messages that ZeroMQ keeps for a subscriber, at most; what waits beyond is in its outbox."""

_TURN = 16
"""Messages that a subscription is sent before it is the turn of the next."""

_MOST_BRIEF = 1024
"""Brief topics whose last message is kept, those that were published to last."""

_MOST_WAITING, _MOST_ABSENT = 32 << 20, 1 << 18
"""Bytes of a brief topic that wait, for a subscriber that is there, and for one that is not."""


class Publisher:
    """A socket and the thread that serves it.

    Each subscriber has an outbox for each topic, where the newest messages wait until there is room
    for them; how many were dropped it sees by their numbers. What is published to a brief topic is
    about different entries, and merged instead.

    ZeroMQ gives a subscriber nothing of what was sent before it subscribed. So the last message of
    each topic is kept: whoever asks for it, by a subscription that nobody else has, gets it alone.
    And the number of each topic's last message is announced now and then, by which a subscriber
    sees what a broken connection has lost.
    """

    def __init__(self, transport: Transport, endpoint: str, sender: int, hwm: int) -> None:
        """Bind and start.

        Raises:
            OSError: The endpoint cannot be bound.
        """
        self._transport = transport
        self._sender = sender
        self._stream = secrets.randbits(64)
        self._last: dict[bytes, tuple[int, int, bytes]] = {}
        """Stream, number and contents of each topic's last message."""
        self._brief: dict[bytes, int] = {}
        """Streams of brief topics; the one that has been silent longest comes first."""
        self._of_clients: dict[bytes, int] = {}
        """Streams of topics that clients alone have had published; likewise."""
        self._bytes_of_clients = 0
        """Of the last messages of those."""
        self._backlogs: dict[bytes, MergingQueue] = {}
        """What waits of brief topics."""
        self._unannounced: set[bytes] = set()
        self._changed = threading.Condition()
        """Of all these, and of the outboxes."""
        self.total_published = 0
        self._due = time.monotonic() + _PERIOD
        self._done = threading.Event()
        socket = transport.socket(zmq.XPUB, hwm=min(hwm, _ROOM), max_frame=LARGEST_SUBSCRIPTION)
        self._queues = SubscriberQueues(socket, hwm, self._newest, transport.receive)
        self._subscribers = self._queues.by_topic
        self.endpoint = transport.attach(
            socket, "pub_endpoint", endpoint, Bind, intake=ReceiveQuota(MOST_WAITING_OF_SUBSCRIBER)
        )
        self._bell = Waker(transport)
        name = f"cogrs-publisher-{self.endpoint}"
        self._thread = threading.Thread(target=self._run, args=(socket,), name=name, daemon=True)
        self._thread.start()

    def publish(self, topic: str | bytes, message: str | bytes | bytearray | memoryview) -> None:
        """Send a message to all who subscribed to the topic; never waits.

        Raises:
            TypeError: Topic or message is neither bytes nor str.
            ValueError: The message is too long.
            RuntimeError: Closed.
        """
        body = message_bytes(message)
        if len(body) > LARGEST_MESSAGE:
            raise ValueError(f"message: expected at most {LARGEST_MESSAGE} bytes, got {len(body)}")
        digest = digest_of_topic(topic_bytes(topic))
        self._transport.check()
        with self._changed:
            self.total_published += 1
            if self._of_clients.pop(digest, None) is not None:
                self._bytes_of_clients -= len(self._last[digest][2])
            self._put(digest, body, self._stream)
        self._bell.ring()

    def publish_for_client(self, digest: bytes, body: bytes) -> None:
        """Send a message of a client to all who subscribed to its topic; never waits.

        Of so many topics that only clients publish to the last message is kept.

        Raises:
            RuntimeError: Closed.
        """
        self._transport.check()
        with self._changed:
            self.total_published += 1
            known = self._last.get(digest)
            if known is not None and digest not in self._of_clients:
                self._put(digest, body, known[0])  # which the owner has published to as well
            else:
                self._put_for_client(digest, body)
        self._bell.ring()

    def publish_brief(self, topic: bytes, message: bytes) -> None:
        """Send priorities to a client, by one of many topics that come and go; never waits.

        Only of those topics that were published to last is it known what came before.

        Raises:
            RuntimeError: Closed.
        """
        digest = digest_of_topic(topic)
        self._transport.check()
        with self._changed:
            if self._of_clients.pop(digest, None) is not None:
                self._bytes_of_clients -= len(self._last[digest][2])
            stream = self._stream_of(digest)
            backlog = self._backlogs.setdefault(digest, MergingQueue(self._sender))
            most = _MOST_WAITING if digest in self._subscribers else _MOST_ABSENT
            dropped = backlog.add(message, most)
            number, body = self._last[digest][1:]
            self._last[digest] = (stream, number + dropped, body)
        self._bell.ring()

    def wait_subscribers(self, topic: str | bytes, count: int, timeout: float | None) -> None:
        """Wait until so many have subscribed to a topic.

        Raises:
            TimeoutError: Fewer have.
            TypeError: `count` is no integer.
            ValueError: `count` < 0.
            RuntimeError: Closed.
        """
        self._transport.check()
        digest = digest_of_topic(topic_bytes(topic))
        check_count("count", count, 0)
        deadline = deadline_after("timeout", timeout)
        with self._changed:
            while len(self._subscribers.get(digest, ())) < count:
                self._transport.check()
                left = None if deadline is None else seconds_to(deadline)
                if left == 0:
                    there = len(self._subscribers.get(digest, ()))
                    raise TimeoutError(
                        f"wait_subscribers: {there} of {count} subscribed to {topic!r} at "
                        f"{self.endpoint} within {timeout:g} s"
                    )
                self._changed.wait(left)

    def finish(self) -> None:
        """Wake all who wait, for the transport is closed, and wait until all is sent."""
        with self._changed:
            self._changed.notify_all()
        self._bell.ring()
        if threading.current_thread() is not self._thread:
            self._done.wait(_PERIOD)

    def _stream_of(self, digest: bytes) -> int:
        """Return the stream of a brief topic, which is the newest now."""
        # One that was forgotten begins again, which subscribers see by its stream.
        self._brief[digest] = stream = self._brief.pop(digest, 0) or secrets.randbits(64)
        if self._last.get(digest, (0,))[0] != stream:
            self._last[digest] = (stream, 0, b"")
        if len(self._brief) > _MOST_BRIEF:
            absent = (each for each in self._brief if each not in self._subscribers)
            silent = next(absent, next(iter(self._brief)))
            del self._brief[silent], self._last[silent]
            if silent not in self._subscribers:
                self._backlogs.pop(silent, None)
        return stream

    def _put(self, digest: bytes, body: bytes, stream: int) -> None:
        known, number, _ = self._last.get(digest, (stream, 0, b""))
        number = number + 1 if known == stream else 1
        self._last[digest] = (stream, number, body)
        headers: dict[int, bytes] = {}
        for outbox in self._subscribers.get(digest, {}).values():
            since = outbox.since[1] if outbox.since[0] == stream else 0
            if since not in headers:
                headers[since] = self._header(stream, number, since)
            self._queues.put(outbox, headers[since], body)

    def _put_for_client(self, digest: bytes, body: bytes) -> None:
        # One that was forgotten begins again, which subscribers see by its stream.
        stream = self._of_clients.pop(digest, 0) or secrets.randbits(64)
        self._bytes_of_clients += len(body) - len(self._last.get(digest, (0, 0, b""))[2])
        self._of_clients[digest] = stream
        self._put(digest, body, stream)
        while len(self._of_clients) > 1 and (
            len(self._of_clients) > MOST_CLIENTS_TOPICS
            or self._bytes_of_clients > MOST_CLIENTS_TOPICS_BYTES
        ):
            silent = next(iter(self._of_clients))
            del self._of_clients[silent]
            self._bytes_of_clients -= len(self._last.pop(silent)[2])
            self._queues.drop(silent)

    def _newest(self, digest: bytes) -> tuple[int, int]:
        return self._last.get(digest, (self._stream, 0, b""))[:2]

    def _header(self, stream: int, number: int, since: int | None = None) -> bytes:
        publication = pb.Publication(stream=stream, number=number, since=since)
        return encode(self._sender, publication=publication)

    def _run(self, socket: zmq.Socket[bytes]) -> None:
        poller = zmq.Poller()
        poller.register(self._bell.socket, zmq.POLLIN)
        with self._transport.loop(), socket:
            try:
                # The descriptor instead of the socket: it also tells of room for what waits.
                poller.register(socket.fileno(), zmq.POLLIN)
                while not self._transport.closed:
                    poller.poll(self._serve(socket))
                end = time.monotonic() + _PERIOD
                while (wait := self._exchange(socket)) is not None and seconds_to(end) > 0:
                    poller.poll(wait)
            finally:
                self._bell.close()
                self._done.set()

    def _serve(self, socket: zmq.Socket[bytes]) -> int:
        """Do what there is to do, and return the milliseconds until there may be more."""
        self._bell.hush()
        if seconds_to(self._due) == 0:
            self._due = time.monotonic() + _PERIOD
            with self._changed:
                self._unannounced.update(self._last)
                self._queues.sweep()
        left = int(seconds_to(self._due) * 1000 + 0.999)
        wait = self._exchange(socket)
        return left if wait is None else min(left, wait)

    def _exchange(self, socket: zmq.Socket[bytes]) -> int | None:
        """Take subscriptions and send what there is room for, for a while.

        Returns:
            After how many milliseconds to go on; None if nothing is left.
        """
        goes_on = True
        end = time.monotonic() + _BUSY
        while goes_on:
            if seconds_to(end) == 0:
                return 0
            with self._changed:
                asked, came = self._queues.read()
                for peer, key in asked:
                    stream, number, body = self._last.get(key.digest, (self._stream, 0, b""))
                    self._queues.answer(peer, key, self._header(stream, number), body)
                self._changed.notify_all()
            self._release()
            goes_on = self._send_waiting() or came
        if self._queues.busy:
            return _RETRY_MS
        if not self._unannounced:
            return None
        # Whatever is sent takes note of what has come, and then the descriptor does not tell of it.
        return _RETRY_MS if self._announce(socket) or socket.poll(0) else None

    def _release(self) -> None:
        """Hand on what waits of brief topics to subscribers that have nothing else to read."""
        with self._changed:
            for digest in self._backlogs.keys() & self._subscribers.keys():
                if any(not box.waiting for box in self._subscribers[digest].values()):
                    backlog = self._backlogs[digest]
                    if (message := backlog.pop()) is not None:
                        self._put(digest, message, self._stream_of(digest))
                    if not backlog:
                        del self._backlogs[digest]

    def _send_waiting(self) -> bool:
        """Send to each outbox what there is room for; tell whether anything was sent."""
        sent = False
        for frame in list(self._queues.busy):
            for _ in range(_TURN):
                with self._changed:
                    outbox = self._queues.busy.get(frame)
                    if outbox is None or not self._queues.send(outbox):
                        break
                    sent = True
        return sent

    def _announce(self, socket: zmq.Socket[bytes]) -> bool:
        """Announce the numbers of last messages; tell whether there was no room for some."""
        with self._changed:
            # One whose messages are still on their way is left for the next time.
            while self._unannounced:
                digest = next(iter(self._unannounced))
                if digest in self._last and not self._queues.waits(digest):
                    key, header = (
                        TopicKey(ANNOUNCEMENTS, digest),
                        self._header(*self._newest(digest)),
                    )
                    try:
                        socket.send_multipart((key.frame(), header, b""), zmq.NOBLOCK)
                    except zmq.Again:
                        return True
                self._unannounced.discard(digest)
        return False
