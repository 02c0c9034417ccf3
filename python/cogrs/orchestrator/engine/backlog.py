"""Queues of messages for one reader: how many bytes they have, and how many are too many."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cogrs.api.common_pb2 import ActorPeriodData
    from cogrs.orchestrator.engine.settings import Settings


class Sized(Protocol):
    """A message."""

    def ByteSize(self) -> int:  # noqa: N802
        """Return its bytes on the wire."""


M = TypeVar("M", bound=Sized)

OVERHEAD = 256
"""Bytes that a message takes beside those on the wire, which may be 0."""


def _wire_size(message: Sized) -> int:
    return message.ByteSize()


def footprint(message: Sized) -> int:
    """Return about how many bytes a message takes in memory."""
    return message.ByteSize() + OVERHEAD


def measure_period(period: ActorPeriodData) -> int:
    """Return about how many bytes the data of a tick takes; its parts may have 0 on the wire."""
    return period.ByteSize() + OVERHEAD * (len(period.rewards) + len(period.messages))


class Backlog(Generic[M]):
    """A queue that knows the bytes of all its messages but the first.

    To measure a message takes about as long as to send it, and as a rule a reader has nothing
    waiting: so a message that nothing is before is not measured.
    """

    def __init__(self, measure: Callable[[M], int] = _wire_size) -> None:
        """Create an empty queue, in which `measure` returns the bytes of a message."""
        self._measure = measure
        self._messages: deque[M] = deque()
        self._sizes: deque[int] = deque()
        self.bytes = 0
        """Of all messages but the first ones."""

    def append(self, message: M) -> None:
        """Add a message at the end."""
        if self._messages:
            size = self._measure(message)
            self._sizes.append(size)
            self.bytes += size
        self._messages.append(message)

    def appendleft(self, message: M) -> None:
        """Put the first message back."""
        self._messages.appendleft(message)

    def popleft(self) -> M:
        """Take the first message."""
        message = self._messages.popleft()
        if len(self._sizes) > len(self._messages):
            self.bytes -= self._sizes.popleft()
        return message

    def clear(self) -> None:
        """Remove all messages."""
        self._messages.clear()
        self._sizes.clear()
        self.bytes = 0

    def __len__(self) -> int:
        """Return the number of messages."""
        return len(self._messages)

    def __iter__(self) -> Iterator[M]:
        """Return all messages, the first one first."""
        return iter(self._messages)


def find_excess(ticks: int, size: int, settings: Settings) -> str:
    """Return in words what waits for an actor beyond its `client_backlog`; empty if nothing does.

    A single tick is never too much.
    """
    if ticks > settings.client_backlog:
        return f"{ticks} ticks wait to be read"
    if ticks > 1 and size > settings.client_backlog_bytes:
        return f"{ticks} ticks of {size} bytes wait to be read"
    return ""
