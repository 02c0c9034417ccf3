"""Decodes protobuf messages, after their fields were counted.

An empty message in a list takes 2 bytes, and 40 to 90 once decoded: without a bound, 16 MiB would
take most of a GB, and block the event loop for a third of a second.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from cogrs.limits import MOST_FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.protobuf.descriptor import Descriptor

SMALL = 2 * MOST_FIELDS
"""Bytes that cannot have more fields: the shortest field takes two."""

_SLICE = 4_096
"""Fields that are counted before the event loop gets a turn: about 2 ms."""

_LONGEST = 10
"""Bytes of the longest varint."""

_FIXED = (0, 8, 0, 0, 0, 4, 0, 0)
"""Bytes of values by the wire type of their tag; groups have no bytes of their own."""

_TEXT = (9, 12)
"""Types string and bytes, which are one field of any length."""


class TooManyFieldsError(ValueError):
    """A message has too many fields."""

    def __init__(self, name: str) -> None:
        """Name the field."""
        super().__init__(f"{name}: expected at most {MOST_FIELDS} fields in a message, got more")


class _Shape(NamedTuple):
    """The fields of a message type, by number."""

    names: dict[int, str]
    """Dotted, with the fields that lead there."""
    messages: dict[int, _Shape]
    packed: frozenset[int]
    """Lists of numbers, which share one tag."""


_shapes: dict[str, _Shape] = {}


def decode(kind: type[Any], content: bytes) -> Any:
    """Return a message of a type.

    Raises:
        TooManyFieldsError: The message has too many fields; the text names them.
        google.protobuf.message.DecodeError: `content` is not a message of that type.
    """
    if len(content) > SMALL:
        for _ in _count_fields(content, _shape(kind.DESCRIPTOR)):
            pass
    return kind.FromString(content)


async def decode_in_slices(kind: type[Any], content: bytes) -> Any:
    """Return what `decode` returns; the event loop gets turns while fields are counted."""
    if len(content) > SMALL:
        for _ in _count_fields(content, _shape(kind.DESCRIPTOR)):
            await asyncio.sleep(0)
    return kind.FromString(content)


def _shape(descriptor: Descriptor) -> _Shape:
    shape = _shapes.get(descriptor.full_name)
    if shape is None:
        shape = _shapes[descriptor.full_name] = _make_shape(descriptor, "", {})
    return shape


def _make_shape(descriptor: Descriptor, path: str, known: dict[str, _Shape]) -> _Shape:
    if descriptor.full_name in known:  # types can be recursive
        return known[descriptor.full_name]
    fields = list(descriptor.fields)
    numbers = [each for each in fields if each.message_type is None and each.type not in _TEXT]
    shape = _Shape(
        {field.number: f"{path}{field.name}" for field in fields},
        {},
        frozenset(field.number for field in numbers),
    )
    known[descriptor.full_name] = shape
    for field in fields:
        if field.message_type is not None:
            below = f"{path}{field.name}."
            shape.messages[field.number] = _make_shape(field.message_type, below, known)
    return shape


def _count_fields(content: bytes, shape: _Shape) -> Iterator[None]:
    """Yield after each slice; a TooManyFieldsError names a field of which there are too many.

    Broken messages are left to the decoder. One loop with few calls: some 0.4 us per field.
    """
    left = pause = MOST_FIELDS
    around = [(0, len(content), shape)]  # where to go on in the enclosing messages
    try:
        while around:
            at, end, shape = around.pop()
            names, messages, packed = shape
            while at < end:
                left -= 1
                tag, at = _read_varint(content, at)
                wire, number = tag & 7, tag >> 3
                if wire == 2:
                    size, at = _read_varint(content, at)
                    if size and number in messages:
                        around.append((at + size, end, shape))
                        end, shape = at + size, messages[number]
                        names, messages, packed = shape
                        continue
                    if number in packed:
                        left -= size
                    at += size
                elif wire:
                    at += _FIXED[wire]
                else:
                    _, at = _read_varint(content, at)
                if left < pause:
                    if left < 0:
                        raise TooManyFieldsError(names.get(number, f"unknown field {number}"))
                    yield
                    pause = max(left - _SLICE, 0)
    except IndexError:
        return


def _read_varint(content: bytes, at: int) -> tuple[int, int]:
    """Return a varint and its end; raise IndexError if it has no end."""
    value = content[at]
    if value < 128:
        return value, at + 1
    value = 0
    for index in range(_LONGEST):
        byte = content[at + index]
        value |= (byte & 127) << (7 * index)
        if byte < 128:
            return value, at + index + 1
    raise IndexError
