"""Samples as orchestrators log them, as the columns of a trial's file.

This takes the place of one Python object per value: a store takes in some hundred thousand samples
per second. The rows are those that `cogrs.sdk.ParquetSink` would write of the same samples.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from google.protobuf.message import DecodeError

from cogrs.api.payload_pb2 import Array
from cogrs.dtypes import dtype_of, holds_numbers
from cogrs.log_schema import log_schema
from cogrs.store.summary import ENVIRONMENT, TrialSummary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cogrs.api.common_pb2 import Message, Reward, TrialParams
    from cogrs.api.datalog_pb2 import DatalogSample

_PARTS = Array.DESCRIPTOR.full_name
_DIMS = 32
_DTYPE_TAG = 0x0A
"""The first byte of an array message: of its field `dtype`."""


class _Form(NamedTuple):
    """What the observations, or actions, of a trial have in common.

    Fields:
        kind, shape: As of a row.
        terminated, truncated: The flags that came with it.
        head: The bytes before the data, if the data are all that follows; else b"".
    """

    kind: str
    shape: Sequence[int]
    terminated: bool = False
    truncated: bool = False
    head: bytes = b""


_BYTES = _Form("", ())
_NO_PAYLOAD = (None, b"")


class _PayloadParser:
    """Array messages of a trial mostly differ in their data only: then these are cut out."""

    def __init__(self) -> None:
        self._forms: dict[int, _Form] = {}

    def parse(self, content: bytes) -> tuple[_Form, bytes]:
        """Return the form and data of an observation or an action as rows keep it.

        Array messages become their numbers; all else are the bytes of a codec that the orchestrator
        does not know.
        """
        form = self._forms.get(len(content))
        # The head ends with the length of the data, so equal heads leave nothing to parse.
        if form is not None and content.startswith(form.head):
            return form, content[len(form.head) :]
        form, data = _parsed(content)
        if form.head:
            self._forms[len(content)] = form
        return form, data


class TrialColumns:
    """The columns of a trial, which grow with its samples."""

    def __init__(self, trial_id: str, params: TrialParams) -> None:
        """Create one without samples."""
        self._trial_id = trial_id
        self._actors = [(actor.name, actor.actor_class) for actor in params.actors]
        self.summary = TrialSummary(trial_id, params)
        """What the index says of the samples so far."""
        self._samples = 0
        self._parser = _PayloadParser()
        self._begin()

    def _begin(self) -> None:
        self._rows: list[tuple[Any, ...]] = []
        self.size = 0
        """About how many bytes the rows since the last table have."""

    @property
    def rows(self) -> int:
        """Rows since the last table."""
        return len(self._rows)

    def add(self, sample: DatalogSample) -> None:
        """Add a sample: a row for each actor, and one for the environment if it got messages."""
        tick, timestamp, size = None, None, 0
        seen: list[tuple[_Form | None, bytes]] = []
        parse, rows = self._parser.parse, self._rows
        places: Sequence[int] = ()
        if sample.HasField("observations"):
            told = sample.observations
            tick, timestamp, places = told.tick_id, told.timestamp, told.actors_map
            for each in told.observations:
                content = each.content
                seen.append(parse(content))
                size += len(content)
        user, reason, number = sample.user_id, sample.end_reason, self._samples
        self._samples += 1
        self.summary.add_sample(tick, timestamp or 0, user, reason)
        rewards, messages = self._received(sample)
        actions, stood_in = sample.actions, frozenset(sample.stood_in)
        answers, known = len(actions), min(len(places), len(self._actors))
        for place, (name, actor_class) in enumerate(self._actors):
            content = actions[place].content if place < answers else b""
            action = parse(content) if content else _NO_PAYLOAD
            mine = rewards.get(name, ()), messages.get(name, ())
            head = number, tick, timestamp, name, actor_class
            tail = action, *mine, user, reason, place in stood_in
            if place < known:
                rows.append((*head, seen[places[place]], *tail))
            else:
                head = number, tick, None, name, actor_class
                rows.append((*head, _NO_PAYLOAD, *tail))
            size += len(content)
        if ENVIRONMENT in messages:
            received = messages[ENVIRONMENT]
            head = number, tick, None, ENVIRONMENT, ""
            rows.append((*head, _NO_PAYLOAD, _NO_PAYLOAD, (), received, user, reason, False))
        self.size += size

    def _received(
        self, sample: DatalogSample
    ) -> tuple[dict[str, list[Reward]], dict[str, list[Message]]]:
        rewards: dict[str, list[Reward]] = {}
        for reward in sample.rewards:
            name = reward.receiver_name
            if name in rewards:
                rewards[name].append(reward)
            else:
                rewards[name] = [reward]
            self.summary.add_reward(
                name, reward.value, [source.sender_name for source in reward.sources]
            )
        messages: dict[str, list[Message]] = {}
        for message in sample.messages:
            messages.setdefault(message.receiver_name, []).append(message)
            self.size += len(message.payload.value)
        return rewards, messages

    def take(self) -> Any:
        """Return the rows since the last table as one, and begin the next."""
        import pyarrow as pa

        schema, rows = log_schema(), self._rows
        integer, unsigned, flag, text = pa.int64(), pa.uint64(), pa.bool_(), pa.string()
        split = list(zip(*rows, strict=True)) if rows else [()] * 12
        number, tick, timestamp, actor, actor_class, *rest = split
        observation, action, rewards, messages, user, reason, stood_in = rest
        columns = {
            "trial_id": pa.repeat(pa.scalar(self._trial_id), len(rows)),
            "sample": pa.array(number, integer),
            "tick": pa.array(tick, integer),
            "timestamp": pa.array(timestamp, unsigned),
            "actor": pa.array(actor, text),
            "actor_class": pa.array(actor_class, text),
            "observation": _structs(observation, schema.field("observation").type),
            "terminated": pa.array(
                [bool(form and form.terminated) for form, _ in observation], flag
            ),
            "truncated": pa.array([bool(form and form.truncated) for form, _ in observation], flag),
            "action": _structs(action, schema.field("action").type),
            "rewards": _reward_lists(rewards, schema.field("rewards").type),
            "messages": _message_lists(messages, schema.field("messages").type),
            "user_id": pa.array(user, text),
            "end_reason": pa.array(reason, text),
            "stood_in": pa.array(stood_in, flag),
        }
        self._begin()
        return pa.Table.from_arrays(list(columns.values()), schema=schema)


def _parsed(content: bytes) -> tuple[_Form, bytes]:
    try:
        message = Array.FromString(content)
    except DecodeError:
        return _BYTES, content
    kind = message.dtype
    if kind:
        shape, data = tuple(message.shape), message.data
        size = _item_size(kind)
        if size and len(shape) <= _DIMS and size * math.prod(shape) == len(data):
            head = content[: len(content) - len(data)]
            plain = data and head + data == content and head[0] == _DTYPE_TAG
            flags = message.terminated, message.truncated
            return _Form(kind, shape, *flags, head if plain else b""), data
    elif message.entries and _is_sound(message):
        flags = message.terminated, message.truncated
        message.terminated = message.truncated = False
        return _Form(_PARTS, (), *flags), message.SerializeToString()
    return _BYTES, content


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


def _structs(payloads: Sequence[tuple[_Form | None, bytes]], kind: Any) -> Any:
    import pyarrow as pa

    forms = [form for form, _ in payloads]
    missing = None
    if None in forms:
        missing = pa.array([form is None for form in forms], pa.bool_())
    kept = [_BYTES if form is None else form for form in forms]
    shapes = _lists([form.shape for form in kept], lambda flat: pa.array(flat, pa.uint64()))
    parts = [
        pa.array([form.kind for form in kept], pa.string()),
        shapes,
        pa.array([data for _, data in payloads], pa.binary()),
    ]
    return pa.StructArray.from_arrays(parts, fields=list(kind), mask=missing)


def _lists(lists: Sequence[Sequence[Any]], values: Any, kind: Any = None) -> Any:
    """Return lists, of whose items in a row `values` makes an array."""
    import pyarrow as pa

    offsets, at = [0], 0
    flat: list[Any] = []
    for each in lists:
        if each:
            at += len(each)
            flat += each
        offsets.append(at)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values(flat), type=kind)


def _reward_lists(rewards: Sequence[Sequence[Reward]], kind: Any) -> Any:
    import pyarrow as pa

    def sources(flat: list[Any]) -> Any:
        parts = [
            pa.array([each.sender_name for each in flat], pa.string()),
            pa.array([each.value for each in flat], pa.float32()),
            pa.array([each.confidence for each in flat], pa.float32()),
        ]
        fields = list(kind.value_type.field("sources").type.value_type)
        return pa.StructArray.from_arrays(parts, fields=fields)

    def structs(flat: list[Any]) -> Any:
        parts = [
            pa.array([each.tick_id for each in flat], pa.int64()),
            pa.array([each.value for each in flat], pa.float32()),
            _lists([each.sources for each in flat], sources, kind.value_type.field("sources").type),
        ]
        return pa.StructArray.from_arrays(parts, fields=list(kind.value_type))

    return _lists(rewards, structs, kind)


def _message_lists(messages: Sequence[Sequence[Message]], kind: Any) -> Any:
    import pyarrow as pa

    def structs(flat: list[Any]) -> Any:
        parts = [
            pa.array([each.sender_name for each in flat], pa.string()),
            pa.array([each.tick_id for each in flat], pa.int64()),
            pa.array([each.payload.type_url for each in flat], pa.string()),
            pa.array([each.payload.value for each in flat], pa.binary()),
        ]
        return pa.StructArray.from_arrays(parts, fields=list(kind.value_type))

    return _lists(messages, structs, kind)
