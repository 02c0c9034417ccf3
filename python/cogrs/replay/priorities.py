"""Errors that a learner sends back to the clients whose samples they are about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cogrs.api import replay_pb2 as pb
from cogrs.limits import MOST_PRIORITY_CLIENTS, MOST_PRIORITY_ROWS
from cogrs.replay.convert import as_array, integers
from cogrs.replay.wire import WireError, decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from cogrs._core import ReplayMemory

_IDS, _SENDERS, _ERRORS = np.dtype("<u8"), np.dtype("<u4"), np.dtype("<f4")


class AppliedPriorities(NamedTuple):
    """What `ReplayMemoryClient.apply_priorities` found.

    Fields:
        entries: Ids whose weights were made anew.
        stale: Ids of entries that were gone.
        refused: Messages that were not priorities, and priorities whose weight would not be finite.
        dropped: Messages that were lost since the last call: the connection broke, or newer ones
            for too many entries came.
    """

    entries: int
    stale: int
    refused: int
    dropped: int


class Priorities(NamedTuple):
    """Errors of samples, a row each.

    Fields:
        ids: Ids of entries, uint64 (B,).
        sender: Whose entries, uint32 (B,).
        errors: Without exponent, finite and >= 0, float32 (B,).
    """

    ids: npt.NDArray[np.uint64]
    sender: npt.NDArray[np.uint32]
    errors: npt.NDArray[np.float32]

    @classmethod
    def of(cls, ids: Any, sender: Any, priority: Any) -> Priorities:
        """Check what a caller gave.

        Raises:
            TypeError: `ids` or `sender` are no integers, `priority` are no numbers, or some are
                masked.
            ValueError: They are not of one length, or a value is out of range.
        """
        rows = _column("ids", ids, _IDS)
        senders = _column("sender", sender, _SENDERS)
        given = as_array("priority", priority, _ERRORS, None)
        if given.dtype.kind not in "iuf":
            raise TypeError(f"priority: expected numbers, got {given.dtype}")
        if not rows.shape == senders.shape == given.shape:
            raise ValueError(
                "ids, sender, priority: expected one of each for a row, got shapes "
                f"{rows.shape}, {senders.shape}, {given.shape}"
            )
        with np.errstate(over="ignore"):
            errors: npt.NDArray[np.float32] = given.astype(_ERRORS)
        if not _sound(errors):
            raise ValueError("priority: expected finite numbers >= 0 in float32, got others")
        return cls(rows, senders, errors)

    @classmethod
    def read(cls, told: pb.Priorities) -> Priorities:
        """Read what came from a network.

        Raises:
            WireError: It cannot be.
        """
        columns = (told.ids, _IDS), (told.senders, _SENDERS), (told.errors, _ERRORS)
        try:
            read: list[Any] = [np.frombuffer(column, dtype) for column, dtype in columns]
        except ValueError:
            raise WireError("priorities that cannot be: broken numbers", "cache") from None
        ids, senders, errors = read
        if len(ids) != len(errors) or len(senders) not in (0, len(ids)) or not _sound(errors):
            raise WireError("priorities that cannot be", "cache")
        return cls(ids, senders, errors)

    def write(self) -> Iterator[pb.Priorities]:
        """Yield what goes to a server, in messages that it takes."""
        for part in self._of_few_clients():
            for first in range(0, len(part.ids), MOST_PRIORITY_ROWS):
                last = first + MOST_PRIORITY_ROWS
                ids, senders, errors = (column[first:last] for column in part)
                yield pb.Priorities(
                    ids=ids.tobytes(), senders=senders.tobytes(), errors=errors.tobytes()
                )

    @property
    def num_clients(self) -> int:
        """How many clients they are for."""
        return len(np.unique(self.sender))

    def _of_few_clients(self) -> Iterator[Priorities]:
        """Yield all rows, in parts of as many clients as one message may have."""
        clients = np.unique(self.sender)
        if len(clients) <= MOST_PRIORITY_CLIENTS:
            yield self
            return
        for first in range(0, len(clients), MOST_PRIORITY_CLIENTS):
            own = np.isin(self.sender, clients[first : first + MOST_PRIORITY_CLIENTS])
            yield Priorities(self.ids[own], self.sender[own], self.errors[own])

    def publish(self, sender: int, publish: Callable[[bytes, bytes], object]) -> None:
        """Publish a message to each client, as `sender`."""
        for uuid, ids, errors in self._by_sender():
            told = pb.Priorities(ids=ids.tobytes(), errors=errors.tobytes())
            publish(topic_of(uuid), encode(sender, priorities=told))

    def apply(self, memory: ReplayMemory) -> tuple[int, int]:
        """Make the weights of a memory's entries anew, all but those that would not be finite.

        Returns:
            How many rows were of entries that are gone, and how many would not be finite.
        """
        try:
            return memory.update_priority(self.ids, self.errors), 0
        except ValueError:
            rows = len(self.ids)
            if rows == 1:
                return 0, 1
        # One of them is too large for the others to be kept with it.
        halves = slice(rows // 2), slice(rows // 2, None)
        parts = [
            type(self)(self.ids[each], self.sender[each], self.errors[each]) for each in halves
        ]
        counts = [part.apply(memory) for part in parts]
        return counts[0][0] + counts[1][0], counts[0][1] + counts[1][1]

    def _by_sender(
        self,
    ) -> Iterator[tuple[int, npt.NDArray[np.uint64], npt.NDArray[np.float32]]]:
        order = np.argsort(self.sender, kind="stable")
        uuids, firsts = np.unique(self.sender[order], return_index=True)
        for uuid, rows in zip(uuids.tolist(), np.split(order, firsts[1:]), strict=False):
            yield uuid, self.ids[rows], self.errors[rows]


def topic_of(uuid: int) -> bytes:
    """Return the topic of the messages to a client."""
    return b"cogrs.priorities.%08x" % uuid


def received(message: bytes) -> Priorities:
    """Read a message to a client.

    Raises:
        WireError: It is none.
    """
    header = decode(message)
    if header.WhichOneof("body") != "priorities":
        raise WireError("something else than priorities", "kind")
    return Priorities.read(header.priorities)


def _column(name: str, given: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    column = integers(name, given, dtype)
    if column.ndim != 1:
        raise ValueError(f"{name}: expected shape (B,), got {column.shape}")
    return column


def _sound(errors: npt.NDArray[Any]) -> bool:
    return bool(np.isfinite(errors).all() and (errors >= 0).all())
