"""Each setting: its default, valid values and refused ones."""

from typing import Any

import numpy as np
import pytest

from tests.replay import build
from tests.replay.build import memory, vector_memory


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("priority_exponent", 0.5),
        ("mix_lambda", 1.0),
        ("frame_stack", 1),
        ("multi_step", 1),
        ("cache_size", 32),
        ("max_episode", 0),
        ("reuse_cache", False),
        ("discount_factor", [1.0, 1.0, 1.0]),
        ("reward_coeff", [1.0, 1.0, 1.0]),
        ("cache_flags", [True] * 14),
    ],
)
def test_settings_start_at_documented_defaults(name: str, default: Any) -> None:
    value = getattr(vector_memory(3), name)
    assert value == default
    assert type(value) is type(default)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("priority_exponent", 0.0),
        ("priority_exponent", 2.5),
        ("priority_exponent", 1),
        ("mix_lambda", 0.0),
        ("mix_lambda", 1),
        ("frame_stack", 4),
        ("multi_step", 5),
        ("multi_step", np.int64(5)),
        ("cache_size", 1),
        ("max_episode", 3),
        ("reuse_cache", True),
        ("discount_factor", [0.0, 0.5, 2.0]),
        ("reward_coeff", [-1.0, 0.0, 2.0]),
        ("cache_flags", [True, False] * 7),
    ],
)
def test_value_set_is_read_back(name: str, value: Any) -> None:
    assert getattr(vector_memory(3, **{name: value}), name) == value


@pytest.mark.parametrize("name", ["discount_factor", "reward_coeff"])
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (0.5, [0.5, 0.5, 0.5]),
        (2, [2.0, 2.0, 2.0]),
        (np.float32(0.5), [0.5, 0.5, 0.5]),
        ([0.5], [0.5, 1.0, 1.0]),
        ((0.5, 0.25), [0.5, 0.25, 1.0]),
        (np.array([0.5, 0.25]), [0.5, 0.25, 1.0]),
        (np.float32([0.5, 0.25, 0.75]), [0.5, 0.25, 0.75]),
    ],
)
def test_number_or_list_sets_values_per_reward_dimension(
    name: str, given: Any, expected: list[float]
) -> None:
    rem = vector_memory(3, **{name: given})
    assert getattr(rem, name) == expected


@pytest.mark.parametrize("name", ["discount_factor", "reward_coeff"])
def test_reward_without_dimensions_has_one_number(name: str) -> None:
    rem = memory(**{name: 0.5})
    assert getattr(rem, name) == [0.5]


def test_shorter_list_leaves_later_dimensions_unchanged() -> None:
    rem = vector_memory(3, discount_factor=[0.5, 0.25, 0.125])
    rem.discount_factor = [0.75]
    assert rem.discount_factor == [0.75, 0.25, 0.125]


def test_changing_the_list_that_was_read_changes_no_setting() -> None:
    rem = vector_memory(2)
    rem.discount_factor[0] = 0.5
    assert rem.discount_factor == [1.0, 1.0]


@pytest.mark.parametrize(
    "flags", [[0, 1, 0], (False, True, False), np.array([False, True, False]), np.array([0, 1, 0])]
)
def test_shorter_flags_set_the_leading_ones(flags: Any) -> None:
    assert memory(cache_flags=flags).cache_flags == [False, True, False] + [True] * 11


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("priority_exponent", -0.5),
        ("priority_exponent", np.nan),
        ("mix_lambda", -0.1),
        ("mix_lambda", 1.1),
        ("mix_lambda", np.nan),
        ("frame_stack", 0),
        ("frame_stack", -1),
        ("multi_step", 0),
        ("multi_step", -3),
        ("cache_size", 0),
        ("cache_size", -1),
        ("max_episode", -1),
        ("discount_factor", -0.1),
        ("discount_factor", np.nan),
        ("discount_factor", [0.5, -0.5]),
        ("discount_factor", [0.5, 0.5, 0.5, 0.5]),
        ("reward_coeff", np.nan),
        ("reward_coeff", [0.5, np.inf]),
        ("reward_coeff", [0.5, 0.5, 0.5, 0.5]),
        ("cache_flags", [True] * 15),
        ("cache_flags", [2]),
        ("cache_flags", [-1]),
    ],
)
def test_value_out_of_range_is_refused_by_name(name: str, value: Any) -> None:
    rem = vector_memory(3)
    before = getattr(rem, name)
    with pytest.raises(ValueError, match=name):
        setattr(rem, name, value)
    assert getattr(rem, name) == before


@pytest.mark.parametrize("dtype", [np.complex64, "U2", "M8[s]", [("x", "f4")]])
def test_numbers_of_another_type_are_type_errors_also_in_empty_arrays(dtype: Any) -> None:
    with pytest.raises(TypeError, match="discount_factor: expected real numbers"):
        memory().discount_factor = np.zeros(0, dtype)


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize(
    "name",
    ["priority_exponent", "priority_epsilon", "mix_lambda", "discount_factor", "reward_coeff"],
)
def test_truth_value_is_refused_where_a_setting_is_a_number(name: str, value: bool) -> None:
    rem = memory()
    before = getattr(rem, name)
    with pytest.raises(TypeError, match=rf"^{name}: expected a number.*, got bool"):
        setattr(rem, name, value)
    assert getattr(rem, name) == before


@pytest.mark.parametrize("value", ["1", None, [1, 2], 1.5, True, False, np.bool_(True)])
@pytest.mark.parametrize("name", ["frame_stack", "multi_step", "cache_size", "max_episode"])
def test_count_of_another_type_is_a_type_error(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"^{name}: expected an integer, got"):
        setattr(memory(), name, value)


@pytest.mark.parametrize("name", ["frame_stack", "multi_step", "cache_size", "max_episode"])
@pytest.mark.parametrize("value", [10**400, -(10**5000)], ids=["large", "small"])
def test_count_beyond_64_bits_is_refused_without_its_digits(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=rf"^{name}: .*got an integer of \d+ bits$"):
        setattr(memory(), name, value)


@pytest.mark.parametrize("value", ["1", None, 1j])
@pytest.mark.parametrize(
    "name", ["priority_exponent", "mix_lambda", "discount_factor", "reward_coeff"]
)
def test_setting_of_another_type_is_a_type_error(name: str, value: Any) -> None:
    with pytest.raises(TypeError):
        setattr(memory(), name, value)


@pytest.mark.parametrize("name", ["entry_size", "max_step", "uuid", "num_entry", "weight_sum"])
def test_facts_cannot_be_set(name: str) -> None:
    with pytest.raises(AttributeError):
        setattr(memory(), name, 1)


def test_misspelt_setting_is_refused() -> None:
    with pytest.raises(AttributeError):
        memory().frame_stak = 4


# -- when they hold --


def test_closed_episode_keeps_its_returns_and_weights() -> None:
    rem = memory(discount_factor=0.5)
    rem.add_episode(**build.steps(4))
    before = build.described(rem.episode(0))
    rem.discount_factor = 0.25
    rem.mix_lambda = 0.0
    rem.priority_exponent = 2.0
    rem.reward_coeff = 3.0
    assert build.described(rem.episode(0)) == before


def test_settings_at_the_close_of_the_episode_apply() -> None:
    changed_late, changed_early = memory(), memory(discount_factor=0.5)
    changed_late.new_episode()
    changed_late.add_entries(**build.steps(4))
    changed_late.discount_factor = 0.5
    changed_late.close_episode()
    changed_early.add_episode(**build.steps(4))
    assert build.described(changed_late.episode(0)) == build.described(changed_early.episode(0))


@pytest.mark.parametrize("name", ["frame_stack", "multi_step"])
def test_entries_a_larger_setting_makes_invalid_come_back_with_the_smaller_one(name: str) -> None:
    rem = memory()
    build.add_uniform(rem, 6)
    weights = rem.episode(0).weight.tolist()
    setattr(rem, name, 3)
    assert rem.num_sampleable == 3
    assert rem.weight_sum == 3
    setattr(rem, name, 1)
    assert rem.episode(0).weight.tolist() == weights
    assert rem.num_sampleable == 5


@pytest.mark.parametrize("name", ["frame_stack", "multi_step"])
def test_entries_at_the_borders_when_closed_are_drawn_under_a_smaller_setting(name: str) -> None:
    rem = memory(**{name: 3})
    build.add_uniform(rem, 6)
    assert rem.num_sampleable == 3
    setattr(rem, name, 1)
    assert rem.num_sampleable == 5


def test_larger_frame_stack_never_leaves_the_episode() -> None:
    rem = memory(seed=0)
    build.add_uniform(rem, 4)
    build.add_uniform(rem, 4, first=10)
    rem.frame_stack = 3
    stacks = {tuple(stack) for stack in rem.get_batch(200).prev.s.tolist()}
    assert stacks == {(0, 1, 2), (10, 11, 12)}


def test_setting_too_large_for_all_episodes_leaves_nothing_to_draw() -> None:
    rem = memory(frame_stack=1)
    build.add_uniform(rem, 4)
    rem.multi_step = 2**31
    assert (rem.num_sampleable, rem.weight_sum, rem.min_weight) == (0, 0.0, 0.0)
    with pytest.raises(RuntimeError):
        rem.get_batch(1)


def test_max_episode_is_enforced_at_the_next_close() -> None:
    rem = memory()
    for first in (0, 10, 20):
        build.add_uniform(rem, 2, first)
    rem.max_episode = 1
    assert rem.num_episode() == 3
    build.add_uniform(rem, 2, 30)
    assert build.contents(rem) == [[30, 31]]


def test_print_info_shows_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    vector_memory(2, **build.OTHER_SETTINGS).print_info()
    lines = capsys.readouterr().out.splitlines()
    for name in build.OTHER_SETTINGS:
        assert any(line.startswith(f"  {name}: ") for line in lines)
