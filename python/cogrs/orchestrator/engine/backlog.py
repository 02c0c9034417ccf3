"""What waits for somebody to read it, and how much that is."""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cogrs.api.common_pb2 import ActorPeriodData


class Sized(Protocol):
    """A message."""

    def ByteSize(self) -> int:  # noqa: N802
        """Return its bytes on the wire."""


M = TypeVar("M", bound=Sized)


OVERHEAD = 256
"""Bytes that a message takes beside those on the wire, which may be none."""


def footprint(message: Sized) -> int:
    """Return about how many bytes a message that is kept takes."""
    return message.ByteSize() + OVERHEAD


def _size(message: Sized) -> int:
    return message.ByteSize()


def measure_period(period: ActorPeriodData) -> int:
    """Return about how many bytes the data of a tick takes, of which parts may have none."""
    return period.ByteSize() + OVERHEAD * (len(period.rewards) + len(period.messages))


class Shares:
    """How much waits of each sender.

    Each has a share of its own, so that nobody who floods a trial silences the others.
    """

    def __init__(self) -> None:
        """Create shares of which nothing is used."""
        self._items: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()

    def add(self, sender: str, size: int) -> None:
        """Count an item that waits from now on."""
        self._items[sender] += 1
        self._bytes[sender] += size

    def remove(self, sender: str, size: int) -> None:
        """Count an item that went out."""
        self._items[sender] -= 1
        self._bytes[sender] -= size

    def find_excess(self, sender: str, items: int, size: int, most: int, most_bytes: int) -> str:
        """Return why a sender cannot have so much more wait; empty if it can.

        What has more bytes than may wait is taken while nothing else of the sender waits.
        """
        waiting, held = self._items[sender], self._bytes[sender]
        if waiting + items > most:
            return f"{waiting} items of {sender!r} wait for their ticks, of at most {most}"
        if held and held + size > most_bytes:
            return f"{held} bytes of {sender!r} wait for their ticks, of at most {most_bytes}"
        return ""


class Backlog(Generic[M]):
    """Messages in order, with the bytes of those that were put behind others.

    To measure a message takes about as long as to send it, and who reads has nothing waiting as a
    rule: so the first one is not measured.
    """

    def __init__(self, measure: Callable[[M], int] = _size) -> None:
        """Create an empty backlog.

        Args:
            measure: Returns the bytes that a message takes.
        """
        self._measure = measure
        self._messages: deque[M] = deque()
        self._sizes: deque[int] = deque()
        self.bytes = 0
        """Of all but the first ones."""

    def append(self, message: M) -> None:
        """Add the last one."""
        if self._messages:
            size = self._measure(message)
            self._sizes.append(size)
            self.bytes += size
        self._messages.append(message)

    def appendleft(self, message: M) -> None:
        """Put the first one back."""
        self._messages.appendleft(message)

    def popleft(self) -> M:
        """Take the first one."""
        message = self._messages.popleft()
        if len(self._sizes) > len(self._messages):
            self.bytes -= self._sizes.popleft()
        return message

    def clear(self) -> None:
        """Forget all."""
        self._messages.clear()
        self._sizes.clear()
        self.bytes = 0

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._messages)

    def __iter__(self) -> Iterator[M]:
        """Return all, the first one first."""
        return iter(self._messages)


def find_excess(ticks: int, size: int, most: int, most_bytes: int) -> str:
    """Return what is too much, in words; empty if nothing is. A single tick never is."""
    if ticks > most:
        return f"{ticks} ticks wait to be read"
    if ticks > 1 and size > most_bytes:
        return f"{ticks} ticks of {size} bytes wait to be read"
    return ""
