"""Messages of one topic that a client has received and not taken. The subscriber locks."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from cogrs.replay.pubsub.merging_queue import MergingQueue

if TYPE_CHECKING:
    from cogrs.api import replay_pb2 as pb

_MOST_PRIORITIES = 32 << 20
"""Bytes of priorities that wait for `apply_priorities`, when those of each entry were merged."""


class TopicQueue:
    """The newest messages of a topic.

    Messages are numbered, by stream: the number of a message, and the one at the time of its
    subscription, tell how many were dropped on the way.
    """

    def __init__(self, hwm: int) -> None:
        """Create an empty queue of at most `hwm` messages."""
        self._messages: deque[tuple[int, bytes]] = deque(maxlen=hwm)
        self._newest: tuple[int, int] | None = None
        """Stream and number of the newest message that came."""
        self._known: tuple[int, int] | None = None
        """Stream and number up to which nothing is missing."""
        self._asks_for_last = False
        """Whether the reply is awaited which message was published last before the first one."""
        self._holds = False
        """Whether nothing is given until then, since older messages are not wanted."""
        self.dropped = 0  # messages that were published to this client and lost
        self.size = 0  # bytes of the messages that wait

    @property
    def has_received(self) -> bool:
        """Whether any message has come."""
        return self._newest is not None

    @property
    def has_several(self) -> bool:
        """Whether a message can be dropped that is not the newest."""
        return len(self._messages) > 1

    def start_with_last(self, *, alone: bool) -> None:
        """Take the last message from before too; if `alone`, drop those published before it.

        Then no message is given until it is known.
        """
        self._asks_for_last = True
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
        """Add the message that was the last one when it was asked for; number 0 means none."""
        alone = self._holds
        self._asks_for_last = self._holds = False
        if alone and self._newest is not None and self._newest[0] == publication.stream:
            while self._messages and self._messages[0][0] < publication.number:
                self.size -= len(self._messages.popleft()[1])
        if publication.number > 0:
            self.add(publication, message)

    def misses(self, publication: pb.Publication) -> bool:
        """Return whether messages up to an announced one were lost, since the first that came."""
        if self._asks_for_last:
            return True
        if self._known is None:
            self._known = (publication.stream, publication.number)
        stream, number = self._known
        return stream != publication.stream or number < publication.number

    def take(self) -> bytes | None:
        """Take the oldest message; None if no message can be given."""
        if self._holds or not self._messages:
            return None
        message = self._messages.popleft()[1]
        self.size -= len(message)
        return message

    def drop_oldest(self) -> None:
        """Drop the oldest message, and count it."""
        self.dropped += 1
        self.size -= len(self._messages.popleft()[1])

    def _keep(self, number: int, message: bytes) -> None:
        if len(self._messages) == self._messages.maxlen:
            self.drop_oldest()
        self._messages.append((number, message))
        self.size += len(message)


class NewestTopicQueue(TopicQueue):
    """The newest message alone, which stays: all that wait for it see it, and none is missed."""

    def __init__(self) -> None:
        """Create an empty queue."""
        super().__init__(1)
        self.newest: bytes | None = None

    def add(self, publication: pb.Publication, message: bytes) -> None:
        """Add a message; those before it are not wanted, and not counted."""
        super().add(publication, message)
        self.dropped = 0

    def _keep(self, _number: int, message: bytes) -> None:
        self.newest = message


class PriorityTopicQueue(TopicQueue):
    """Messages with priorities for this client, merged instead of dropped until they are taken.

    It never starts with the last message alone.
    """

    def __init__(self) -> None:
        """Create an empty queue."""
        super().__init__(1)
        self._merging = MergingQueue()

    def take(self) -> bytes | None:
        """Take the oldest message, merged with later ones."""
        return self._merging.pop()

    def _keep(self, _number: int, message: bytes) -> None:
        self.dropped += self._merging.add(message, _MOST_PRIORITIES)
