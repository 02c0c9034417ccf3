"""A sample of a data log as rows of a table, one for each actor, and back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from google.protobuf.message import DecodeError, Message

from cogrs.api.any import pack
from cogrs.api.common_pb2 import Message as TrialMessage
from cogrs.api.common_pb2 import RewardSource
from cogrs.api.payload_pb2 import Array
from cogrs.arrays import array_of
from cogrs.dtypes import dtype_of, dtype_text, portable
from cogrs.limits import LOG_SAMPLE_BYTES
from cogrs.optional_dependency import import_optional
from cogrs.sdk.codecs import ArrayCodec
from cogrs.sdk.datalog import Sample
from cogrs.sdk.trial import ENVIRONMENT, Observation, ReceivedMessage, ReceivedReward
from cogrs.shown import shown

if TYPE_CHECKING:
    import numpy.typing as npt

    from cogrs.sdk.datalog import LoggedTrial

Row = dict[str, Any]

_ITEM = 64
"""Bytes that are counted for a reward, a source or a message, beside its content."""

_DIMS = 32
"""Dimensions of an array at most, as in every NumPy."""

_PARTS = Array.DESCRIPTOR.full_name
_ARRAYS = ArrayCodec()


class Packed(NamedTuple):
    """An observation or an action in a table.

    Fields:
        kind: An array's dtype as `cogrs.dtypes.dtype_text` has it; the name of a protobuf message,
            of which `cogrs.payload.Array` stands for several arrays with names; "" for bytes.
        shape: An array's shape.
        data: An array's elements in C order, or the bytes.
    """

    kind: str
    shape: tuple[int, ...]
    data: bytes


def packed(value: Any) -> Packed:
    """Return a value as rows keep it.

    Raises:
        TypeError: It is not an array of a fixed size, bytes, a message, or arrays with names.
        ValueError: It is a ragged sequence.
    """
    if isinstance(value, bytes):
        return Packed("", (), value)
    if isinstance(value, Message):
        return Packed(value.DESCRIPTOR.full_name, (), value.SerializeToString())
    if isinstance(value, (Mapping, tuple)):
        from cogrs.sdk.space import carried

        return Packed(_PARTS, (), _ARRAYS.encode(carried(value)))
    array = portable(array_of("value", value))
    return Packed(dtype_text(array.dtype, "value"), array.shape, array.tobytes())


def unpacked(kept: Packed, classes: Mapping[str, type[Message]]) -> Any:
    """Return the value of a row; a message whose class is not given comes back as bytes.

    Raises:
        ValueError: Its sizes disagree, or its dtype is not known here.
    """
    kind, shape, data = kept
    if kind == _PARTS:
        return _ARRAYS.decode(data).value
    if kind in classes:
        return classes[kind].FromString(data)
    if not kind or ("." in kind and not kind.startswith("[")):
        return data
    if len(shape) > _DIMS or not all(isinstance(each, int) and each >= 0 for each in shape):
        raise ValueError(f"expected a shape of at most {_DIMS} dimensions, got {shown(shape)}")
    dtype = dtype_of(kind, "kind")
    if dtype.itemsize * math.prod(shape) != len(data):
        raise ValueError(f"expected {shown(kind)} {shown(shape)}, got {len(data)} bytes")
    return np.ndarray(shape, dtype, data)


def rows_of(trial: LoggedTrial, number: int, sample: Sample) -> Iterator[Row]:
    """Yield the rows of a sample: the actors', then the environment's if it got messages."""
    classes = {actor.name: actor.actor_class for actor in trial.actors}
    if ENVIRONMENT in sample.messages:
        classes[ENVIRONMENT] = ""
    for name, actor_class in classes.items():
        seen, action = sample.observations.get(name), sample.actions.get(name)
        yield {
            "trial_id": trial.id,
            "sample": number,
            "tick": sample.tick,
            "timestamp": None if seen is None else seen.timestamp,
            "actor": name,
            "actor_class": actor_class,
            "observation": None if seen is None else packed(seen.value),
            "terminated": seen is not None and seen.terminated,
            "truncated": seen is not None and seen.truncated,
            "action": None if action is None else packed(action),
            "rewards": [_reward(each) for each in sample.rewards.get(name, ())],
            "messages": [_message(each) for each in sample.messages.get(name, ())],
            "user_id": sample.user_id,
            "end_reason": sample.end_reason,
            "stood_in": name in sample.stood_in,
        }


def check_size(size: int) -> None:
    """Raise a ValueError for a sample that is larger than files of data logs may hold."""
    if size > LOG_SAMPLE_BYTES:
        raise ValueError(f"expected samples of at most {LOG_SAMPLE_BYTES} bytes")


def size_of(row: Row) -> int:
    """Return about how many bytes a row holds."""
    size = sum(len(each) for each in row.values() if isinstance(each, str))
    for name in ("observation", "action"):
        if row[name] is not None:
            size += len(row[name].data) + len(row[name].kind) + 8 * len(row[name].shape)
    for reward in row["rewards"]:
        size += _ITEM + sum(_ITEM + len(each["sender"]) for each in reward["sources"])
    for message in row["messages"]:
        size += _ITEM + len(message["sender"]) + len(message["type"]) + len(message["data"])
    return size


def spread_size(array: Any) -> int:
    """Return the bytes of an Arrow array once each row has its own copy of shared values."""
    pyarrow = import_optional("pyarrow", "Parquet files need pyarrow", "'cogrs[parquet]'")
    kind = array.type
    if pyarrow.types.is_struct(kind):
        return sum(map(spread_size, array.flatten()))
    if pyarrow.types.is_list(kind):
        items = _items(array)
        return _ITEM * len(items) + spread_size(items)
    if pyarrow.types.is_dictionary(kind):
        return _spread_dictionary(array)
    return int(array.nbytes)


def _items(array: Any) -> Any:
    """Return the items of all lists. `flatten` would import pyarrow.compute, as long as pyarrow."""
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return array.values.slice(first, last - first)


def _spread_dictionary(array: Any) -> int:
    # By NumPy on the buffers: pyarrow.compute takes as long to import as all of pyarrow, and
    # `to_numpy` imports pandas where it is installed.
    values, indices = array.dictionary, array.indices
    if not len(values):
        return 0
    ends = _window(values.buffers()[1], np.dtype(np.int32), values.offset, len(values) + 1)
    kind = np.dtype(str(indices.type))
    places = _window(indices.buffers()[1], kind, indices.offset, len(indices))
    if indices.null_count:
        bits = np.unpackbits(np.frombuffer(indices.buffers()[0], np.uint8), bitorder="little")
        places = places[bits[indices.offset :][: len(indices)].astype(bool)]
    return int(np.diff(ends)[places].sum(dtype=np.int64))


def _window(buffer: Any, kind: np.dtype[Any], offset: int, length: int) -> npt.NDArray[Any]:
    return np.frombuffer(buffer, kind)[offset:][:length]


def samples_of(rows: Iterable[Row], classes: Sequence[type[Message]]) -> Iterator[Sample]:
    """Yield the samples of these rows; a ValueError if they are not of samples, or too large."""
    by_name = {each.DESCRIPTOR.full_name: each for each in classes}
    for number, group in groupby(rows, key=lambda row: row["sample"]):
        mine, size = [], 0
        for row in group:
            size += size_of(row)
            check_size(size)
            mine.append(row)
        try:
            sample = _sample(mine, by_name)
        except (AttributeError, DecodeError, OverflowError, TypeError, ValueError) as error:
            # NumPy and protobuf raise these for values of other types.
            raise ValueError(f"sample {shown(number)}: {error}") from error
        yield sample


def _sample(rows: Sequence[Row], by_name: Mapping[str, type[Message]]) -> Sample:
    first = rows[0]
    return Sample(
        first["tick"],
        {
            row["actor"]: Observation(
                first["tick"],
                unpacked(row["observation"], by_name),
                row["terminated"],
                row["truncated"],
                timestamp=row["timestamp"],
            )
            for row in rows
            if row["observation"] is not None
        },
        {
            row["actor"]: unpacked(row["action"], by_name)
            for row in rows
            if row["action"] is not None
        },
        {row["actor"]: tuple(map(_read_reward, row["rewards"])) for row in rows},
        {row["actor"]: tuple(map(_read_message, row["messages"])) for row in rows},
        first["user_id"],
        first["end_reason"],
        frozenset(row["actor"] for row in rows if row["stood_in"]),
    )


_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("trial_id", "actor", "actor_class", "user_id", "end_reason"), (str,)),
    "sample": (int,),
    **dict.fromkeys(("terminated", "truncated", "stood_in"), (bool,)),
    **dict.fromkeys(("observation", "action"), (Packed, type(None))),
    **dict.fromkeys(("rewards", "messages"), (list,)),
    **dict.fromkeys(("tick", "timestamp"), (int, type(None))),
}
"""The types of a row's values, by their names."""

_ITEMS: dict[str, dict[str, tuple[type, ...]]] = {
    "rewards": {"tick": (int,), "value": (float, int), "sources": (list,)},
    "messages": {"sender": (str,), "tick": (int,), "type": (str,), "data": (bytes,)},
    "sources": {"sender": (str,), "value": (float, int), "confidence": (float, int)},
}


def checked_row(row: Row) -> Row:
    """Return a row after checking the types of its values; a ValueError if one is wrong."""
    _check_kinds("", row, _KINDS)
    for name in ("observation", "action"):
        if (kept := row[name]) is not None:
            kinds = {"kind": (str,), "shape": (list, tuple), "data": (bytes,)}
            _check_kinds(f"{name}.", kept._asdict(), kinds)
    for name in ("rewards", "messages"):
        for each in row[name]:
            _check_kinds(f"{name}.", each, _ITEMS[name])
    for reward in row["rewards"]:
        for source in reward["sources"]:
            _check_kinds("rewards.sources.", source, _ITEMS["sources"])
    return row


def _check_kinds(where: str, given: Any, kinds: Mapping[str, tuple[Any, ...]]) -> None:
    if not isinstance(given, dict):
        raise ValueError(f"{where}: expected an object, got {shown(given)}")
    for name, kind in kinds.items():
        value = given.get(name, ...)
        sound = isinstance(value, kind) and (bool in kind or not isinstance(value, bool))
        if not sound or (isinstance(value, int) and not -(2**63) <= value < 2**64):
            got = "nothing" if value is ... else shown(value)
            expected = " or ".join(each.__name__ for each in kind)
            raise ValueError(f"{where}{name}: expected {expected}, got {got}")


def _reward(reward: ReceivedReward) -> Row:
    sources = [
        {"sender": each.sender_name, "value": each.value, "confidence": each.confidence}
        for each in reward.sources
    ]
    return {"tick": reward.tick, "value": reward.value, "sources": sources}


def _read_reward(row: Row) -> ReceivedReward:
    sources = tuple(
        RewardSource(sender_name=each["sender"], value=each["value"], confidence=each["confidence"])
        for each in row["sources"]
    )
    return ReceivedReward(row["tick"], row["value"], sources)


def _message(message: ReceivedMessage) -> Row:
    payload = message.payload
    return {
        "sender": message.sender,
        "tick": message.tick,
        "type": payload.type_url,
        "data": payload.value,
    }


def _read_message(row: Row) -> ReceivedMessage:
    message = TrialMessage()
    message.payload.type_url, message.payload.value = row["type"], row["data"]
    return ReceivedMessage(row["sender"], pack(message.payload), row["tick"])
