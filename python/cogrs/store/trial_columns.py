"""Samples as orchestrators log them, as the columns of a trial's file.

Rust takes samples apart and writes them as Parquet: a store takes in some hundred thousand samples
per second, which leaves no time for a Python object per value, nor for pyarrow's writer. The rows
are those that `cogrs.sdk.ParquetSink` would write of the same samples.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, NamedTuple

from google.protobuf.message import DecodeError

from cogrs._core import SampleColumns
from cogrs.api.payload_pb2 import Array
from cogrs.dtypes import dtype_of, holds_numbers
from cogrs.store.summary import TrialSummary, people_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cogrs.api.common_pb2 import TrialParams

_PARTS = Array.DESCRIPTOR.full_name
_DIMS = 32
_DTYPE_TAG = 0x0A
"""The first byte of an array message: of its field `dtype`."""


class _Parsed(NamedTuple):
    """An observation or an action as rows keep it.

    Fields:
        kind, shape: As of a row; "" for the bytes of a codec that the orchestrator does not know.
        terminated, truncated: The flags that came with it.
        head: The bytes before the data, if the data are all that follows; else b"".
        data: The elements, or all bytes.
    """

    kind: str
    shape: Sequence[int]
    terminated: bool
    truncated: bool
    head: bytes
    data: bytes


class TrialColumns:
    """The file of a trial, which grows with its samples."""

    def __init__(self, trial_id: str, params: TrialParams, max_rows: int, max_bytes: int) -> None:
        """Create one without samples, whose row groups end after so many rows or bytes."""
        self._trial_id = trial_id
        self._params = params
        people = people_of(params)
        actors = [(each.name, each.actor_class, people[each.name]) for each in params.actors]
        self._columns = SampleColumns(trial_id, actors, _parsed, max_rows, max_bytes)
        self.add = self._columns.add
        """Add serialized `DatalogSample`s; return the next bytes of the file."""

    def finish(self, metadata: Mapping[bytes, bytes]) -> bytes:
        """End the file, with its metadata; return its last bytes."""
        return self._columns.finish([*metadata.items()])

    def summary(self) -> TrialSummary:
        """Return what the index says of the samples so far."""
        made = TrialSummary(self._trial_id, self._params)
        ticks, returns, people, user, reason, first, last = self._columns.summary()
        made.ticks, made.people, made.user, made.end_reason = ticks, people, user, reason
        made.returns = dict(zip(made.returns, returns, strict=True))
        made.first_timestamp, made.last_timestamp = first, last
        return made


def _parsed(content: bytes) -> _Parsed:
    """Return a content as rows keep it: array messages as their numbers, all else as bytes."""
    try:
        message = Array.FromString(content)
    except DecodeError:
        return _as_bytes(content)
    kind = message.dtype
    if kind:
        shape, data = tuple(message.shape), message.data
        size = _item_size(kind)
        if size and len(shape) <= _DIMS and size * math.prod(shape) == len(data):
            head = content[: len(content) - len(data)]
            plain = data and head + data == content and head[0] == _DTYPE_TAG
            flags = message.terminated, message.truncated
            return _Parsed(kind, shape, *flags, head if plain else b"", data)
    elif message.entries and _is_sound(message):
        flags = message.terminated, message.truncated
        message.terminated = message.truncated = False
        return _Parsed(_PARTS, (), *flags, b"", message.SerializeToString())
    return _as_bytes(content)


def _as_bytes(content: bytes) -> _Parsed:
    return _Parsed("", (), False, False, b"", content)


def _is_sound(message: Array) -> bool:
    """Return whether all parts are arrays, as far as the names and sizes tell."""
    if message.entries:
        names = {entry.name for entry in message.entries}
        return len(names) == len(message.entries) and all(
            _is_sound(entry.array) for entry in message.entries
        )
    size = _item_size(message.dtype)
    return size > 0 and size * math.prod(message.shape) == len(message.data)


@functools.lru_cache(256)
def _item_size(dtype: str) -> int:
    """Return the bytes of an element; 0 for text that is not a dtype of numbers here."""
    try:
        return dtype_of(dtype).itemsize if holds_numbers(dtype) else 0
    except ValueError:
        return 0
