"""Errors that a learner sends back to the clients whose samples they are about.

They are published messages, with a topic for each client. The ids of a client's entries start at a
random episode, so those of an earlier memory are found to be gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cogrs.api import replay_pb2 as pb
from cogrs.limits import MOST_PRIORITY_CLIENTS, MOST_PRIORITY_ROWS
from cogrs.replay.convert import as_array, integers
from cogrs.replay.wire import WireError, decode, encode
from cogrs.validation import check_flag

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy.typing as npt

    from cogrs._core import ReplayMemory
    from cogrs.replay.sequence_priority import SequencePriority

_IDS, _SENDERS, _ERRORS = np.dtype("<u8"), np.dtype("<u4"), np.dtype("<f4")


class AppliedPriorities(NamedTuple):
    """The result of `ReplayMemoryClient.apply_priorities`.

    Fields:
        entries: Ids whose weights were made anew, each as often as it was given.
        stale: Ids of entries that were gone.
        refused: Messages that were not priorities, and priorities whose weight would not be finite.
        dropped: Messages that were lost since the last call: the connection broke, or newer ones
            for too many entries came.
    """

    entries: int
    stale: int
    refused: int
    dropped: int

    @classmethod
    def of(cls, messages: Iterable[bytes], memory: ReplayMemory) -> AppliedPriorities:
        """Apply messages with priorities to a memory."""
        entries = stale = refused = 0
        for message in messages:
            try:
                priorities = Priorities.from_message(message)
            except WireError:
                refused += 1
                continue
            gone, bad = priorities.apply(memory)
            entries += len(priorities.ids) - gone - bad
            stale += gone
            refused += bad
        return cls(entries, stale, refused, 0)


class Priorities(NamedTuple):
    """Errors of samples, one per row.

    Fields:
        ids: Ids of entries, uint64 (B,).
        sender: The client of each entry, uint32 (B,).
        errors: Without exponent, finite and >= 0, float32 (B,).
        absolute: Whether the errors are the weights themselves.
        sequences: Whether the ids are those of the anchors of sequences.
    """

    ids: npt.NDArray[np.uint64]
    sender: npt.NDArray[np.uint32]
    errors: npt.NDArray[np.float32]
    absolute: bool = False
    sequences: bool = False

    @classmethod
    def of(
        cls,
        id: Any,
        sender: Any,
        priority: Any,
        *,
        absolute: bool = False,
        mask: Any = None,
        sequences: SequencePriority | None = None,
    ) -> Priorities:
        """Check the arguments of `ReplayMemoryServer.update_priority`; errors as there."""
        rows = _column("id", id, _IDS)
        senders = _column("sender", sender, _SENDERS)
        given = as_array("priority", priority, _ERRORS, None)
        if mask is not None or (given.ndim == 2 and sequences is not None):
            if sequences is None:
                raise ValueError("mask: expected None, as the server's caches hold no sequences")
            if absolute:
                got = "errors of the steps of sequences"
                raise ValueError(f"absolute: expected False with them, got {got}")
            counted, given = sequences.mixed(given, mask, len(rows))
            if senders.shape == rows.shape:
                rows, senders = rows[counted], senders[counted]
        if given.dtype.kind not in "iuf":
            raise TypeError(f"priority: expected numbers, got {given.dtype}")
        if not rows.shape == senders.shape == given.shape:
            raise ValueError(
                "id, sender, priority: expected one of each per row, got shapes "
                f"{rows.shape}, {senders.shape}, {given.shape}"
            )
        with np.errstate(over="ignore"):
            errors: npt.NDArray[np.float32] = given.astype(_ERRORS)
        if not _are_sound(errors):
            unsound = given[~(np.isfinite(errors) & (errors >= 0))]
            raise ValueError(f"priority: expected finite numbers >= 0 in float32, got {unsound[0]}")
        of_sequences = sequences is not None
        return cls(rows, senders, errors, check_flag("absolute", absolute), of_sequences)

    @classmethod
    def read(cls, message: pb.Priorities) -> Priorities:
        """Read priorities from a network; a WireError if they are not valid."""
        columns = (message.ids, _IDS), (message.senders, _SENDERS), (message.errors, _ERRORS)
        try:
            read: list[Any] = [np.frombuffer(column, dtype) for column, dtype in columns]
        except ValueError:
            raise WireError("invalid priorities: broken numbers", "cache") from None
        ids, senders, errors = read
        if len(ids) != len(errors) or len(senders) not in (0, len(ids)) or not _are_sound(errors):
            raise WireError("invalid priorities", "cache")
        return cls(ids, senders, errors, message.absolute, message.sequences)

    @classmethod
    def from_message(cls, message: bytes) -> Priorities:
        """Read a published message to a client; a WireError if it does not hold priorities."""
        header = decode(message)
        if header.WhichOneof("body") != "priorities":
            raise WireError("something other than priorities", "kind")
        return cls.read(header.priorities)

    def to_message(self, sender: int) -> bytes:
        """Return a message to publish to a client, from the server `sender`."""
        body = pb.Priorities(
            ids=self.ids.tobytes(),
            errors=self.errors.tobytes(),
            absolute=self.absolute,
            sequences=self.sequences,
        )
        return encode(sender, priorities=body)

    def requests(self) -> Iterator[pb.Priorities]:
        """Yield requests to a server, each of as many rows and clients as it takes."""
        for part in self._of_few_clients():
            for first in range(0, len(part.ids), MOST_PRIORITY_ROWS):
                chunk = part._rows(slice(first, first + MOST_PRIORITY_ROWS))
                yield pb.Priorities(
                    ids=chunk.ids.tobytes(),
                    senders=chunk.sender.tobytes(),
                    errors=chunk.errors.tobytes(),
                    absolute=chunk.absolute,
                    sequences=chunk.sequences,
                )

    @property
    def num_clients(self) -> int:
        """How many clients they are for."""
        return len(np.unique(self.sender))

    def publish(self, sender: int, publish: Callable[[bytes, bytes], object]) -> None:
        """Publish a message to each client, as `sender`."""
        order = np.argsort(self.sender, kind="stable")
        uuids, firsts = np.unique(self.sender[order], return_index=True)
        for uuid, rows in zip(uuids.tolist(), np.split(order, firsts[1:]), strict=False):
            publish(topic_of(uuid), self._rows(rows).to_message(sender))

    def apply(self, memory: ReplayMemory) -> tuple[int, int]:
        """Make the weights of a memory's entries anew, all but those that would not be finite.

        Returns:
            How many rows were of entries that are gone, and how many would not be finite.
        """
        try:
            return memory.update_priority(
                self.ids, self.errors, absolute=self.absolute, sequences=self.sequences
            ), 0
        except RuntimeError:
            # This memory has given no sequences yet: they are of one before it.
            return len(self.ids), 0
        except ValueError:
            rows = len(self.ids)
            if rows == 1:
                return 0, 1
        # One of them is too large for the others to be kept with it.
        halves = slice(rows // 2), slice(rows // 2, None)
        counts = [self._rows(each).apply(memory) for each in halves]
        return counts[0][0] + counts[1][0], counts[0][1] + counts[1][1]

    def _rows(self, rows: Any) -> Priorities:
        return self._replace(ids=self.ids[rows], sender=self.sender[rows], errors=self.errors[rows])

    def _of_few_clients(self) -> Iterator[Priorities]:
        """Yield all rows, in parts of as many clients as one request may have."""
        clients = np.unique(self.sender)
        if len(clients) <= MOST_PRIORITY_CLIENTS:
            yield self
            return
        for first in range(0, len(clients), MOST_PRIORITY_CLIENTS):
            yield self._rows(np.isin(self.sender, clients[first : first + MOST_PRIORITY_CLIENTS]))


def topic_of(uuid: int) -> bytes:
    """Return the topic of the messages to a client."""
    return b"cogrs.priorities.%08x" % uuid


def _column(name: str, given: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    column = integers(name, given, dtype)
    if column.ndim != 1:
        raise ValueError(f"{name}: expected shape (B,), got {column.shape}")
    return column


def _are_sound(errors: npt.NDArray[Any]) -> bool:
    return bool(np.isfinite(errors).all() and (errors >= 0).all())
