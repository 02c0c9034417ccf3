"""Fields that hold a message of any type: `Message.payload` and `RewardSource.user_data`.

Methods of such a field take messages of every generated module::

    message.payload.Pack(mine)
    message.payload.Unpack(mine)

But the field's class is not `google.protobuf.any_pb2.Any`, since cogrs.api has a descriptor pool
of its own. So protobuf refuses to assign an `any_pb2.Any` to the field or to copy one to the other,
and the two are never equal. The functions here make such copies::

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
    """Return an `Any` that can be assigned to a field of cogrs.api.

    Args:
        message: A message of any generated module. An `Any` is copied, not packed again.

    Raises:
        TypeError: `message` is not a protobuf message.
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
    """Read an `Any` into `message`; return False if it has another type.

    Args:
        packed: An `Any` of cogrs.api or of `google.protobuf.any_pb2`.
        message: The message to overwrite. An `Any` becomes a copy of `packed`.
    """
    if _is_any(message):
        message.type_url = packed.type_url
        message.value = packed.value
        return True
    return packed.Unpack(message)
