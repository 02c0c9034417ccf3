"""Codecs: what goes in comes out, and what is not theirs is refused by name."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from cogrs.api import payload_pb2 as pb
from cogrs.api.any import pack
from cogrs.api.common_pb2 import ActorParams, RewardSource, TrialActor
from cogrs.sdk import (
    Actor,
    ArrayCodec,
    BytesCodec,
    Codecs,
    MessageCodec,
    array_message,
    read_array_message,
)
from cogrs.sdk.codecs import CodecRegistry
from tests.sdk.array_values import ARRAYS, NAMED, assert_same


@given(ARRAYS, st.booleans(), st.booleans(), st.booleans())
def test_arrays_come_back_bit_for_bit(
    array: Any, transposed: bool, terminated: bool, truncated: bool
) -> None:
    array = array.T if transposed else array
    codec = ArrayCodec()
    content = codec.encode(array, terminated=terminated, truncated=truncated)
    value, *flags = codec.decode(content)
    assert value.dtype == array.dtype
    assert value.shape == array.shape
    assert value.tobytes() == array.tobytes()
    assert not value.flags.writeable
    assert flags == [terminated, truncated]


@pytest.mark.parametrize("value", [3, 2.5, True, [1, 2], np.float32(1), 1j])
def test_value_that_numpy_converts_is_encoded(value: Any) -> None:
    back = ArrayCodec().decode(ArrayCodec().encode(value)).value
    assert back.dtype == np.asarray(value).dtype
    np.testing.assert_array_equal(back, value)


@pytest.mark.parametrize("value", [None, "text", b"bytes", [[1], [1, 2]], [object()]])
def test_value_that_is_not_an_array_of_numbers_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match=f"expected .*, got {type(value).__name__}"):
        ArrayCodec().encode(value)


@pytest.mark.parametrize(
    "dtype", ["", "O", "|O", "|O8", "V8", "<U4", "<M8[s]", "a", "f4,f4", "(2,)f4", "<f5", "f4", "?"]
)
def test_foreign_dtypes_are_refused(dtype: str) -> None:
    content = pb.Array(dtype=dtype, shape=[1], data=bytes(8)).SerializeToString()
    with pytest.raises(ValueError, match="expected"):
        ArrayCodec().decode(content)


@pytest.mark.parametrize(
    ("shape", "data"), [([2], 4), ([], 8), ([2**63, 2], 0), ([0, 2**64 - 1], 0), ([1] * 100, 4)]
)
def test_sizes_that_disagree_are_refused(shape: list[int], data: int) -> None:
    content = pb.Array(dtype="<f4", shape=shape, data=bytes(data)).SerializeToString()
    with pytest.raises(ValueError, match="expected <f4"):
        ArrayCodec().decode(content)


@given(st.binary(max_size=60))
def test_any_bytes_are_an_array_or_a_value_error(content: bytes) -> None:
    try:
        value = ArrayCodec().decode(content).value
    except ValueError:
        return
    assert value.dtype.kind in "biufc"


def test_messages_come_back() -> None:
    codec = MessageCodec(ActorParams)
    message = ActorParams(name="a", implementation="i")
    assert codec.decode(codec.encode(message)).value == message
    assert codec.decode(b"").value == ActorParams()


def test_messages_of_another_class_are_refused() -> None:
    codec = MessageCodec(ActorParams)
    with pytest.raises(TypeError, match=r"expected cogment\.ActorParams, got TrialActor"):
        codec.encode(TrialActor())
    with pytest.raises(ValueError, match=r"expected cogment\.ActorParams"):
        codec.decode(b"\xff")


def test_bytes_codec_keeps_bytes_unchanged() -> None:
    codec = BytesCodec()
    assert codec.decode(codec.encode(b"\0x")).value == b"\0x"
    with pytest.raises(TypeError, match="expected bytes, got str"):
        codec.encode("text")  # type: ignore[arg-type]


def test_each_class_of_actors_may_have_its_own_codecs() -> None:
    one, two = Codecs(BytesCodec(), ArrayCodec()), Codecs(ArrayCodec(), BytesCodec())
    book = CodecRegistry({"one": one, "two": two})
    assert book.of(Actor("a", "two")) is two
    assert book.of(Actor("b", "one")) is one
    with pytest.raises(
        ValueError, match=r"'a': expected a class with codecs, of 'one', 'two'; got 'x'"
    ):
        book.of(Actor("a", "x"))
    assert CodecRegistry(one).of(Actor("a", "x")) is one
    single = BytesCodec()
    assert CodecRegistry(single).of(Actor("a", "x")) == Codecs(single, single)


@given(NAMED)
def test_arrays_with_names_come_back(value: Any) -> None:
    assert_same(ArrayCodec().decode(ArrayCodec().encode(value)).value, value)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({}, "expected names for arrays, got an empty mapping"),
        ({1: 2}, "expected names for arrays, got 1"),
        ({"a": {"b": "text"}}, "a: b: expected numbers or booleans, got str"),
    ],
)
def test_mapping_without_names_or_arrays_is_refused(value: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        ArrayCodec().encode(value)


def test_names_that_come_twice_are_refused() -> None:
    entry = pb.Array.Entry(name="a", array=array_message([1]))
    content = pb.Array(entries=[entry, entry]).SerializeToString()
    with pytest.raises(ValueError, match="expected different names, got 'a' twice"):
        ArrayCodec().decode(content)


def test_arrays_travel_as_messages() -> None:
    sent = pack(array_message({"frame": np.arange(6, dtype=np.uint8).reshape(2, 3)}))
    assert read_array_message(sent)["frame"].tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(ValueError, match=r"expected an array message, got cogment\.RewardSource"):
        read_array_message(pack(RewardSource()))
