"""Messages from values that JSON or YAML has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from google.protobuf import json_format

if TYPE_CHECKING:
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import Message

AnyMessage = TypeVar("AnyMessage", bound="Message")

_SHOWN = 500


def fill_message(
    message: AnyMessage, value: Any, descriptor_pool: DescriptorPool | None = None
) -> AnyMessage:
    """Set the fields of a message to what a mapping has, by protobuf's mapping of JSON.

    Raises:
        ValueError: A name or a value does not fit.
    """
    try:
        return json_format.ParseDict(value, message, descriptor_pool=descriptor_pool)
    except (
        json_format.ParseError,
        # What it lets through for values that JSON does not have, or that lie in wrong places.
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
