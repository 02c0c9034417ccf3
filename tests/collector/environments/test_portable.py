"""Values on their way to another process and back."""

from __future__ import annotations

import enum
from collections import OrderedDict, deque, namedtuple
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

gymnasium = pytest.importorskip("gymnasium")
from gymnasium import spaces  # noqa: E402

from cogrs.collector.environments.portable import (  # noqa: E402
    from_bytes,
    space_is_portable,
    to_bytes,
)

DTYPES = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="?"),
    hnp.floating_dtypes(endianness="?"),
    hnp.complex_number_dtypes(),
    hnp.unicode_string_dtypes(),
    hnp.byte_string_dtypes(),
    hnp.datetime64_dtypes(),
)
ARRAYS = DTYPES.flatmap(lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, min_side=0)))
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.complex_numbers(),
    st.text(),
    st.binary(),
    ARRAYS,
    DTYPES.flatmap(lambda dtype: hnp.arrays(dtype, 1)).map(lambda array: array[0]),
)
NUMBERS = DTYPES.flatmap(lambda dtype: hnp.arrays(dtype, st.integers(0, 3)).map(list))
"""NumPy's own numbers, several of the same type."""
HASHABLE = st.one_of(st.none(), st.booleans(), st.integers(), st.text(), st.binary())
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner),
        st.lists(inner).map(tuple),
        st.dictionaries(st.text(), inner),
        st.dictionaries(HASHABLE, inner),
        NUMBERS,
        NUMBERS.map(tuple),
        st.lists(ARRAYS.map(lambda array: array[..., None][..., 0])).map(tuple),
        st.sets(HASHABLE),
        st.frozensets(HASHABLE),
        st.lists(inner, max_size=3).map(lambda items: deque(items, 4)),
        st.dictionaries(st.text(), inner).map(OrderedDict),
        st.lists(inner, min_size=1).map(lambda items: _objects(items)),
    ),
    max_leaves=12,
)


def _objects(items: list[Any]) -> Any:
    array = np.empty(len(items), object)
    for at, item in enumerate(items):
        array[at] = item
    return array


def assert_same(ours: Any, theirs: Any) -> None:
    assert type(ours) is type(theirs)
    if isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        assert_same(list(ours.values()), list(theirs.values()))
    elif isinstance(theirs, list | tuple | deque):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert_same(one, other)
    elif isinstance(theirs, np.ndarray | np.generic):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        if theirs.dtype == object:
            assert_same(list(ours.flat), list(theirs.flat))
        else:
            assert ours.tobytes() == theirs.tobytes()
    elif isinstance(theirs, float | complex):
        assert repr(ours) == repr(theirs)
    else:
        assert ours == theirs


@settings(max_examples=60, deadline=None)
@given(VALUES)
def test_value_comes_back_equal_and_of_the_same_type(value: Any) -> None:
    assert_same(from_bytes(to_bytes(value)), value)


def test_arrays_that_come_back_can_be_written_to() -> None:
    for array in from_bytes(to_bytes([np.zeros(3), np.zeros(3)])):
        array += 1
        assert array.tolist() == [1, 1, 1]


def test_generator_comes_back_with_its_state() -> None:
    for bits in (np.random.PCG64(3), np.random.MT19937(3), np.random.Philox(3), np.random.SFC64(3)):
        generator = np.random.Generator(bits)
        generator.random(7)
        again = from_bytes(to_bytes(generator))
        assert again.random(5).tolist() == generator.random(5).tolist()


SPACES: list[Any] = [
    spaces.Box(-1, np.array([1.0, np.inf, 3.0], np.float32)),
    spaces.Box(0, 255, (2, 3), np.uint8),
    spaces.Discrete(3, start=-2),
    spaces.MultiBinary(3),
    spaces.MultiBinary((2, 3)),
    spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[1, 2], [3, 4]]),
    spaces.Dict(OrderedDict([("z", spaces.Discrete(2)), ("a", spaces.Box(0, 1, ()))])),
    spaces.Tuple([spaces.Dict(x=spaces.Tuple([])), spaces.Discrete(2)]),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_space_of_arrays_comes_back_equal(space: Any) -> None:
    again = from_bytes(to_bytes(space))
    assert again == space
    assert str(again) == str(space)
    assert again.dtype == space.dtype
    assert space_is_portable(space)


def test_specification_comes_back_equal() -> None:
    spec = gymnasium.make("CartPole-v1", max_episode_steps=7).spec
    assert from_bytes(to_bytes((spec,))) == (spec,)


class Colour(enum.IntEnum):
    RED = 1


@pytest.mark.parametrize(
    "value",
    [
        object(),
        lambda: 3,
        Colour.RED,
        namedtuple("Pair", "a b")(1, 2),
        {"x": [object()]},
        np.zeros(2, "i4,f8"),
        np.array([object()]),
        spaces.Text(3),
        spaces.Tuple([spaces.Sequence(spaces.Discrete(2))]),
        range(3),
    ],
    ids=lambda value: type(value).__name__,
)
def test_value_of_another_type_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="expected "):
        to_bytes(value)
