"""What `add_entry` and `add_entries` take, turn down, and leave alone."""

import re
from typing import Any

import numpy as np
import pytest

from cogrs import ReplayMemory, importance_weights
from cogrs.replay.convert import convert
from tests.replay import build
from tests.replay.build import memory, step, steps
from tests.replay.golden import snapshot

NAMES = list(zip("sarpvi", ["state", "action", "reward", "prob", "value", "info"], strict=True))


def read_back(of: ReplayMemory, field: str) -> np.ndarray:
    """The field of the first step of the open episode, which is closed for it."""
    of.close_episode(1.0, False, False)
    return getattr(of.episode(-1).entries, field)[0]


def stored(template: Any, value: Any) -> np.ndarray:
    """What a state of this template reads after value was given for it."""
    rem = memory(s=template)
    rem.new_episode()
    rem.add_entry(**step(s=value))
    return read_back(rem, "s")


# -- by value, whatever the layout --


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(np.arange(24.0)[::2].reshape(3, 4), id="every second"),
        pytest.param(np.arange(12.0).reshape(4, 3).T, id="transposed"),
        pytest.param(np.arange(12.0).reshape(3, 4)[::-1, ::-1], id="reversed"),
        pytest.param(np.asfortranarray(np.arange(12.0).reshape(3, 4)), id="column major"),
        pytest.param(np.broadcast_to(np.arange(4.0), (3, 4)), id="stride zero"),
        pytest.param(np.arange(12, dtype=">f8").reshape(3, 4), id="other byte order"),
        pytest.param(np.arange(12, dtype=np.float16).reshape(3, 4), id="narrower"),
        pytest.param(np.arange(12).reshape(3, 4), id="integers"),
        pytest.param(np.arange(12).reshape(3, 4).tolist(), id="lists"),
        pytest.param(memoryview(np.arange(12.0).reshape(3, 4)), id="buffer"),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_layouts_are_stored_by_value(dtype: type, value: Any) -> None:
    got = stored(np.zeros((3, 4), dtype), value)
    np.testing.assert_array_equal(got, np.ascontiguousarray(value).astype(dtype))
    assert got.dtype == dtype


def test_read_only_array_is_taken() -> None:
    value = np.arange(3.0)
    value.flags.writeable = False
    np.testing.assert_array_equal(stored(np.zeros(3), value), value)


def test_unaligned_array_is_taken() -> None:
    raw = np.zeros(3 * 8 + 1, np.uint8)
    value = raw[1:].view(np.float64)
    value[:] = [1, 2, 3]
    np.testing.assert_array_equal(stored(np.zeros(3), value), [1, 2, 3])


def test_arrays_changed_afterwards_do_not_change_what_is_stored() -> None:
    rem = memory(s=np.zeros(3))
    value = np.ones(3)
    rem.new_episode()
    rem.add_entry(**step(s=value))
    value[:] = 7
    np.testing.assert_array_equal(read_back(rem, "s"), np.ones(3))


@pytest.mark.parametrize("whole", [False, True], ids=["add_entry", "add_entries"])
def test_arguments_are_not_changed(whole: bool) -> None:
    rem = memory(s=np.zeros(3, np.float32), a=np.zeros(2, np.int8), i=np.zeros(1, np.int64))
    shape = (4,) if whole else ()
    given = {
        "s": np.full((*shape, 3), 1.5, ">f8"),
        "a": np.full((*shape, 2), 3, np.int64)[..., ::-1],
        "r": np.full(shape, 2.5),
        "p": np.full(shape, 0.5),
        "v": np.full(shape, 1.5),
        "i": np.full((*shape, 1), 4, np.uint8),
        "init_w": np.full(shape, 2.0),
    }
    before = {name: (value.tobytes(), value.dtype) for name, value in given.items()}
    rem.new_episode()
    (rem.add_entries if whole else rem.add_entry)(**given)
    assert {name: (value.tobytes(), value.dtype) for name, value in given.items()} == before


def test_no_call_changes_an_array_that_it_was_given() -> None:
    arrays: list[tuple[np.ndarray, bytes]] = []

    def given(value: Any, dtype: Any = np.float32) -> np.ndarray:
        array = np.array(value, dtype)
        arrays.append((array, array.tobytes()))
        return array

    state, action, prob = given(1, np.int32), given([1, 1], np.int8), given(1)
    reward, value, qvest, info = given([1, 1]), given([1, 1]), given([1, 1]), given([1], np.int8)
    rem = ReplayMemory(state, action, reward, prob, value, qvest, info, 16, seed=0)
    rem.discount_factor, rem.reward_coeff = given([0.5, 0.5]), given([1, 2])
    rem.cache_flags = given([1] * 14, np.int64)
    columns = (
        given([7, 8, 9], np.int64)[::-1],
        given(np.full((3, 2), 2), np.int64),
        given(np.full((3, 2), 3), np.float64),
        given([1, 1, 1], ">f4"),
        given(np.full((3, 2), 4)),
        given(np.full((3, 1), 5), np.uint8).T.reshape(3, 1),
        given([3, 0, 1], np.float64),
    )
    end = {
        "bootstrap_value": given([4, 4], np.float64),
        "final_state": given(5, np.int8),
        "final_info": given([6], np.int16),
    }
    first = rem.add_episode(*columns, **end)
    rem.new_episode()
    rem.add_entry(*(column[0] for column in columns))
    rem.add_entries(*columns)
    rem.close_episode(**end)
    ids = given([first + 1, first, first + 9], np.uint64)[::-1]
    rem.update_priority(ids, given([3, 1, 2], np.float64)[::-1])
    rem.add_reward(first, given([1, 1]))
    weight = given(rem.sample(8).weight)
    importance_weights(weight, exponent=0.5, total=rem.weight_sum, count=rem.num_sampleable)
    assert [array.tobytes() for array, _ in arrays] == [before for _, before in arrays]


@pytest.mark.parametrize("number", [3, 3.0, True, np.int8(3), np.float64(3)])
def test_scalars_are_taken(number: Any) -> None:
    assert stored(np.float32(0), number) == np.float32(number)


@pytest.mark.parametrize("number", [0, 255])
def test_python_integers_fill_the_whole_range_of_unsigned_fields(number: int) -> None:
    assert stored(np.uint8(0), number) == number


def test_python_integer_above_int64_is_taken_by_uint64() -> None:
    assert stored(np.uint64(0), 2**64 - 1) == 2**64 - 1


def test_list_of_python_integers_is_taken_by_an_unsigned_field() -> None:
    assert stored(np.zeros(3, np.uint8), [1, 2, 255]).tolist() == [1, 2, 255]


def test_every_field_is_stored_where_it_belongs() -> None:
    rem = memory()
    rem.new_episode()
    rem.add_entry(1, 2, 3, 4, 5, 6, 7)
    rem.close_episode(1.0, False, False)
    entries = rem.episode(0).entries
    assert [column.tolist() for column in entries] == [[1], [2], [3], [4], [5], [0], [6]]


@pytest.mark.parametrize(
    "template",
    [
        np.zeros((), [("x", "f4"), ("y", "i2", (2,))]),
        np.zeros((2,), "U5"),
        np.zeros((), "S3"),
        np.zeros((), "M8[ms]"),
        np.zeros((), "m8[s]"),
        np.zeros((2,), np.complex64),
        np.zeros((), np.bool_),
        np.zeros((), np.float16),
        np.zeros((), np.longdouble),
        np.zeros((), "V6"),
    ],
    ids=lambda template: str(template.dtype),
)
def test_any_dtype_of_fixed_size_is_stored(template: np.ndarray) -> None:
    rng = np.random.default_rng(0)
    raw = rng.integers(33, 120, template.nbytes, np.uint8).tobytes()
    value = np.frombuffer(raw, template.dtype).reshape(template.shape)
    if template.dtype.char in "?gU":
        # Not every pattern of bytes is a bool, a long double or a character.
        value = np.ones_like(template)
    got = stored(template, value)
    assert got.dtype == template.dtype
    np.testing.assert_array_equal(got, value)


# -- what is turned down --


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


@pytest.mark.parametrize(("field", "name"), NAMES)
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
def test_bad_initial_weight_is_named_with_its_step_and_what_was_there_is_drawn(
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
def test_initial_weight_that_is_no_number_is_a_type_error(weight: Any) -> None:
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


# -- many steps at once --


def test_many_steps_are_those_one_by_one() -> None:
    together, one_by_one = memory(), memory()
    for rem in (together, one_by_one):
        rem.new_episode()
    given = steps(5, 3, init_w=np.arange(5.0))
    together.add_entries(**given)
    for t in range(5):
        one_by_one.add_entry(**{name: column[t] for name, column in given.items()})
    for rem in (together, one_by_one):
        rem.close_episode()
    assert build.described(together.episode(0)) == build.described(one_by_one.episode(0))


def test_one_weight_serves_for_all_steps() -> None:
    rem = memory()
    build.add_uniform(rem, 4, init_w=2.5)
    assert rem.episode(0).weight.tolist() == [2.5, 2.5, 2.5, 0]


def test_first_id_of_many_is_returned() -> None:
    rem = memory()
    rem.new_episode()
    first = rem.add_entries(**steps(5))
    after = rem.add_entry(**step(5))
    rem.close_episode()
    assert after == first + 5
    assert rem.episode(0).id.tolist() == list(range(first, first + 6))


def test_no_steps_are_stored_as_nothing() -> None:
    rem = memory()
    rem.new_episode()
    rem.add_entries(**steps(0))
    assert rem.num_entry == 0


@pytest.mark.parametrize(("field", "name"), [*NAMES[1:], ("init_w", "init_w")])
def test_leading_dimensions_that_differ_are_refused(field: str, name: str) -> None:
    rem = memory()
    rem.new_episode()
    with pytest.raises(ValueError, match=rf"\b({field}|{name})\b"):
        rem.add_entries(**steps(4, **{field: np.zeros(3, np.int8)}))
    assert rem.num_entry == 0


def test_bad_step_in_the_middle_stores_none_of_them() -> None:
    rem = memory()
    rem.new_episode()
    rem.add_entry(**step(1))
    rewards = np.zeros(4, np.float32)
    rewards[2] = np.nan
    with pytest.raises(ValueError, match=r"\b(r|reward)\b"):
        rem.add_entries(**steps(4, r=rewards))
    assert rem.num_entry == 1


def test_many_strided_steps_are_stored_by_value() -> None:
    rem = memory(s=np.zeros((2, 3), np.float32))
    states = np.arange(60.0).reshape(3, 2, 10)[:, :, ::-1].T[::2]
    rem.new_episode()
    rem.add_entries(**steps(5, s=states.transpose(0, 1, 2)))
    rem.close_episode(1.0, False, False)
    np.testing.assert_array_equal(rem.episode(0).entries.s, states)


def test_more_steps_than_fit_beside_the_open_episode_are_refused_whole() -> None:
    rem = memory(8)
    build.add_uniform(rem, 3)
    rem.new_episode()
    rem.add_entries(**steps(5))
    before = snapshot(rem)
    with pytest.raises(RuntimeError):
        rem.add_entries(**steps(4))
    assert snapshot(rem) == before


# -- whole episodes --


def test_whole_episode_is_one_written_step_by_step() -> None:
    whole, by_steps = memory(), memory()
    end = {"bootstrap_value": 2.0, "final_state": 9, "final_info": 8}
    whole.add_episode(**steps(5), episodic_weight_multiplier=2.0, **end)
    by_steps.new_episode()
    by_steps.add_entries(**steps(5))
    by_steps.close_episode(2.0, **end)
    assert build.described(whole.episode(0)) == build.described(by_steps.episode(0))


def test_whole_episode_leaves_the_open_one_open() -> None:
    rem = memory()
    rem.new_episode()
    rem.add_entry(**step(7))
    build.add_uniform(rem, 3)
    rem.add_entry(**step(8))
    rem.close_episode()
    assert build.contents(rem) == [[0, 1, 2], [7, 8]]


def test_whole_episode_of_no_steps_counts() -> None:
    rem = memory()
    rem.add_episode(**steps(0))
    assert (rem.num_episode(), rem.num_entry) == (1, 0)


REFUSED = [
    ({"r": np.full(6, 3e38, np.float32)}, ValueError, "finite"),
    ({"init_w": -1.0}, ValueError, "init_w"),
    ({"s": np.zeros((6, 2), np.int64)}, ValueError, "state"),
    ({"s": np.full(6, 0.5)}, TypeError, "state"),
    ({"bootstrap_value": np.nan}, ValueError, "bootstrap_value"),
    ({"final_state": np.zeros(3, np.int64)}, ValueError, "final_state"),
    ({"final_state": 0, "final_info": np.zeros(3, np.int64)}, ValueError, "final_info"),
    ({"episodic_weight_multiplier": -1.0}, ValueError, "episodic_weight_multiplier"),
    ({"do_update_value": False}, RuntimeError, "value"),
]


@pytest.mark.parametrize(
    ("changes", "error", "match"), REFUSED, ids=[", ".join(changes) for changes, *_ in REFUSED]
)
def test_refused_whole_episode_changes_nothing(
    changes: dict[str, Any], error: type[Exception], match: str
) -> None:
    rem = memory(8, max_episode=2)
    build.add_uniform(rem, 3)
    build.add_uniform(rem, 4)
    before = snapshot(rem)
    with pytest.raises(error, match=match):
        rem.add_episode(**steps(6, **changes))
    assert snapshot(rem) == before


def test_whole_episode_longer_than_the_memory_evicts_nothing() -> None:
    rem = memory(8)
    build.add_uniform(rem, 5)
    before = snapshot(rem)
    with pytest.raises(RuntimeError):
        build.add_uniform(rem, 9)
    with pytest.raises(RuntimeError):
        rem.add_episode(**steps(8), final_state=8)
    assert snapshot(rem) == before


def test_error_text_says_which_argument() -> None:
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


NUMBERS = [
    *(np.dtype(code).type(3) for code in "bhilqBHILQefdg?"),
    *(np.dtype(code).type(200) for code in "hiqBQ"),
    *(np.float64(value) for value in (0.1, -0.0, np.inf, np.nan, 1e300, 1e-300)),
    *(np.float32(value) for value in (0.1, np.inf, 3e38)),
    *(np.int64(value) for value in (-1, 2**24 + 1, -(2**63), 2**63 - 1)),
    np.uint64(2**64 - 1),
    *(3, -1, 2**40, 0.1, 1e300, True, np.array(3), np.array(3.5)),
]


@pytest.mark.parametrize("dtype", ["i1", "i4", "i8", "u1", "u4", "u8", "f4", "f8", "?"])
@pytest.mark.parametrize("value", NUMBERS, ids=lambda value: f"{type(value).__name__}-{value!r}")
def test_numbers_are_stored_as_numpy_would_convert_them(dtype: str, value: Any) -> None:
    template = np.dtype(dtype).type(0)
    try:
        expected = convert("state", value, np.dtype(dtype), ())
    except (TypeError, ValueError) as error:
        with pytest.raises(type(error), match="state"):
            stored(template, value)
        return
    assert stored(template, value).tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4"])
@pytest.mark.parametrize("value", [[0.1, -0.0, 3.5], [np.inf, -np.inf, np.nan], [0, 1e39, 0]])
@pytest.mark.parametrize("layout", [np.asarray, lambda a: np.repeat(a, 2)[::2]])
def test_arrays_of_float64_are_stored_as_numpy_would_convert_them(
    dtype: str, value: list[float], layout: Any
) -> None:
    given = layout(np.array(value))
    try:
        expected = convert("state", given, np.dtype(dtype), (3,))
    except (TypeError, ValueError) as error:
        with pytest.raises(type(error), match="state"):
            stored(np.zeros(3, dtype), given)
        return
    assert stored(np.zeros(3, dtype), given).tobytes() == expected.tobytes()


def test_masked_values_are_refused() -> None:
    """What lies under a mask is no value."""
    masked = np.ma.masked_array(np.arange(3.0), mask=[0, 1, 0])
    with pytest.raises(TypeError, match="state: expected values without a mask"):
        stored(np.zeros(3), masked)
    unmasked = np.ma.masked_array(np.arange(3.0))
    assert stored(np.zeros(3), unmasked).tolist() == [0, 1, 2]
