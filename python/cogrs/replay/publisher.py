"""The publishing half of PUB/SUB: a server's messages to all who listen."""

from __future__ import annotations

import secrets
import threading
import time
from collections import Counter, deque

import zmq

from cogrs.api import replay_pb2 as pb
from cogrs.replay.deadline import deadline_after, seconds_to
from cogrs.replay.endpoint import Bind, check_count
from cogrs.replay.transport import Bell, Transport
from cogrs.replay.wire import (
    ANNOUNCEMENTS,
    LAST,
    MESSAGES,
    SMALL_FRAME,
    Key,
    WireError,
    digest_of_topic,
    encode,
    message_bytes,
    topic_bytes,
)

_PERIOD = 1.0
"""Seconds between announcements."""

_MOST_BRIEF = 1024
"""Brief topics whose last message is kept, those that were published to last."""


class Publisher:
    """A socket and the thread that serves it.

    ZeroMQ gives a subscriber nothing of what was sent before it subscribed, and drops what a slow
    one has no room for. So the last message of each topic is kept: whoever asks for it, by a
    subscription that nobody else has, gets it alone. And the number of each topic's last message is
    announced now and then, by which a subscriber sees that it missed some.
    """

    def __init__(self, transport: Transport, endpoint: str, sender: int, hwm: int) -> None:
        """Bind and start.

        Raises:
            OSError: The endpoint cannot be bound.
        """
        self._transport = transport
        self._sender = sender
        self._stream = secrets.randbits(64)
        self._lock = threading.Lock()
        self._last: dict[bytes, tuple[int, int, bytes]] = {}
        """Stream, number and contents of each topic's last message."""
        self._brief: dict[bytes, int] = {}
        """Streams of brief topics; the one that has been silent longest comes first."""
        self._queue: deque[tuple[bytes, bytes, bytes]] = deque()
        self._subscribed = threading.Condition()
        self._subscribers: Counter[bytes] = Counter()
        self.total_published = 0
        self._due = time.monotonic() + _PERIOD
        self._done = threading.Event()
        socket = transport.socket(zmq.XPUB, hwm=hwm, max_frame=SMALL_FRAME)
        socket.setsockopt(zmq.XPUB_VERBOSER, 1)
        self.endpoint = transport.attach(socket, "pub_endpoint", endpoint, Bind)
        self._bell = Bell(transport)
        name = f"cogrs-publisher-{self.endpoint}"
        self._thread = threading.Thread(target=self._run, args=(socket,), name=name, daemon=True)
        self._thread.start()

    def publish(self, topic: str | bytes, message: str | bytes | bytearray | memoryview) -> None:
        """Send a message to all who subscribed to the topic; never waits.

        Raises:
            TypeError: Topic or message is neither bytes nor str.
            RuntimeError: Closed.
        """
        digest, body = digest_of_topic(topic_bytes(topic)), message_bytes(message)
        self._transport.check()
        with self._lock:
            self.total_published += 1
            self._put(digest, body, self._stream)
        self._bell.ring()

    def publish_brief(self, topic: bytes, message: bytes) -> None:
        """Send to all who subscribed to one of many topics that come and go; never waits.

        Only of those that were published to last is it known what came before.

        Raises:
            RuntimeError: Closed.
        """
        digest = digest_of_topic(topic)
        self._transport.check()
        with self._lock:
            # One that was forgotten begins again, which subscribers see by its stream.
            self._brief[digest] = stream = self._brief.pop(digest, 0) or secrets.randbits(64)
            if len(self._brief) > _MOST_BRIEF:
                silent = next(iter(self._brief))
                del self._brief[silent], self._last[silent]
            self._put(digest, message, stream)
        self._bell.ring()

    def _put(self, digest: bytes, body: bytes, stream: int) -> None:
        known, number, _ = self._last.get(digest, (stream, 0, b""))
        number = number + 1 if known == stream else 1
        self._last[digest] = (stream, number, body)
        self._queue.append((Key(MESSAGES, digest).frame(), self._header(stream, number), body))

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
        with self._subscribed:
            while self._subscribers[digest] < count:
                self._transport.check()
                left = None if deadline is None else seconds_to(deadline)
                if left == 0:
                    raise TimeoutError(
                        f"wait_subscribers: {self._subscribers[digest]} of {count} subscribed to "
                        f"{topic!r} at {self.endpoint} within {timeout:g} s"
                    )
                self._subscribed.wait(left)

    def finish(self) -> None:
        """Wake all who wait, for the transport is closed, and wait until all is sent."""
        with self._subscribed:
            self._subscribed.notify_all()
        self._bell.ring()
        if threading.current_thread() is not self._thread:
            self._done.wait(_PERIOD)

    def _header(self, stream: int, number: int) -> bytes:
        publication = pb.Publication(stream=stream, number=number)
        return encode(self._sender, publication=publication)

    def _run(self, socket: zmq.Socket[bytes]) -> None:
        poller = zmq.Poller()
        poller.register(socket, zmq.POLLIN)
        poller.register(self._bell.socket, zmq.POLLIN)
        with self._transport.loop(), socket:
            try:
                while not self._transport.closed:
                    self._serve(socket, dict(poller.poll(int(_PERIOD * 1000))))
                self._send_queued(socket)
            finally:
                self._bell.close()
                self._done.set()

    def _serve(self, socket: zmq.Socket[bytes], ready: dict[object, int]) -> None:
        if self._bell.socket in ready:
            self._bell.hush()
        self._send_queued(socket)
        if socket in ready:
            self._subscription(socket)
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + _PERIOD
            self._announce(socket)

    def _send_queued(self, socket: zmq.Socket[bytes]) -> None:
        while self._queue:
            socket.send_multipart(self._queue.popleft(), copy=False)

    def _announce(self, socket: zmq.Socket[bytes]) -> None:
        with self._lock:
            numbers = [(digest, *last[:2]) for digest, last in self._last.items()]
        for digest, stream, number in numbers:
            key = Key(ANNOUNCEMENTS, digest).frame()
            socket.send_multipart((key, self._header(stream, number), b""))

    def _subscription(self, socket: zmq.Socket[bytes]) -> None:
        event = socket.recv()
        try:
            key = Key.of(event[1:])
        except WireError:
            return
        change = {b"\0": -1, b"\1": 1}.get(event[:1], 0)
        if key.kind == MESSAGES and change:
            with self._subscribed:
                self._subscribers[key.digest] += change
                if self._subscribers[key.digest] <= 0:
                    del self._subscribers[key.digest]  # there may be no end of topics
                self._subscribed.notify_all()
        elif key.kind == LAST and change > 0:
            self._send_last(socket, key)

    def _send_last(self, socket: zmq.Socket[bytes], key: Key) -> None:
        with self._lock:
            stream, number, body = self._last.get(key.digest, (self._stream, 0, b""))
        socket.send_multipart((key.frame(), self._header(stream, number), body), copy=False)
