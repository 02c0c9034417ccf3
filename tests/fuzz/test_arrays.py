"""Texts of dtypes and messages of arrays with any content are refused or decoded."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import example, given

from cogrs.api import payload_pb2, replay_pb2
from cogrs.dtypes import dtype_of
from cogrs.replay.wire import memory_like
from cogrs.sdk import ArrayCodec
from tests.fuzz.harness import prolonged
from tests.fuzz.strategies import DTYPES, bounded, bytes_like

PARTS = [
    *DTYPES,
    *"[](),'\"{}01",
    "-1",
    "('a','<f4')",
    "[('b','|V0')]",
    "(2,3)",
    "b'x'",
    "\0",
    "9" * 50,
]


@prolonged
@given(st.lists(st.sampled_from(PARTS), max_size=12).map("".join))
@example("[{}]")
def test_dtype_of_any_text_is_refused_or_made(text: str) -> None:
    for each in (text, f"[{text}]"):
        bounded(lambda: dtype_of(each), ValueError)  # noqa: B023


@prolonged
@given(bytes_like(ArrayCodec().encode({"a": np.arange(6).reshape(2, 3), "b": {"c": 1.5}})))
def test_array_message_of_any_bytes_is_refused_or_decoded(content: bytes) -> None:
    bounded(lambda: ArrayCodec().decode(content), ValueError)


def test_shape_of_a_million_dimensions_is_refused_at_once() -> None:
    shape = [2**63] * 1_000_000
    with pytest.raises(ValueError, match="dimensions, got 1000000"):
        ArrayCodec().decode(payload_pb2.Array(dtype="<f4", shape=shape).SerializeToString())
    plain = replay_pb2.Template(dtype="<f4")
    odd = replay_pb2.Template(dtype="<f4", shape=shape)
    with pytest.raises(RuntimeError, match="at most 30 dimensions"):
        memory_like(replay_pb2.Sizes(templates=[odd, *[plain] * 6]), 4, 1, 1)


def test_errors_about_large_payloads_are_short() -> None:
    text = "x" * 1_000_000
    entry = payload_pb2.Array.Entry(name=text, array=payload_pb2.Array(dtype=text))
    for array in (
        payload_pb2.Array(dtype=text),
        payload_pb2.Array(entries=[entry]),
        payload_pb2.Array(entries=[payload_pb2.Array.Entry(name=text, array=_EMPTY)] * 2),
    ):
        with pytest.raises(ValueError, match="expected") as caught:
            ArrayCodec().decode(array.SerializeToString())
        assert len(str(caught.value)) < 1000


_EMPTY = payload_pb2.Array(dtype="<f4", shape=[0])
