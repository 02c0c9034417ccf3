"""The columns of a trial's file as arrays of one actor, without a Python object per value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cogrs.dtypes import dtype_of
from cogrs.sdk.datalog_row import Packed, unpacked

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

COLUMNS = (
    "tick",
    "timestamp",
    "actor",
    "observation",
    "terminated",
    "action",
    "rewards",
    "stood_in",
)
"""Columns of a file that are read."""

Values = "npt.NDArray[Any] | list[Any]"
"""Observations or actions: one array of rows, or a list where they differ in dtype or shape."""


class Rewards(NamedTuple):
    """What an actor got: n rewards of m sources.

    Fields:
        tick: The tick that a reward is about, int64 (n,).
        value: The reward as it was delivered, float64 (n,).
        reward: Number of each source's reward, int64 (m,).
        sender: Names of senders, (m,).
        amount: The source's value, float64 (m,).
        confidence: Its weight, float64 (m,).
    """

    tick: npt.NDArray[np.int64]
    value: npt.NDArray[np.float64]
    reward: npt.NDArray[np.int64]
    sender: list[str]
    amount: npt.NDArray[np.float64]
    confidence: npt.NDArray[np.float64]


class ActorColumns(NamedTuple):
    """What an actor saw, did and got, up to the first observation that it did not answer.

    Fields:
        tick: Ticks of observations, int64 (S,).
        timestamp: Nanoseconds since the Unix epoch, int64 (S,).
        terminated: Whether the state is terminal, bool (S,).
        observations: S of them.
        actions: S, or S - 1 where the last observation has no answer.
        stood_in: Whether an action is a default one, bool (S,).
        rewards: All that the actor got, later ones too.
    """

    tick: npt.NDArray[np.int64]
    timestamp: npt.NDArray[np.int64]
    terminated: npt.NDArray[np.bool_]
    observations: Any
    actions: Any
    stood_in: npt.NDArray[np.bool_]
    rewards: Rewards


def columns_of(batches: Sequence[Any], actor: str) -> ActorColumns:
    """Return the columns of an actor, out of record batches of `cogrs.sdk`'s `read_columns`.

    Raises:
        ValueError: Sizes of a value disagree, or its dtype is not known here.
    """
    import pyarrow.compute as pc

    own = []
    for batch in batches:
        mine = pc.equal(_plain(batch.column("actor")), actor)
        own.append(batch if pc.all(mine).as_py() else batch.filter(mine))
    rewards = _joined_rewards([_rewards(batch.column("rewards")) for batch in own])
    seen = [_valid(batch, "observation") for batch in own]
    answered = np.concatenate([_has(batch, "action") for batch in seen])
    missing = np.flatnonzero(~answered)
    count = int(missing[0]) if len(missing) else len(answered)
    rows = min(count + 1, len(answered))

    def column(name: str, dtype: Any) -> Any:
        parts = [batch.column(name).to_numpy(zero_copy_only=False) for batch in seen]
        return np.concatenate(parts)[:rows].astype(dtype)

    return ActorColumns(
        column("tick", np.int64),
        column("timestamp", np.int64),
        column("terminated", np.bool_),
        _values([batch.column("observation") for batch in seen], rows),
        _values([batch.column("action") for batch in seen], count),
        # Files of before have no such column.
        column("stood_in", np.bool_)
        if "stood_in" in seen[0].schema.names
        else np.zeros(rows, np.bool_),
        rewards,
    )


def _has(batch: Any, name: str) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = batch.column(name).is_valid().to_numpy(zero_copy_only=False)
    return found


def _valid(batch: Any, name: str) -> Any:
    column = batch.column(name)
    return batch.filter(column.is_valid()) if column.null_count else batch


def _values(columns: Sequence[Any], count: int) -> Any:
    """Return the first `count` values of several columns."""
    parts, left = [], count
    for column in columns:
        if left > 0 and len(column):
            parts.append(_decoded(column.slice(0, left)))
            left -= len(column)
    if all(isinstance(each, np.ndarray) for each in parts):
        arrays = [each for each in parts if isinstance(each, np.ndarray)]
        if len({(each.dtype, each.shape[1:]) for each in arrays}) == 1:
            return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
    return [value for part in parts for value in part]


def _decoded(column: Any) -> Any:
    kind, shape, data = (_plain(each) for each in column.flatten())
    first, dims = kind[0].as_py(), shape[0].as_py()
    alike = len(kind.unique()) == 1 and first and ("." not in first or first.startswith("["))
    if alike and len(shape.flatten()) == len(dims) * len(shape):
        rows = shape.flatten().to_numpy().reshape(len(shape), len(dims))
        lengths = np.diff(_offsets(data))
        dtype = dtype_of(first, "kind")
        size = dtype.itemsize * int(np.prod(dims, dtype=object))
        if (rows == rows[:1]).all() and (lengths == size).all():
            begin = int(_offsets(data)[0])
            count = size * len(data)
            # A buffer without bytes is None.
            raw = np.frombuffer(data.buffers()[2] or b"", np.uint8, count, begin)
            return np.ndarray((len(data), *map(int, dims)), dtype, raw.tobytes())
    return [
        unpacked(Packed(each["kind"], tuple(each["shape"]), each["data"]), {})
        for each in column.to_pylist()
    ]


def _plain(array: Any) -> Any:
    return array.dictionary_decode() if hasattr(array, "dictionary") else array


def _offsets(data: Any) -> npt.NDArray[np.int32]:
    return np.frombuffer(data.buffers()[1], np.int32, len(data) + 1, 4 * data.offset)


def _rewards(column: Any) -> Rewards:
    tick, value, sources = column.flatten().flatten()
    counts = sources.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    sender, amount, confidence = sources.flatten().flatten()
    return Rewards(
        tick.to_numpy(zero_copy_only=False).astype(np.int64),
        value.to_numpy(zero_copy_only=False).astype(np.float64),
        np.repeat(np.arange(len(counts)), counts),
        _plain(sender).to_pylist(),
        amount.to_numpy(zero_copy_only=False).astype(np.float64),
        confidence.to_numpy(zero_copy_only=False).astype(np.float64),
    )


def _joined_rewards(parts: Sequence[Rewards]) -> Rewards:
    firsts = np.cumsum([0, *(len(part.tick) for part in parts[:-1])])
    return Rewards(
        np.concatenate([part.tick for part in parts]),
        np.concatenate([part.value for part in parts]),
        np.concatenate([part.reward + first for part, first in zip(parts, firsts, strict=True)]),
        [name for part in parts for name in part.sender],
        np.concatenate([part.amount for part in parts]),
        np.concatenate([part.confidence for part in parts]),
    )
