"""`add_entry` stores all kinds of values, by value."""

from typing import Any

import numpy as np
import pytest

from cogrs import ReplayMemory, importance_weights
from cogrs.replay.convert import convert, native
from tests.replay.build import memory, step


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


def test_changing_arguments_afterwards_does_not_change_stored_entries() -> None:
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


def test_calls_leave_array_arguments_unchanged() -> None:
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


def test_python_integer_above_uint64_is_taken_by_float64() -> None:
    assert stored(np.float64(0), 2**70) == 2.0**70
    assert stored(np.zeros(2), [2**70, -1]).tolist() == [2.0**70, -1.0]


@pytest.mark.parametrize("dtype", ["u1", "i8", "f4", "U3", "M8[s]", [("x", "i4")]])
@pytest.mark.parametrize("value", [[], ()])
def test_empty_lists_take_any_dtype(dtype: Any, value: Any) -> None:
    assert stored(np.zeros(0, dtype), value).shape == (0,)


def test_no_entries_are_taken_as_empty_lists() -> None:
    of = memory()
    of.new_episode()
    of.add_entries([], [], [], [], [], [], [])
    assert of.num_entry == 0


def test_number_is_taken_as_so_many_units_of_time() -> None:
    assert stored(np.zeros((), "m8[s]"), 5) == np.timedelta64(5, "s")


def test_list_of_python_integers_is_taken_by_an_unsigned_field() -> None:
    assert stored(np.zeros(3, np.uint8), [1, 2, 255]).tolist() == [1, 2, 255]


def test_every_field_is_stored_under_its_own_name() -> None:
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
def test_numbers_are_stored_as_converted_by_numpy(dtype: str, value: Any) -> None:
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
def test_float64_arrays_are_stored_as_converted_by_numpy(
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
    """Masked elements have no value."""
    masked = np.ma.masked_array(np.arange(3.0), mask=[0, 1, 0])
    with pytest.raises(TypeError, match="state: expected values without a mask"):
        stored(np.zeros(3), masked)
    unmasked = np.ma.masked_array(np.arange(3.0))
    assert stored(np.zeros(3), unmasked).tolist() == [0, 1, 2]


@pytest.mark.parametrize("value", [2**62 + 2**38 + 1, -(2**62) - 2**38 - 1, 2**53 + 1, 2**63 - 1])
@pytest.mark.parametrize("kind", [int, np.int64])
def test_integer_is_rounded_once(kind: Any, value: int) -> None:
    assert stored(np.float32(0), kind(value)) == np.float32(np.int64(value))


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (np.uint64, [1, 2**63]),
        (np.uint64, [2**64 - 1, 0]),
        (np.uint64, [np.uint64(2**63), 1]),
        (np.int64, [-(2**63), 2**63 - 1]),
    ],
    ids=str,
)
def test_list_of_integers_is_taken_with_every_dtype_that_numpy_infers(
    dtype: Any, value: Any
) -> None:
    assert stored(np.zeros(2, dtype), value).tolist() == [int(each) for each in value]


@pytest.mark.parametrize("value", [[-1, 2**63], [0, 2**64], [2**70, 1]], ids=str)
def test_list_of_integers_that_do_not_fit_is_a_value_error(value: list[int]) -> None:
    with pytest.raises(ValueError, match=r"^state: expected integers that fit uint64, got"):
        stored(np.zeros(2, np.uint64), value)


@pytest.mark.parametrize("value", [[1.0, 2**63], ["1", 2**63]], ids=str)
def test_list_with_other_than_integers_is_a_type_error(value: list[Any]) -> None:
    with pytest.raises(TypeError, match=r"^state: expected uint64"):
        stored(np.zeros(2, np.uint64), value)


def test_dtype_of_a_template_is_the_object_of_numpy_and_in_native_order() -> None:
    for name in ("?", "u1", "i8", "u8", "f4", "f8"):
        dtype = np.dtype(name)
        assert native("state", dtype)[0] is dtype
        assert native("state", dtype.newbyteorder("S"))[0] == dtype
