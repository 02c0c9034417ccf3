"""Gymnasium spaces as JSON: equal when they come back, and text of others."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from cogrs.space_json import (
    ActorSpaces,
    actor_spaces_from_json,
    actor_spaces_to_json,
    space_from_json,
    space_to_json,
)

LEAVES = [
    spaces.Box(-np.inf, np.inf, (3,)),
    spaces.Box(0, 255, (84, 84, 4), np.uint8),
    spaces.Box(np.array([-1, -2.5]), np.array([1, np.inf]), dtype=np.float64),
    spaces.Box(-0.1, 0.1, (), np.float16),
    spaces.Box(0, 1, (0, 3), np.float32),
    spaces.Box(0, 1, (2,), np.bool_),
    spaces.Discrete(3, start=-1),
    spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[1, 1], [0, -7]]),
    spaces.MultiDiscrete([2], np.int8),
    spaces.MultiBinary(4),
    spaces.MultiBinary((2, 3)),
    spaces.Text(5, min_length=0, charset="zab\u00df"),
]
SPACES = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.one_of(
        st.dictionaries(st.text(min_size=1) | st.integers(0, 9), inner, max_size=3).map(
            spaces.Dict
        ),
        st.lists(inner, max_size=3).map(spaces.Tuple),
        st.lists(inner, min_size=1, max_size=3).map(spaces.OneOf),
        st.builds(spaces.Sequence, inner, stack=st.booleans()),
    ),
    max_leaves=5,
)


def same(a: gymnasium.Space, b: gymnasium.Space) -> bool:
    """Compare more than spaces do: dtypes, the order of keys, and bounds to the bit."""
    if isinstance(a, spaces.Box):
        alike = a.low.tobytes() == b.low.tobytes() and a.high.tobytes() == b.high.tobytes()
        return alike and a.bounded_below.tolist() == b.bounded_below.tolist()
    if isinstance(a, spaces.Dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    return a.dtype == b.dtype


@pytest.mark.parametrize("number", range(len(LEAVES)))
def test_leaf_comes_back_equal(number):
    space = LEAVES[number]
    back = space_from_json(space_to_json(space))
    assert type(back) is type(space)
    assert back == space
    assert same(space, back)


@settings(max_examples=50)
@given(space=SPACES)
def test_space_of_parts_comes_back_equal(space):
    back = space_from_json(space_to_json(space))
    assert back == space
    assert same(space, back)


@pytest.mark.parametrize("edge", [None, spaces.Discrete(2)], ids=["bare", "edges"])
def test_graph_comes_back_equal(edge):
    space = spaces.Graph(spaces.Box(0, 1, (2,)), edge)
    assert space_from_json(space_to_json(space)) == space


def test_bounds_that_are_all_the_same_take_little_text():
    assert len(space_to_json(LEAVES[1])) < 300


def test_actors_with_the_same_spaces_share_their_text():
    pair = ActorSpaces(LEAVES[1], LEAVES[6])
    one = actor_spaces_to_json({"a": pair})
    many = {f"a{k}": pair for k in range(100)}
    text = actor_spaces_to_json(many)
    assert len(text) < len(one) + 2_500
    assert actor_spaces_from_json(text) == many
    assert actor_spaces_to_json({}) == ""
    assert actor_spaces_from_json("") == {}


class Own(spaces.Box):
    """A space of a user."""


def test_space_of_another_kind_is_refused_and_named():
    pair = ActorSpaces(LEAVES[0], spaces.Tuple([Own(0, 1)]))
    with pytest.raises(TypeError, match=r"space of 'a': expected one of Gymnasium's own.*got Own"):
        actor_spaces_to_json({"a": pair})
    with pytest.raises(TypeError, match="expected keys that are text or integers"):
        space_to_json(spaces.Dict({1.5: LEAVES[0]}))


HUGE = '{"kind": "Box", "low": {"dtype": "<f8", "shape": [99999, 99999], "data": "AAAAAAAAAAA="}}'


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"kind": "Evil"}',
        '{"kind": "Box"}',
        HUGE.replace("}}", '}, "high": 1}'),
        '{"kind": "Discrete", "n": -1, "start": 0, "dtype": "<i8"}',
        '{"kind": "Discrete", "n": 2, "start": 0, "dtype": "|O"}',
        '{"kind": "MultiBinary", "shape": [-1, 2]}',
        '{"kind": "Tuple", "parts": [' * 100 + "]}" * 100,
        "1" * 100_000,
    ],
    ids=["cut", "list", "kind", "bare", "huge", "n", "object", "shape", "deep", "digits"],
)
def test_text_of_others_is_refused_before_much_is_made(text):
    with pytest.raises(ValueError, match="expected spaces of actors as JSON"):
        space_from_json(text)
