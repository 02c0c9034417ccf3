"""What observations and actions contain, as bytes: arrays, or messages of the user's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from google.protobuf.message import DecodeError

from cogrs.api import payload_pb2 as pb

if TYPE_CHECKING:
    import numpy.typing as npt
    from google.protobuf.message import Message

_KINDS = "biufc"


class Decoded(NamedTuple):
    """A content and what came with it.

    Fields:
        value: What was encoded.
        terminated: It is of a terminal state.
        truncated: The episode was cut short here.
    """

    value: Any
    terminated: bool = False
    truncated: bool = False


class Codec(Protocol):
    """Turns what the user works with into the bytes that trials carry, and back."""

    def encode(self, value: Any, *, terminated: bool = False, truncated: bool = False) -> bytes:
        """Return the bytes of a value.

        Raises:
            TypeError: A value that this codec does not carry.
        """
        ...

    def decode(self, content: bytes) -> Decoded:
        """Return the value of some bytes.

        Raises:
            ValueError: They are none of this codec's.
        """
        ...


class ArrayCodec:
    """Arrays of numbers and booleans: `cogrs.payload.Array` in protos/cogrs/api/payload.proto."""

    def encode(
        self, value: npt.ArrayLike, *, terminated: bool = False, truncated: bool = False
    ) -> bytes:
        """Return the bytes of an array; anything is taken that NumPy makes one of.

        Raises:
            TypeError: Not numbers or booleans.
        """
        array = np.asarray(value)
        if array.dtype.kind not in _KINDS:
            raise TypeError(f"value: expected numbers or booleans, got {array.dtype}")
        return pb.Array(
            dtype=array.dtype.str,
            shape=array.shape,
            data=array.tobytes(),
            terminated=terminated,
            truncated=truncated,
        ).SerializeToString()

    def decode(self, content: bytes) -> Decoded:
        """Return a read-only array, with nothing copied.

        Raises:
            ValueError: No array, or one whose sizes disagree.
        """
        try:
            message = pb.Array.FromString(content)
            dtype = np.dtype(message.dtype)
        except (DecodeError, TypeError) as error:
            raise ValueError(f"content: expected an array message, got {error}") from None
        if dtype.kind not in _KINDS or dtype.str != message.dtype:
            raise ValueError(f"content: expected numbers or booleans, got {message.dtype!r}")
        expected = dtype.itemsize
        for length in message.shape:
            expected *= length
        if expected != len(message.data):
            raise ValueError(
                f"content: expected {expected} bytes for {dtype} {tuple(message.shape)}, "
                f"got {len(message.data)}"
            )
        array = np.frombuffer(message.data, dtype).reshape(tuple(message.shape))
        return Decoded(array, message.terminated, message.truncated)


class MessageCodec:
    """Messages of one protobuf class of the user's."""

    def __init__(self, message_class: type[Message]) -> None:
        """Carry messages of this class."""
        self._class = message_class

    def encode(self, value: Message, *, terminated: bool = False, truncated: bool = False) -> bytes:
        """Return the bytes of a message; it says itself whether an episode ends with it.

        Raises:
            TypeError: A value of another class.
        """
        if not isinstance(value, self._class):
            expected = self._class.DESCRIPTOR.full_name
            raise TypeError(f"value: expected {expected}, got {type(value).__name__}")
        return value.SerializeToString()

    def decode(self, content: bytes) -> Decoded:
        """Return a message.

        Raises:
            ValueError: The bytes are no message of this class.
        """
        try:
            return Decoded(self._class.FromString(content))
        except DecodeError as error:
            expected = self._class.DESCRIPTOR.full_name
            raise ValueError(f"content: expected {expected}, got {error}") from None


class BytesCodec:
    """Bytes as they are."""

    def encode(self, value: bytes, *, terminated: bool = False, truncated: bool = False) -> bytes:
        """Return the same bytes.

        Raises:
            TypeError: No bytes.
        """
        if not isinstance(value, bytes):
            raise TypeError(f"value: expected bytes, got {type(value).__name__}")
        return value

    def decode(self, content: bytes) -> Decoded:
        """Return the same bytes."""
        return Decoded(content)
