"""A sample of a data log as rows of a table, one for each actor, and back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from google.protobuf.message import Message

from cogrs.api.any import pack
from cogrs.api.common_pb2 import Message as TrialMessage
from cogrs.api.common_pb2 import RewardSource
from cogrs.api.payload_pb2 import Array
from cogrs.casting import array_of
from cogrs.dtypes import dtype_of, dtype_text, portable
from cogrs.sdk.datalog import Sample
from cogrs.sdk.payload import ArrayCodec
from cogrs.sdk.trial import ENVIRONMENT, Observation, ReceivedMessage, ReceivedReward

if TYPE_CHECKING:
    from cogrs.sdk.datalog import LoggedTrial

Row = dict[str, Any]

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
    """Return a value as it is kept.

    Raises:
        TypeError: It is no array of a fixed size, nor bytes, a message, or arrays with names.
        ValueError: A ragged sequence.
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
    """Return a value that was kept; a message of a class that is not given, as bytes.

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
    dtype = dtype_of(kind, "kind")
    if dtype.itemsize * math.prod(shape) != len(data):
        raise ValueError(f"expected {kind} {tuple(shape)}, got {len(data)} bytes")
    return np.ndarray(shape, dtype, data)


def rows_of(trial: LoggedTrial, number: int, sample: Sample) -> Iterator[Row]:
    """Yield the rows of a sample: the actors', then the environment's, if it was told anything."""
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
        }


def samples_of(rows: Iterable[Row], classes: Sequence[type[Message]]) -> Iterator[Sample]:
    """Yield the samples of which these are the rows."""
    by_name = {each.DESCRIPTOR.full_name: each for each in classes}
    for _, group in groupby(rows, key=lambda row: row["sample"]):
        mine = list(group)
        first = mine[0]
        yield Sample(
            first["tick"],
            {
                row["actor"]: Observation(
                    first["tick"],
                    unpacked(row["observation"], by_name),
                    row["terminated"],
                    row["truncated"],
                    timestamp=row["timestamp"],
                )
                for row in mine
                if row["observation"] is not None
            },
            {
                row["actor"]: unpacked(row["action"], by_name)
                for row in mine
                if row["action"] is not None
            },
            {row["actor"]: tuple(map(_read_reward, row["rewards"])) for row in mine},
            {row["actor"]: tuple(map(_read_message, row["messages"])) for row in mine},
            first["user_id"],
            first["end_reason"],
        )


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
