"""Ids of entries of several sources as one column of integers, and back.

```text
bit 63 | 62 ... 56 | 55 ... 32 | 31 ... 0
   0   | source    | stream    | the lowest 32 bits of the entry's id
```

A stream is a client of the source, together with the upper 32 bits of its ids. Ids of a memory are
consecutive, so that a stream lasts for 2 ** 32 entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cogrs.replay.convert import integers

if TYPE_CHECKING:
    import numpy.typing as npt

MOST_SOURCES = 1 << 7
_SOURCE, _STREAM = np.uint64(56), np.uint64(32)
_NO_ID = (1 << 24) - 1
"""The stream of rows that have no ids."""
_LOW = np.uint64(0xFFFFFFFF)


class Ids(NamedTuple):
    """Ids of one source, and the rows that have them.

    Fields:
        rows: Positions in the column of ids, (n,).
        id: Ids as the source has them, uint64 (n,).
        sender: Clients of the source, uint32 (n,); 0 of memories.
    """

    rows: npt.NDArray[np.intp]
    id: npt.NDArray[np.uint64]
    sender: npt.NDArray[np.uint32]


class MixedIds:
    """The streams of each source, in the order in which they were first met."""

    def __init__(self, sources: int) -> None:
        """Start without streams."""
        self._numbers: list[dict[int, int]] = [{} for _ in range(sources)]
        self._streams: list[list[int]] = [[] for _ in range(sources)]

    def encode(
        self,
        source: int,
        id: npt.NDArray[np.uint64] | None,
        sender: npt.NDArray[np.uint32] | None,
        rows: int,
    ) -> npt.NDArray[np.uint64]:
        """Return the ids of some rows of a source; None stands for rows without."""
        first = np.uint64(source) << _SOURCE
        if id is None:
            return np.full(rows, first | (np.uint64(_NO_ID) << _STREAM))
        upper = id >> _STREAM
        if sender is not None:
            upper |= sender.astype(np.uint64) << _STREAM
        met, where = np.unique(upper, return_inverse=True)
        numbers = np.array([self._number(source, int(each)) for each in met], np.uint64)
        return first | (numbers[where] << _STREAM) | (id & _LOW)

    def _number(self, source: int, upper: int) -> int:
        numbers = self._numbers[source]
        if upper not in numbers:
            if len(numbers) == _NO_ID:
                raise RuntimeError(f"source {source}: expected at most {_NO_ID} clients, got more")
            self._streams[source].append(upper)
            numbers[upper] = len(numbers)
        return numbers[upper]

    def sources_of(self, ids: Any) -> npt.NDArray[np.intp]:
        """Return the number of each id's source.

        Raises:
            TypeError: These are not integers.
            ValueError: One of them is not of these sources.
        """
        return self._sources(integers("id", ids, np.dtype(np.uint64)))

    def decode(self, ids: Any) -> dict[int, Ids | None]:
        """Return the ids of each source; None for a source of whose rows some have no ids.

        Raises:
            TypeError: These are not integers.
            ValueError: There is not one dimension, or one of them was not given out.
        """
        given = integers("id", ids, np.dtype(np.uint64))
        if given.ndim != 1:
            raise ValueError(f"id: expected shape (B,), got {given.shape}")
        sources = self._sources(given)
        found: dict[int, Ids | None] = {}
        for source in np.unique(sources).tolist():
            rows = np.flatnonzero(sources == source)
            streams = (given[rows] >> _STREAM).astype(np.int64) & _NO_ID
            if (streams == _NO_ID).any():
                found[source] = None
                continue
            if int(streams.max()) >= len(self._streams[source]):
                raise ValueError(_not_of_a_batch(given[rows[streams.argmax()]]))
            upper = np.array(self._streams[source], np.uint64)[streams]
            own = ((upper & _LOW) << _STREAM) | (given[rows] & _LOW)
            found[source] = Ids(rows, own, (upper >> _STREAM).astype(np.uint32))
        return found

    def _sources(self, ids: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
        sources = (ids >> _SOURCE).astype(np.intp)
        if sources.size and int(sources.max()) >= len(self._streams):
            raise ValueError(_not_of_a_batch(ids.flat[sources.argmax()]))
        return sources


def _not_of_a_batch(got: Any) -> str:
    return f"id: expected ids of this sampler's batches, got {got}"
