"""The publishing half of PUB/SUB: a server's messages to all who listen."""

from __future__ import annotations

import secrets
import threading
from collections import Counter, deque

import zmq

from cogrs.api import replay_pb2 as pb
from cogrs.replay.endpoint import Bind
from cogrs.replay.transport import Bell, Transport, deadline_after, seconds_to
from cogrs.replay.wire import (
    SMALL_FRAME,
    WireError,
    encode,
    is_latest,
    message_bytes,
    topic_bytes,
    topic_key,
    topic_of,
)


class Publisher:
    """A socket and the thread that serves it.

    ZeroMQ gives a subscriber nothing of what was sent before it subscribed. So the last message of
    each topic is kept, and who asks for it, by a subscription that nobody else has, gets it alone.
    """

    def __init__(self, transport: Transport, endpoint: str, sender: int, hwm: int) -> None:
        """Bind and start.

        Raises:
            OSError: The endpoint cannot be bound.
        """
        self._transport = transport
        self._sender = sender
        self._stream = secrets.randbits(64)
        self._numbers: Counter[bytes] = Counter()
        self._latest: dict[bytes, tuple[bytes, bytes]] = {}
        self._queue: deque[tuple[bytes, bytes, bytes]] = deque()
        self._subscribed = threading.Condition()
        self._subscribers: Counter[bytes] = Counter()
        self._lock = threading.Lock()
        socket = transport.socket(zmq.XPUB, hwm=hwm, max_frame=SMALL_FRAME)
        socket.setsockopt(zmq.XPUB_VERBOSER, 1)
        self.endpoint = transport.attach(socket, "pub_endpoint", endpoint, Bind)
        self._bell = Bell(transport)
        name = f"cogrs-publisher-{self.endpoint}"
        threading.Thread(target=self._run, args=(socket,), name=name, daemon=True).start()

    def publish(self, topic: str | bytes, message: str | bytes | bytearray | memoryview) -> None:
        """Send a message to all who subscribed to the topic; never waits.

        Raises:
            TypeError: Topic or message is neither bytes nor str.
            RuntimeError: Closed.
        """
        key, body = topic_key(topic_bytes(topic)), message_bytes(message)
        self._transport.check()
        with self._lock:
            self._numbers[key] += 1
            publication = pb.Publication(stream=self._stream, number=self._numbers[key])
            header = encode(self._sender, publication=publication)
            self._latest[key] = (header, body)
            self._queue.append((key, header, body))
        self._bell.ring()

    def wait_subscribers(self, topic: str | bytes, count: int, timeout: float | None) -> None:
        """Wait until so many have subscribed to a topic.

        Raises:
            TimeoutError: Fewer have.
            RuntimeError: Closed.
        """
        key = topic_key(topic_bytes(topic))
        deadline = deadline_after("timeout", timeout)
        with self._subscribed:
            while self._subscribers[key] < count:
                self._transport.check()
                left = None if deadline is None else seconds_to(deadline)
                if left == 0:
                    raise TimeoutError(
                        f"wait_subscribers: {self._subscribers[key]} of {count} subscribed to "
                        f"{topic!r} at {self.endpoint} within {timeout:g} s"
                    )
                self._subscribed.wait(left)

    def wake(self) -> None:
        """Wake all who wait, for the transport has been closed."""
        self._bell.ring()
        with self._subscribed:
            self._subscribed.notify_all()

    def _run(self, socket: zmq.Socket[bytes]) -> None:
        poller = zmq.Poller()
        poller.register(socket, zmq.POLLIN)
        poller.register(self._bell.socket, zmq.POLLIN)
        with socket:
            try:
                while not self._transport.closed:
                    self._serve(socket, dict(poller.poll()))
                self._send_queued(socket)
            except zmq.ContextTerminated:
                return
            finally:
                self._bell.close()

    def _serve(self, socket: zmq.Socket[bytes], ready: dict[object, int]) -> None:
        if self._bell.socket in ready:
            self._bell.hush()
        if socket in ready:
            self._subscription(socket)
        self._send_queued(socket)

    def _send_queued(self, socket: zmq.Socket[bytes]) -> None:
        while self._queue:
            socket.send_multipart(self._queue.popleft(), copy=False)

    def _subscription(self, socket: zmq.Socket[bytes]) -> None:
        event = socket.recv()
        on, key = event[:1] == b"\x01", event[1:]
        try:
            topic = topic_key(topic_of(key))
        except WireError:
            return
        if not is_latest(key):
            with self._subscribed:
                self._subscribers[topic] += 1 if on else -1
                self._subscribed.notify_all()
        elif on:
            # Before the last message can go to this subscriber alone, all have to have it: else it
            # would be queued behind.
            self._send_queued(socket)
            with self._lock:
                latest = self._latest.get(topic)
            if latest is not None:
                socket.send_multipart((key, *latest), copy=False)
