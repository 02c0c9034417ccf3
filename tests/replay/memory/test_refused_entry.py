"""Entries that `add_entry` and `add_entries` refuse, and store nothing of."""

import re
from typing import Any

import numpy as np
import pytest

from cogrs import ReplayMemory
from tests.replay import build
from tests.replay.build import memory, step, steps
from tests.replay.golden import snapshot


def refused(of: ReplayMemory, error: type[Exception], match: str, **changes: Any) -> None:
    """Both ways to add turn this down, and nothing is stored."""
    for add, given in (
        (of.add_entry, step(**changes)),
        (of.add_entries, {**steps(1), **{name: _row(value) for name, value in changes.items()}}),
    ):
        of.new_episode()
        before = snapshot(of)
        with pytest.raises(error, match=match):
            add(**given)
        assert snapshot(of) == before


def _row(value: Any) -> Any:
    return value[np.newaxis] if isinstance(value, np.ndarray) else [value]


@pytest.mark.parametrize(
    ("template", "value"),
    [
        pytest.param(np.int64(0), 0.5, id="float into int"),
        pytest.param(np.zeros(2, np.int64), [0.5, 1.5], id="list of floats into int"),
        pytest.param(np.int32(0), np.float32(1), id="float32 into int"),
        pytest.param(np.uint8(0), np.array(1, np.int64), id="signed array into unsigned"),
        pytest.param(np.float32(0), 1j, id="complex into float"),
        pytest.param(np.bool_(False), np.int64(1), id="int into bool"),
        pytest.param(np.float32(0), "1", id="text into float"),
        pytest.param(np.float32(0), None, id="None into float"),
        pytest.param(np.float32(0), object(), id="object into float"),
        pytest.param(np.int64(0), np.datetime64("2020-01-01"), id="time into int"),
        pytest.param(np.zeros((), "M8[s]"), 1.5, id="float into time"),
        pytest.param(np.zeros(2, np.int64), np.array([1, 2], object), id="objects into int"),
        pytest.param(np.zeros(2, "U2"), np.array([1, 2], object), id="objects into text"),
    ],
)
def test_kinds_that_do_not_convert_are_type_errors(template: Any, value: Any) -> None:
    refused(memory(s=template), TypeError, r"\b(s|state)\b", s=value)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (np.uint8, 256),
        (np.uint8, -1),
        (np.int8, 128),
        (np.int64, 2**63),
        (np.uint64, 2**64),
        (np.int64, 10**30),
        pytest.param(np.int64, 10**5000, id="thousands of digits"),
        (np.float32, 10**40),
        pytest.param(np.float64, 10**400, id="beyond float64"),
        (np.int8, np.array(300, np.int64)),
        (np.int32, np.array(-(2**40), np.int64)),
        (np.int64, np.array(2**63, np.uint64)),
    ],
)
def test_integers_out_of_range_are_value_errors(dtype: type, value: Any) -> None:
    refused(memory(s=dtype(0)), ValueError, r"\b(s|state)\b", s=value)


def test_one_integer_out_of_range_among_many_is_a_value_error() -> None:
    refused(memory(s=np.zeros(3, np.uint8)), ValueError, r"\b(s|state)\b", s=[1, 2, 300])


@pytest.mark.parametrize(
    ("shape", "given"),
    [
        ((3, 4), (1, 3, 4)),
        ((3, 4), (4, 3)),
        ((3, 4), (12,)),
        ((3, 4), (1, 4)),
        ((3, 4), (4,)),
        ((3,), (1,)),
        ((3,), (2,)),
        ((3,), ()),
        ((), (1,)),
        ((), (1, 1)),
        ((0,), (1,)),
    ],
)
def test_shapes_are_never_broadcast(shape: tuple[int, ...], given: tuple[int, ...]) -> None:
    refused(memory(s=np.zeros(shape)), ValueError, r"\b(s|state)\b", s=np.zeros(given))


@pytest.mark.parametrize(("field", "name"), build.NAMES)
def test_wrong_shape_is_named_with_expected_and_given(field: str, name: str) -> None:
    rem = memory()
    rem.new_episode()
    with pytest.raises(ValueError, match=rf"\b({field}|{name})\b.*\(\).*\(7, 5\)"):
        rem.add_entry(**step(**{field: np.zeros((7, 5), np.int8)}))


def test_leading_dimension_of_one_is_refused_with_shapes_and_dtypes() -> None:
    rem = memory(s=np.zeros((3, 4), np.float32))
    rem.new_episode()
    expected = re.escape("state: expected float32 (3, 4), got uint8 (1, 3, 4)")
    with pytest.raises(ValueError, match=expected):
        rem.add_entry(**step(s=np.zeros((1, 3, 4), np.uint8)))
    assert rem.num_entry == 0


def test_wrong_shape_of_many_steps_is_named_with_expected_and_given() -> None:
    rem = memory(s=np.zeros((3, 4)))
    rem.new_episode()
    with pytest.raises(ValueError, match=r"\b(s|state)\b.*3, 4\).*\(2, 4, 3\)"):
        rem.add_entries(**steps(2, s=np.zeros((2, 4, 3))))


def test_ragged_list_is_a_value_error() -> None:
    refused(memory(s=np.zeros((2, 2))), ValueError, r"\w", s=[[1, 2], [3]])


@pytest.mark.parametrize("weight", [np.nan, np.inf, -np.inf, -1.0, -1e-9])
def test_bad_initial_weight_is_named(weight: float) -> None:
    refused(memory(), ValueError, "init_w", init_w=weight)


@pytest.mark.parametrize("weight", [np.nan, np.inf, -1.0])
def test_bad_initial_weight_is_named_with_its_step_and_stored_entries_stay_drawable(
    weight: float,
) -> None:
    rem = memory(seed=0)
    build.add_uniform(rem, 4)
    rem.new_episode()
    rem.add_entries(**steps(2, 10))
    with pytest.raises(ValueError, match=r"^init_w: expected .*, got .* at step 2$"):
        rem.add_entry(**step(12, init_w=weight))
    assert rem.weight_sum == 3
    assert set(rem.get_batch(100).prev.i.tolist()) == {0, 1, 2}


@pytest.mark.parametrize("weight", ["1", None, 1j])
def test_initial_weight_of_another_type_is_a_type_error(weight: Any) -> None:
    refused(memory(), TypeError, r"\w", init_w=weight)


@pytest.mark.parametrize("reward", [np.nan, np.inf, -np.inf, 1e300])
def test_reward_that_is_not_finite_is_named(reward: float) -> None:
    refused(memory(), ValueError, r"\b(r|reward)\b", r=reward)


def test_one_dimension_of_a_reward_that_is_not_finite_is_enough() -> None:
    rem = build.vector_memory(2)
    zero = np.zeros(2)
    refused(rem, ValueError, r"\b(r|reward)\b", r=np.array([0, np.nan]), v=zero)


def test_step_of_a_bad_weight_among_many_is_named() -> None:
    rem = memory()
    rem.new_episode()
    with pytest.raises(ValueError, match=r"init_w.*\b5\b"):
        rem.add_entries(**steps(7, init_w=[1, 1, 1, 1, 1, -1, 1]))


def test_refused_step_leaves_earlier_steps_and_episodes() -> None:
    rem = memory()
    build.add_uniform(rem, 4)
    rem.new_episode()
    rem.add_entry(**step(7))
    with pytest.raises(ValueError, match="init_w"):
        rem.add_entry(**step(8, init_w=np.nan))
    rem.add_entry(**step(9))
    rem.close_episode(1.0, False, False)
    assert build.contents(rem) == [[0, 1, 2, 3], [7, 9]]


def test_missing_argument_is_a_type_error() -> None:
    rem = memory()
    rem.new_episode()
    with pytest.raises(TypeError):
        rem.add_entry(1, 2, 3)


def test_error_text_names_the_argument() -> None:
    rem = memory(i=np.zeros(3))
    rem.new_episode()
    with pytest.raises(ValueError, match="info") as caught:
        rem.add_entry(**step(i=np.zeros(2)))
    assert not re.search(r"\bstate\b", str(caught.value))


class Resizing:
    """A number whose conversion takes the memory of another argument away."""

    def __init__(self, victim: np.ndarray):
        self.victim = victim

    def __float__(self) -> float:
        self.victim.resize((0,), refcheck=False)
        return 1.0


def test_argument_resized_by_another_is_refused_and_the_memory_goes_on():
    rem = memory(s=np.zeros(2, np.float32))
    rem.new_episode()
    victim = np.zeros(2, np.float32)
    with pytest.raises(ValueError, match="state: expected 8 bytes"):
        rem.add_entry(victim, 0, 0, 0, 0, 0, Resizing(victim))
    rem.add_entry(np.zeros(2, np.float32), 0, 0, 0, 0, 0, 1.0)
    assert rem.num_entry == 1


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ([("x", "i1")], np.zeros((), [("x", "i8")])),
        ([("a", "f4"), ("b", "f4")], np.zeros((), [("b", "f4"), ("a", "f4")])),
        ("V4", np.zeros((), "V6")),
    ],
    ids=["narrower", "renamed", "cut"],
)
def test_other_record_is_a_type_error(dtype, value):
    rem = memory(i=np.zeros((), dtype))
    rem.new_episode()
    with pytest.raises(TypeError, match="info"):
        rem.add_entry(0, 0, 0, 0, 0, value, 1.0)


def test_date_beyond_its_unit_is_a_value_error():
    rem = memory(i=np.zeros((), "M8[ns]"))
    rem.new_episode()
    with pytest.raises(ValueError, match="info"):
        rem.add_entry(0, 0, 0, 0, 0, np.datetime64("9999-01-01"), 1.0)
    rem.add_entry(0, 0, 0, 0, 0, np.datetime64("NaT", "D"), 1.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("discount_factor", 10**400),
        ("discount_factor", [10**400]),
        ("reward_coeff", 10**400),
        ("priority_exponent", 10**400),
    ],
)
def test_number_beyond_float64_is_a_value_error(name, value):
    with pytest.raises(ValueError, match=name):
        setattr(memory(), name, value)
