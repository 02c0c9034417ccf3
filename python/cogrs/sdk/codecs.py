"""Codecs: observations and actions as bytes, by array messages or the user's own messages.

Codecs run on the event loop. Their errors need not say whose value it is: `encoded` and `decoded`
add that.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from google.protobuf.message import DecodeError

from cogrs.api import payload_pb2 as pb
from cogrs.api.any import unpack
from cogrs.arrays import array_of
from cogrs.dtypes import dtype_of, dtype_text, holds_numbers, kind_of, portable
from cogrs.shown import shown

if TYPE_CHECKING:
    import numpy.typing as npt
    from google.protobuf.message import Message

    from cogrs.sdk.trial import Actor

_DIMS = 64
"""Dimensions of an array at most, as in NumPy 2."""

_NAME = 100
"""Characters of a part's name in a message."""


class Decoded(NamedTuple):
    """A decoded value, with the flags that came with it.

    Fields:
        value: The value that was encoded.
        terminated: Whether the state is terminal.
        truncated: Whether the episode was truncated here.
    """

    value: Any
    terminated: bool = False
    truncated: bool = False


class Codec(Protocol):
    """Converts the user's values to the bytes that trials carry, and back."""

    def encode(self, value: Any, *, terminated: bool = False, truncated: bool = False) -> bytes:
        """Return the bytes of a value.

        Raises:
            TypeError: This codec does not carry the value.
        """
        ...

    def decode(self, content: bytes) -> Decoded:
        """Return the value of some bytes.

        Raises:
            ValueError: The bytes were not made by this codec.
        """
        ...


class Codecs(NamedTuple):
    """The codecs of an actor.

    Fields:
        observation: The codec of its observations.
        action: The codec of its actions.
    """

    observation: Codec
    action: Codec


class ArrayCodec:
    """Arrays of numbers and booleans: `cogrs.payload.Array` in protos/cogrs/api/payload.proto.

    A value of several parts is a mapping from names to arrays, or to such mappings.
    """

    def encode(
        self,
        value: npt.ArrayLike | Mapping[str, Any],
        *,
        terminated: bool = False,
        truncated: bool = False,
    ) -> bytes:
        """Return the bytes of an array.

        Args:
            value: An array or array-like of booleans, integers, floats or complex numbers, of any
                size and byte order, bfloat16 and the like of ml_dtypes too, of any shape. Or a
                mapping from names to such values, with at least one entry.
            terminated: Whether the state is terminal.
            truncated: Whether the episode was truncated here.

        Raises:
            TypeError: Not numbers or booleans, rows of different lengths, or an empty mapping.
        """
        message = _message(value)
        message.terminated, message.truncated = terminated, truncated
        return message.SerializeToString()

    def decode(self, content: bytes) -> Decoded:
        """Return a read-only array of the dtype and shape that was encoded, or a dict of them.

        Raises:
            ValueError: Not an array message; sizes disagree; or the dtype is bfloat16 or the like
                and ml_dtypes is not installed.
        """
        try:
            message = pb.Array.FromString(content)
        except DecodeError as error:
            raise ValueError(f"expected an array message, got {error}") from None
        if not content:
            raise ValueError("expected an array message, got no bytes")
        return Decoded(_value(message), message.terminated, message.truncated)


def _message(value: Any) -> pb.Array:
    if isinstance(value, Mapping):
        return _named(value)
    array = _array(value)
    return pb.Array(dtype=_text_of(array.dtype), shape=array.shape, data=array.tobytes())


def _named(values: Mapping[str, Any]) -> pb.Array:
    if not values or not all(isinstance(name, str) for name in values):
        got = ", ".join(map(repr, values)) or "an empty mapping"
        raise TypeError(f"expected names for arrays, got {got}")
    entries = []
    for name, value in values.items():
        try:
            entries.append(pb.Array.Entry(name=name, array=_message(value)))
        except TypeError as error:
            raise TypeError(f"{name}: {error}") from error
    return pb.Array(entries=entries)


def _value(message: pb.Array) -> Any:
    if not message.entries:
        return _decoded_array(message)
    values = {}
    for entry in message.entries:
        if entry.name in values:
            raise ValueError(f"expected different names, got {shown(entry.name)} twice")
        try:
            values[entry.name] = _value(entry.array)
        except ValueError as error:
            raise ValueError(f"{entry.name[:_NAME]}: {error}") from None
    return values


def _decoded_array(message: pb.Array) -> npt.NDArray[Any]:
    dtype = _dtype(message.dtype)
    if len(message.shape) > _DIMS:
        expected = f"expected {message.dtype} of at most {_DIMS} dimensions"
        raise ValueError(f"{expected}, got {len(message.shape)}")
    shape, data = tuple(message.shape), message.data
    try:
        # The buffer may be longer than NumPy asks for, but not than the shape says.
        if dtype.itemsize * math.prod(shape) != len(data):
            raise ValueError(f"{len(data)} bytes")
        return np.ndarray(shape, dtype, data)
    except (TypeError, ValueError) as error:
        raise ValueError(f"expected {message.dtype} {shape}, got {error}") from None


@functools.lru_cache(256)
def _dtype(text: str) -> np.dtype[Any]:
    if not holds_numbers(text):
        raise ValueError(f"expected numbers or booleans, got dtype {shown(text)}")
    return dtype_of(text)


_text_of = functools.lru_cache(256)(dtype_text)


def array_message(value: npt.ArrayLike | Mapping[str, Any]) -> pb.Array:
    """Return the array message of a value of `ArrayCodec`, as a payload of a `Message`.

    Raises:
        TypeError: As `ArrayCodec.encode`.
    """
    return _message(value)


def read_array_message(payload: Any) -> Any:
    """Return the array, or the dict of arrays, in the payload of a `ReceivedMessage`.

    Raises:
        ValueError: The payload is not an array message.
    """
    message = pb.Array()
    if not unpack(payload, message):
        kind = payload.type_url.rpartition("/")[2][:_NAME] or "nothing"
        raise ValueError(f"payload: expected an array message, got {kind}")
    return _value(message)


def _array(value: npt.ArrayLike) -> npt.NDArray[Any]:
    try:
        array = portable(array_of("", value))
    except TypeError as error:
        raise TypeError(str(error).removeprefix(": ")) from error
    except (OverflowError, ValueError) as error:
        raise TypeError(f"expected an array, got {type(value).__name__}: {error}") from None
    if kind_of(array.dtype) not in "biufc":
        got = f"{type(value).__name__} of dtype {array.dtype}"
        raise TypeError(f"expected numbers or booleans, got {got}")
    return array


class MessageCodec:
    """Messages of one protobuf class of the user's."""

    def __init__(self, message_class: type[Message]) -> None:
        """Carry messages of this class, of any generated module."""
        self._class = message_class

    def encode(self, value: Message, *, terminated: bool = False, truncated: bool = False) -> bytes:
        """Return the bytes of a message; the flags are left to the message itself.

        Raises:
            TypeError: The value is of another class.
        """
        if not isinstance(value, self._class):
            expected = self._class.DESCRIPTOR.full_name
            raise TypeError(f"expected {expected}, got {type(value).__name__}")
        return value.SerializeToString()

    def decode(self, content: bytes) -> Decoded:
        """Return a message.

        Raises:
            ValueError: The bytes are not a message of this class.
        """
        try:
            return Decoded(self._class.FromString(content))
        except DecodeError as error:
            expected = self._class.DESCRIPTOR.full_name
            raise ValueError(f"expected {expected}, got {error}") from None


class BytesCodec:
    """Bytes as they are."""

    def encode(self, value: bytes, *, terminated: bool = False, truncated: bool = False) -> bytes:
        """Return the same bytes; raise a TypeError for other types."""
        if not isinstance(value, bytes):
            raise TypeError(f"expected bytes, got {type(value).__name__}")
        return value

    def decode(self, content: bytes) -> Decoded:
        """Return the same bytes."""
        return Decoded(content)


AnyCodec: TypeAlias = Codec | Codecs | Mapping[str, Codecs]
"""One codec for everything; a pair; or a pair for each class of actors."""


class CodecRegistry:
    """The codecs of each class of actors."""

    def __init__(self, codec: AnyCodec | None) -> None:
        """Take the `codec` of `serve`: one, a pair, or pairs by class; a TypeError for others."""
        self._by_class = dict(codec) if isinstance(codec, Mapping) else None
        if codec is None or isinstance(codec, Mapping):
            codec = ArrayCodec()
        self._default = codec if isinstance(codec, Codecs) else Codecs(codec, codec)
        for name, pair in (self._by_class or {}).items():
            if not isinstance(pair, Codecs):
                kind = type(pair).__name__
                raise TypeError(f"codec[{name!r}]: expected Codecs, got {kind}")
        for pair in (self._default, *(self._by_class or {}).values()):
            _check_codec(pair.observation)
            _check_codec(pair.action)

    def of(self, actor: Actor) -> Codecs:
        """Return the codecs of an actor; a ValueError if its class has no codecs."""
        if self._by_class is None:
            return self._default
        if actor.actor_class not in self._by_class:
            known = ", ".join(map(repr, self._by_class)) or "no class"
            raise ValueError(
                f"actor {actor.name!r}: expected a class with codecs, of {known}; "
                f"got {actor.actor_class!r}"
            )
        return self._by_class[actor.actor_class]


def _check_codec(codec: Any) -> None:
    if isinstance(codec, type):
        raise TypeError(f"codec: expected an object, got the class {codec.__name__}")
    if not all(callable(getattr(codec, name, None)) for name in ("encode", "decode")):
        kind = type(codec).__name__
        raise TypeError(f"codec: expected an object with encode and decode, got {kind}")


def encoded(codec: Codec, value: Any, what: str, **flags: bool) -> bytes:
    """Return the bytes of a value; a TypeError begins with `what`."""
    try:
        return codec.encode(value, **flags)
    except TypeError as error:
        raise TypeError(f"{what}: {error}") from error


def decoded(codec: Codec, content: bytes, what: str) -> Decoded:
    """Return the value of some bytes; a ValueError begins with `what`."""
    try:
        return codec.decode(content)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from error
