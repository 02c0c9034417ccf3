"""Protobuf messages from values of JSON or YAML."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import Message

AnyMessage = TypeVar("AnyMessage", bound="Message")

_SHOWN = 500


def fill_message(
    message: AnyMessage, value: Any, descriptor_pool: DescriptorPool | None = None
) -> AnyMessage:
    """Set the fields of a message from a mapping, by protobuf's JSON format.

    Raises:
        ValueError: A name is unknown, or a value has the wrong type.
    """
    from google.protobuf import json_format

    try:
        return json_format.ParseDict(value, message, descriptor_pool=descriptor_pool)
    except (
        json_format.ParseError,
        # It raises these for values that JSON does not have, or in wrong places.
        *(
            AttributeError,
            IndexError,
            KeyError,
            OverflowError,
            RecursionError,
            TypeError,
            ValueError,
        ),
    ) as error:
        text = str(error)
        raise ValueError(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...") from error
