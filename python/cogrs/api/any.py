"""Fields that hold a message of any type: `Message.payload` and `RewardSource.user_data`.

Methods of such a field take messages of every generated module, as ever::

    message.payload.Pack(mine)
    message.payload.Unpack(mine)

But the field's class is not `google.protobuf.any_pb2.Any`: cogrs.api keeps its descriptors, that
of `Any` among them, apart from all others. protobuf thus refuses to assign a ready-made
`any_pb2.Any` to the field or to copy from one to the other, and calls the two unequal. The
functions here make such copies::

    message = common_pb2.Message(payload=pack(ready_made))
    unpack(message.payload, ready_made)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard, cast

from google.protobuf import message_factory
from google.protobuf.message import Message

from cogrs.api._pool import POOL

if TYPE_CHECKING:
    from google.protobuf.any_pb2 import Any

_Any = cast(
    "type[Any]",
    message_factory.GetMessageClass(POOL.FindMessageTypeByName("google.protobuf.Any")),
)


def _is_any(message: Message) -> TypeGuard[Any]:
    return bool(message.DESCRIPTOR.full_name == "google.protobuf.Any")


def pack(message: Message) -> Any:
    """Returns what can be assigned to a field of cogrs.api that holds any message.

    Args:
        message: A message of any generated module. An `Any` is copied, not packed once more.

    Raises:
        TypeError: It is none.
    """
    if not isinstance(message, Message):
        raise TypeError(f"message: expected a protobuf message, got {type(message).__name__}")
    packed = _Any()
    if _is_any(message):
        packed.type_url = message.type_url
        packed.value = message.value
    else:
        packed.Pack(message)
    return packed


def unpack(packed: Any, message: Message) -> bool:
    """Reads an `Any` into `message` and returns True, or returns False if it has another type.

    Args:
        packed: An `Any` of cogrs.api or of `google.protobuf.any_pb2`.
        message: What is overwritten. An `Any` becomes a copy of `packed`, whatever that holds.
    """
    if _is_any(message):
        message.type_url = packed.type_url
        message.value = packed.value
        return True
    return packed.Unpack(message)
