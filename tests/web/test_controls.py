"""Controls: names and keys of actions, and values that pages send."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from cogrs.web import Controls, game_of
from cogrs.web.keys import key_code, read_keys

SPACES = [
    spaces.Discrete(4),
    spaces.Discrete(3, start=5),
    spaces.MultiDiscrete([2, 3]),
    spaces.MultiBinary(3),
    spaces.Box(-2, 2, (3,), np.float32),
    spaces.Box(0, 255, (2, 2), np.uint8),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_every_action_of_a_space_can_be_sent(space):
    controls = Controls(space)
    for _ in range(20):
        action = space.sample()
        parsed = controls.parse(np.asarray(action).ravel().tolist() if space.shape else int(action))
        assert space.contains(parsed)
        np.testing.assert_array_equal(parsed, action)
    assert space.contains(controls.default)


@given(
    st.sampled_from(SPACES),
    st.none()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.lists(st.integers() | st.floats(), max_size=5),
)
def test_value_is_in_the_space_or_refused_in_words(space, value):
    controls = Controls(space)
    refusal = ""
    try:
        parsed = controls.parse(value)
    except ValueError as error:
        refusal = str(error)
    assert refusal.startswith("action: expected one of ") or space.contains(parsed)


def test_names_and_keys_of_known_environments_are_described():
    described = game_of(lambda: gymnasium.make("CartPole-v1"), "CartPole").describe()
    left, right = described["controls"]["actions"]
    assert (left["name"], right["name"]) == ("left", "right")
    assert ["ArrowLeft"] in left["keys"]
    assert ["KeyD"] in right["keys"]
    assert described["controls"]["default"] == 0


def test_keys_of_the_environment_give_the_default_action():
    controls = Controls(spaces.Discrete(3), keys={(): 2, ("w", "d"): 1, ord(" "): 0})
    actions = controls.describe()["actions"]
    assert controls.default == 2
    assert [each["keys"] for each in actions] == [[["Space"]], [["KeyD", "KeyW"]], []]


@pytest.mark.parametrize(
    ("key", "code"),
    [("a", "KeyA"), ("7", "Digit7"), (" ", "Space"), (1073741904, "ArrowLeft"), ("up", "ArrowUp")],
)
def test_key_has_the_code_of_browsers(key, code):
    assert key_code(key) == code
    assert read_keys({(key,): 1}) == {(code,): 1}


def test_unknown_keys_and_spaces_are_refused():
    with pytest.raises(ValueError, match="keys_to_action: expected a key, got 'é'"):
        Controls(spaces.Discrete(2), keys={("é",): 1})
    with pytest.raises(ValueError, match="action_space: expected a Discrete"):
        Controls(spaces.Dict({"a": spaces.Discrete(2)}))
    with pytest.raises(ValueError, match="at most 1024 actions"):
        Controls(spaces.Discrete(2000))
