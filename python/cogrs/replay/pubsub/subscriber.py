"""The subscribing half of PUB/SUB: one reader, a queue for each topic."""

from __future__ import annotations

import logging
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
from cogrs.replay.net.connection_monitor import ReceiveQuota
from cogrs.replay.net.deadline import deadline_after, seconds_to
from cogrs.replay.net.waker import Waker
from cogrs.replay.pubsub.merging_queue import MergingQueue
from cogrs.replay.wire import (
    ANNOUNCEMENTS,
    LAST,
    MESSAGES,
    TopicKey,
    WireError,
    decode,
    digest_of_topic,
    new_nonce,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from cogrs.api import replay_pb2 as pb
    from cogrs.replay.net.transport import Transport

_logger = logging.getLogger("cogrs.replay")

_MOST_PRIORITIES = 32 << 20
"""Bytes of priorities that wait for `apply_priorities`, when those of each entry were merged."""


class TopicQueue:
    """Messages of a topic that nobody has taken yet, newest kept."""

    def __init__(self, hwm: int) -> None:
        """Keep at most `hwm` messages."""
        self._messages: deque[tuple[int, bytes]] = deque(maxlen=hwm)
        self._newest: tuple[int, int] | None = None
        """Stream and number of the newest message that came."""
        self._known: tuple[int, int] | None = None
        """Stream and number up to which nothing is missing."""
        self._asks = False
        """Whether it is not yet known what was published before the first message that came."""
        self._holds = False
        """Whether nothing is given until that is known, since older messages are not wanted."""
        self.dropped = 0
        self.size = 0
        """Bytes of the messages that are kept."""

    @property
    def came(self) -> bool:
        """Whether any message has come."""
        return self._newest is not None

    def start_with_last(self, alone: bool) -> None:
        """Take the last message from before too; `alone` drops those that come until it is known.

        Where `alone`, nothing is given until then.
        """
        self._asks = True
        self._holds = alone

    def add(self, publication: pb.Publication, message: bytes) -> None:
        """Add a message unless it is here already, and count those before it that never came."""
        stream, number = publication.stream, publication.number
        if self._newest is not None and self._newest[0] == stream and number <= self._newest[1]:
            return
        known = self._known
        if (known is None or known[0] != stream) and publication.HasField("since"):
            known = stream, publication.since
        if known is not None and known[0] == stream:
            self.dropped += max(0, number - known[1] - 1)
        self._newest = self._known = (stream, number)
        self._keep(number, message)

    def add_last(self, publication: pb.Publication, message: bytes) -> None:
        """Take what was the last message when it was asked for; number 0 says that there was none.

        A topic that starts with it alone drops what was published before and came in between.
        """
        alone = self._holds
        self._asks = self._holds = False
        if alone and self._newest is not None and self._newest[0] == publication.stream:
            while self._messages and self._messages[0][0] < publication.number:
                self.size -= len(self._messages.popleft()[1])
        if publication.number > 0:
            self.add(publication, message)

    def misses(self, publication: pb.Publication) -> bool:
        """Tell whether messages up to an announced one were lost, those since the first heard."""
        if self._asks:
            return True
        if self._known is None:
            self._known = (publication.stream, publication.number)
        stream, number = self._known
        return stream != publication.stream or number < publication.number

    def take(self) -> bytes | None:
        """Take the oldest message that is kept."""
        if self._holds or not self._messages:
            return None
        message = self._messages.popleft()[1]
        self.size -= len(message)
        return message

    def drop_oldest(self) -> None:
        """Drop the oldest of several messages that are kept, and count it."""
        self.dropped += 1
        self.size -= len(self._messages.popleft()[1])

    @property
    def has_several(self) -> bool:
        """Whether there is one to drop that is not the newest."""
        return len(self._messages) > 1

    def _keep(self, number: int, message: bytes) -> None:
        if len(self._messages) == self._messages.maxlen:
            self.drop_oldest()
        self._messages.append((number, message))
        self.size += len(message)


class PriorityTopicQueue(TopicQueue):
    """Messages with priorities for this client, merged instead of dropped while nobody takes them.

    It never starts with the last message alone.
    """

    def __init__(self) -> None:
        """Hold nothing."""
        super().__init__(1)
        self._backlog = MergingQueue()

    def take(self) -> bytes | None:
        """Take the oldest message, merged with later ones."""
        return self._backlog.pop()

    def _keep(self, _number: int, message: bytes) -> None:
        self.dropped += self._backlog.add(message, _MOST_PRIORITIES)


class Subscriber:
    """A socket and the thread that reads it, both made when a topic is first asked for."""

    def __init__(self, transport: Transport, endpoint: str, hwm: int) -> None:
        """Do nothing yet."""
        self._transport = transport
        self._endpoint = endpoint
        self._hwm = hwm
        self._changed = threading.Condition()
        self._topics: dict[bytes, TopicQueue] = {}
        self._wanted: deque[TopicKey] = deque()
        self._unwanted: deque[TopicKey] = deque()
        self._asked: dict[bytes, TopicKey] = {}
        self._bell: Waker | None = None
        self._connected = False
        """Whether there was ever a connection."""
        self.total_refused = 0
        """Messages that were dropped: none of ours."""

    def get(self, topic: bytes, timeout: float | None, last: bool) -> bytes:
        """Wait for a message of a topic.

        Raises:
            TimeoutError: None came.
            RuntimeError: Closed.
        """
        self._transport.check()
        deadline = deadline_after("timeout", timeout)
        with self._changed:
            digest = digest_of_topic(topic)
            queue = self._subscribed(digest)
            if last:
                self._start_with_last(digest, alone=True)
            while (message := queue.take()) is None:
                left = None if deadline is None else seconds_to(deadline)
                if left == 0:
                    hint = "" if self._connected else self._transport.hint
                    raise TimeoutError(
                        f"sub_bytes: no message of topic {topic!r} from {self._endpoint} within "
                        f"{timeout:g} s{hint}"
                    )
                self._changed.wait(left)
                self._transport.check()
        return message

    def subscribe(self, topic: bytes) -> None:
        """Keep the priorities that are published to a topic from now on, without waiting for them.

        The last message from before is kept too: it may have been published after this call, and
        before the publisher heard of it.

        Raises:
            OSError: No socket can be made.
            RuntimeError: Closed.
        """
        with self._changed:
            digest = digest_of_topic(topic)
            self._subscribed(digest, PriorityTopicQueue)
            self._start_with_last(digest, alone=False)

    def take(self, topic: bytes, timeout: float | None) -> list[bytes]:
        """Take all messages of a topic that have come; wait for the first, as long as may be.

        Raises:
            RuntimeError: Closed.
        """
        self._transport.check()
        deadline = deadline_after("timeout", timeout)
        with self._changed:
            queue = self._subscribed(digest_of_topic(topic))
            while not (messages := list(iter(queue.take, None))):
                left = None if deadline is None else seconds_to(deadline)
                if left == 0:
                    break
                self._changed.wait(left)
                self._transport.check()
        return messages

    def dropped(self, topic: bytes) -> int:
        """Messages of a topic that were sent to this subscriber and lost."""
        with self._changed:
            queue = self._topics.get(digest_of_topic(topic))
            return queue.dropped if queue else 0

    def total_dropped(self) -> int:
        """Messages of all topics that were sent to this subscriber and lost."""
        with self._changed:
            return sum(queue.dropped for queue in self._topics.values())

    def wake(self) -> None:
        """Wake all who wait, for the transport has been closed."""
        with self._changed:
            if self._bell is not None:
                self._bell.ring()
            self._changed.notify_all()

    def _subscribed(
        self, digest: bytes, make: Callable[[], TopicQueue] | None = None
    ) -> TopicQueue:
        self._transport.check()
        if not self._endpoint:
            raise RuntimeError("this client was created without a sub_endpoint")
        bell = self._bell or self._start()
        if digest not in self._topics:
            if len(self._topics) >= MOST_TOPICS:
                raise RuntimeError(
                    f"this client has subscribed to {MOST_TOPICS} topics, as many as it may: "
                    "use another client for more"
                )
            self._topics[digest] = make() if make else TopicQueue(self._hwm)
            self._wanted += TopicKey(MESSAGES, digest), TopicKey(ANNOUNCEMENTS, digest)
            bell.ring()
        return self._topics[digest]

    def _start_with_last(self, digest: bytes, alone: bool) -> None:
        if not self._topics[digest].came:
            self._topics[digest].start_with_last(alone)
            self._ask(digest)

    def _ask(self, digest: bytes) -> None:
        # An earlier question that has no answer yet, and may have none, is taken back.
        if digest in self._asked:
            self._unwanted.append(self._asked[digest])
        self._asked[digest] = key = TopicKey(LAST, digest, new_nonce())
        self._wanted.append(key)
        assert self._bell is not None, "no topic has been asked for"
        self._bell.ring()

    def _start(self) -> Waker:
        # Subscriptions are all that it sends, and nobody misses those of a socket that closes.
        socket = self._transport.socket(
            zmq.SUB, hwm=self._hwm, max_frame=LARGEST_MESSAGE, linger_ms=0
        )
        # Subscriptions beyond a high-water mark would be dropped, without a word.
        socket.setsockopt(zmq.SNDHWM, 0)
        self._transport.attach(
            socket,
            "sub_endpoint",
            self._endpoint,
            Conn,
            intake=ReceiveQuota(MOST_WAITING_OF_PUBLISHER),
            heard=self._hear,
        )
        bell = Waker(self._transport)
        name = f"cogrs-subscriber-{self._endpoint}"
        args = (socket, bell)
        threading.Thread(target=self._run, args=args, name=name, daemon=True).start()
        self._bell = bell
        return bell

    def _hear(self, _endpoint: str, event: int) -> None:
        self._connected |= event == zmq.EVENT_HANDSHAKE_SUCCEEDED

    def _run(self, socket: zmq.Socket[bytes], bell: Waker) -> None:
        poller = zmq.Poller()
        for each in (socket, bell.socket):
            poller.register(each, zmq.POLLIN)
        with self._transport.loop(), socket:
            try:
                while not self._transport.closed:
                    self._serve(socket, bell, dict(poller.poll()))
            finally:
                bell.close()

    def _serve(self, socket: zmq.Socket[bytes], bell: Waker, ready: dict[object, int]) -> None:
        if bell.socket in ready:
            bell.hush()
        while self._wanted:
            socket.subscribe(self._wanted.popleft().frame())
        while self._unwanted:
            socket.unsubscribe(self._unwanted.popleft().frame())
        if socket in ready:
            self._take(socket)

    def _take(self, socket: zmq.Socket[bytes]) -> None:
        frames = self._transport.receive(socket)
        self._connected = True  # which another thread may hear of later
        try:
            if len(frames) != 3:
                raise WireError(f"{len(frames)} frames")
            key = TopicKey.of(frames[0].bytes)
            header = decode(frames[1])
            if header.WhichOneof("body") != "publication":
                raise WireError("something else than a message of a topic")
        except WireError as error:
            self._refuse(error)
            return
        with self._changed:
            self._note(key, header.publication, frames[2])
            self._changed.notify_all()

    def _refuse(self, error: WireError) -> None:
        self.total_refused += 1
        if self.total_refused == 1:
            text = "%s published %s; it is dropped, further ones are only counted"
            _logger.warning(text, self._endpoint, error)

    def _note(self, key: TopicKey, publication: pb.Publication, body: zmq.Frame) -> None:
        queue = self._topics.get(key.digest)
        if queue is None:
            return
        if key.kind == MESSAGES:
            queue.add(publication, body.bytes)
            self._make_room(queue)
        elif key.kind == LAST and self._asked.get(key.digest) == key:
            self._unwanted.append(self._asked.pop(key.digest))
            queue.add_last(publication, body.bytes)
            self._make_room(queue)
        elif key.kind == ANNOUNCEMENTS and queue.misses(publication):
            self._ask(key.digest)

    def _make_room(self, queue: TopicQueue) -> None:
        """Drop the oldest messages of a topic where too many bytes wait, not its newest."""
        while (
            queue.has_several
            and sum(each.size for each in self._topics.values()) > MOST_KEPT_OF_PUBLISHER
        ):
            queue.drop_oldest()
