"""The subscribing half of PUB/SUB: one reader, a queue for each topic."""

from __future__ import annotations

import logging
import secrets
import threading
from collections import deque
from typing import TYPE_CHECKING

import zmq

from cogrs.replay.endpoint import Conn
from cogrs.replay.transport import Bell, Transport, deadline_after, receive, seconds_to
from cogrs.replay.wire import WireError, decode, is_latest, latest_key, topic_key, topic_of

if TYPE_CHECKING:
    from cogrs.api import replay_pb2 as pb

_logger = logging.getLogger("cogrs.replay")


class Topic:
    """Messages of a topic that nobody has taken yet, newest kept."""

    def __init__(self, hwm: int) -> None:
        """Keep at most `hwm` messages."""
        self._messages: deque[bytes] = deque(maxlen=hwm)
        self._newest = (0, 0)
        self.dropped = 0

    def add(self, publication: pb.Publication, message: bytes) -> None:
        """Add a message unless it is here already, and count those before it that never came."""
        stream, number = self._newest
        if publication.stream == stream:
            if publication.number <= number:
                return
            self.dropped += publication.number - number - 1
        self._newest = (publication.stream, publication.number)
        self.dropped += len(self._messages) == self._messages.maxlen
        self._messages.append(message)

    @property
    def seen(self) -> bool:
        """Whether any message ever came."""
        return self._newest != (0, 0)

    def take(self) -> bytes | None:
        """The oldest message that is kept."""
        return self._messages.popleft() if self._messages else None


class Subscriber:
    """A socket and the thread that reads it, both made when a topic is first asked for."""

    def __init__(self, transport: Transport, endpoint: str, hwm: int) -> None:
        """Do nothing yet."""
        self._transport = transport
        self._endpoint = endpoint
        self._hwm = hwm
        self._changed = threading.Condition()
        self._topics: dict[bytes, Topic] = {}
        self._asked: set[bytes] = set()
        self._wanted: deque[bytes] = deque()
        self._bell: Bell | None = None

    def get(self, topic: bytes, timeout: float | None, last: bool) -> bytes:
        """Wait for a message of a topic.

        Raises:
            TimeoutError: None came.
            RuntimeError: Closed.
        """
        deadline = deadline_after("timeout", timeout)
        with self._changed:
            self._transport.check()
            queue = self._subscribed(topic, last)
            while (message := queue.take()) is None:
                left = None if deadline is None else seconds_to(deadline)
                if left == 0:
                    raise TimeoutError(
                        f"sub_bytes: no message of topic {topic!r} from {self._endpoint} within "
                        f"{timeout:g} s"
                    )
                self._changed.wait(left)
                self._transport.check()
        return message

    def dropped(self, topic: bytes) -> int:
        """Messages of a topic that were sent to this subscriber and lost."""
        with self._changed:
            queue = self._topics.get(topic_key(topic))
            return queue.dropped if queue else 0

    def wake(self) -> None:
        """Wake all who wait, for the transport has been closed."""
        with self._changed:
            if self._bell is not None:
                self._bell.ring()
            self._changed.notify_all()

    def _subscribed(self, topic: bytes, last: bool) -> Topic:
        key = topic_key(topic)
        if self._bell is None:
            self._start()
        if key not in self._topics:
            self._topics[key] = Topic(self._hwm)
            self._want(key)
        if last and not self._topics[key].seen and key not in self._asked:
            self._asked.add(key)
            self._want(latest_key(secrets.token_bytes(16), topic))
        return self._topics[key]

    def _want(self, key: bytes) -> None:
        self._wanted.append(key)
        if self._bell is not None:
            self._bell.ring()

    def _start(self) -> None:
        socket = self._transport.socket(zmq.SUB, hwm=self._hwm)
        self._transport.attach(socket, "sub_endpoint", self._endpoint, Conn)
        self._bell = Bell(self._transport)
        name = f"cogrs-subscriber-{self._endpoint}"
        args = (socket, self._bell)
        threading.Thread(target=self._run, args=args, name=name, daemon=True).start()

    def _run(self, socket: zmq.Socket[bytes], bell: Bell) -> None:
        poller = zmq.Poller()
        poller.register(socket, zmq.POLLIN)
        poller.register(bell.socket, zmq.POLLIN)
        with socket:
            try:
                while not self._transport.closed:
                    self._serve(socket, bell, dict(poller.poll()))
            except zmq.ContextTerminated:
                return
            finally:
                bell.close()

    def _serve(self, socket: zmq.Socket[bytes], bell: Bell, ready: dict[object, int]) -> None:
        if bell.socket in ready:
            bell.hush()
        while self._wanted:
            socket.subscribe(self._wanted.popleft())
        if socket in ready:
            self._take(socket)

    def _take(self, socket: zmq.Socket[bytes]) -> None:
        frames = receive(socket)
        try:
            if len(frames) != 3:
                raise WireError(f"{len(frames)} frames")
            key = frames[0].bytes
            topic = topic_key(topic_of(key))
            publication = decode(frames[1]).publication
        except WireError as error:
            _logger.warning("%s published %s; it is dropped", self._endpoint, error)
            return
        if is_latest(key):
            socket.unsubscribe(key)
        with self._changed:
            if topic in self._topics:
                self._topics[topic].add(publication, frames[2].bytes)
                self._changed.notify_all()
