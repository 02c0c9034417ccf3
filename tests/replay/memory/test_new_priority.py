"""The weight of new entries, so that every entry can be drawn."""

import logging
from typing import Any

import numpy as np
import pytest

from cogrs import ReplayMemory
from tests.replay import build
from tests.replay.build import memory

CLOSES = [{}, {"do_update_weight": False}, build.UNIFORM]


def weights(rem: ReplayMemory, index: int = -1) -> list[float]:
    return rem.episode(index).weight.tolist()


def add(rem: ReplayMemory, count: int = 4, **given: Any) -> int:
    """An episode whose errors are 0 unless rewards are given; all of its actions are drawn."""
    zeros = np.zeros(count)
    return rem.add_episode(**{**build.steps(count, r=zeros, v=zeros), "final_state": 9, **given})


# -- new_priority --


@pytest.mark.parametrize("close", CLOSES)
def test_max_is_one_at_first_times_the_initial_weight(close):
    rem = memory(64, new_priority="max")
    add(rem, init_w=np.array([1.0, 3.0, 0.0, 0.5]), episodic_weight_multiplier=2.0, **close)
    assert weights(rem) == [2, 6, 0, 1, 0]


@pytest.mark.parametrize("close", CLOSES)
def test_max_is_the_largest_multiple_of_the_initial_weight_ever_given(close):
    rem = memory(64, new_priority="max", priority_exponent=0.5)
    first = add(rem, init_w=2.0)
    rem.update_priority([first, first + 1], [9.0, 16.0])
    rem.update_priority([first, first + 1], [0.25, 1.0])
    add(rem, init_w=3.0, **close)
    assert weights(rem, 0)[:2] == [1, 2]
    assert weights(rem) == [12, 12, 12, 12, 0]


def test_max_counts_weights_that_were_made_of_returns():
    rem = memory(64, priority_exponent=1.0)
    add(rem, r=np.float32([5, 0, 0, 0]))
    rem.new_priority = "max"
    add(rem)
    assert weights(rem) == [5, 5, 5, 5, 0]


def test_max_counts_weights_set_by_absolute_and_late_rewards():
    rem = memory(64, priority_exponent=1.0)
    first = add(rem, init_w=2.0)
    rem.update_priority(first, 6.0, absolute=True)
    rem.new_priority = "max"
    add(rem)
    assert weights(rem) == [3, 3, 3, 3, 0]
    rem.add_reward(first + 1, 7.0)
    add(rem)
    assert weights(rem) == [7, 7, 7, 7, 0]


@pytest.mark.parametrize("absolute", [1, 0, 2, np.True_, "yes", None], ids=repr)
def test_update_priority_refuses_absolute_that_is_not_a_bool_and_changes_nothing(absolute):
    rem = memory(64, priority_exponent=1.0)
    first = add(rem)
    before = weights(rem)
    got = type(absolute).__name__
    with pytest.raises(TypeError, match=f"^absolute: expected True or False, got {got}"):
        rem.update_priority(first, 6.0, absolute=absolute)
    assert weights(rem) == before


def test_maximal_priority_ignores_entries_that_cannot_be_drawn():
    rem = memory(64, priority_exponent=1.0, new_priority="max", frame_stack=3)
    first = add(rem)
    rem.update_priority([first, first + 4], [8.0, 9.0])
    add(rem)
    assert weights(rem) == [0, 0, 1, 1, 0]


@pytest.mark.parametrize("absolute", [False, True])
def test_max_counts_the_last_priority_of_an_id_given_twice(absolute):
    rem = memory(64, priority_exponent=1.0, new_priority="max")
    first = add(rem)
    rem.update_priority([first, first + 1, first], [9.0, 3.0, 2.0], absolute=absolute)
    assert weights(rem) == [2, 3, 1, 1, 0]
    add(rem)
    assert weights(rem) == [3, 3, 3, 3, 0]


def test_maximal_priority_stays_when_its_entry_is_evicted():
    rem = memory(10, priority_exponent=1.0, new_priority="max")
    rem.update_priority(add(rem), 8.0)
    add(rem)
    rem.clear()
    add(rem)
    assert weights(rem) == [8, 8, 8, 8, 0]


@pytest.mark.parametrize("close", CLOSES)
@pytest.mark.parametrize("number", [0.25, 2, np.float32(3), 0])
def test_number_is_taken_times_the_initial_weight(number, close):
    rem = memory(64, new_priority=number)
    add(rem, init_w=np.array([1.0, 3.0, 0.0, 0.5]), episodic_weight_multiplier=2.0, **close)
    assert weights(rem) == [2 * number, 6 * number, 0, number, 0]


def test_max_and_numbers_need_no_values():
    empty = np.zeros(0, np.float32)
    for new, weight in (("max", 1), (4.0, 4)):
        rem = memory(64, v=empty, q=empty, new_priority=new)
        rem.add_episode(**build.steps(4, v=np.zeros((4, 0))), **build.UNIFORM, final_state=9)
        assert weights(rem) == [weight] * 4 + [0]


def test_weight_beyond_float32_leaves_the_episode_open():
    rem = memory(64, new_priority=1e30)
    add(rem)
    rem.new_episode()
    rem.add_entry(**build.step(init_w=1e30))
    with pytest.raises(
        ValueError, match=r"weight: expected finite float32 numbers, got inf at step 0"
    ):
        rem.close_episode()
    rem.abort_episode()
    assert rem.num_episode() == 1


# -- late rewards --


@pytest.mark.parametrize("close", CLOSES)
@pytest.mark.parametrize(("n", "renewed"), [(1, {2}), (2, {1, 2}), (3, {0, 1, 2}), (9, {0, 1, 2})])
def test_late_reward_gives_the_maximal_priority_to_steps_with_a_changed_target(n, renewed, close):
    rem = memory(64, priority_exponent=1.0, new_priority="max", multi_step=n)
    rem.update_priority(add(rem), 8.0)
    first = add(rem, **close)
    rem.update_priority(range(first, first + 4), 0.5)
    assert rem.add_reward(first + 2, 1.0)
    assert weights(rem) == [8 if k in renewed else 0.5 for k in range(4)] + [0]


def test_late_reward_gives_the_number_again():
    rem = memory(64, new_priority=3.0, multi_step=2, priority_exponent=1.0)
    first = add(rem, init_w=2.0)
    rem.update_priority(range(first, first + 4), 0.5)
    rem.add_reward(first + 1, 1.0)
    assert weights(rem) == [6, 6, 1, 1, 0]


def test_late_reward_keeps_initial_weights_under_returns():
    rem = memory(64)
    first = add(rem, do_update_weight=False)
    rem.add_reward(first + 2, 5.0)
    assert weights(rem) == [1, 1, 1, 1, 0]


def test_late_reward_in_an_open_episode_changes_no_weight():
    rem = memory(64, new_priority="max")
    rem.new_episode()
    id_ = rem.add_entry(**build.step())
    assert rem.add_reward(id_, 1.0)
    assert rem.weight_sum == 0


def test_largest_weight_of_a_heavy_entry_is_the_largest_float32():
    rem = memory(64, priority_exponent=1.0, new_priority="max")
    first = add(rem, init_w=np.array([1.0, 1e30, 1.0, 1.0]))
    rem.update_priority(first, 1e30)
    assert rem.add_reward(first + 1, 1.0)
    assert weights(rem)[1] == np.finfo(np.float32).max


# -- priority_epsilon --


def test_epsilon_is_added_to_errors_at_the_close_and_later():
    rem = memory(64, priority_exponent=0.5, priority_epsilon=4.0)
    first = add(rem)
    assert weights(rem) == [2, 2, 2, 2, 0]
    rem.update_priority([first, first + 1], [0.0, 12.0])
    assert weights(rem) == [2, 4, 2, 2, 0]
    rem.add_reward(first, 5.0)
    assert weights(rem) == [3, 4, 2, 2, 0]


def test_epsilon_changes_no_initial_weights_and_no_absolute_ones():
    rem = memory(64, priority_epsilon=4.0)
    first = add(rem, do_update_weight=False)
    rem.update_priority(first, 7.0, absolute=True)
    assert weights(rem) == [7, 1, 1, 1, 0]


def test_epsilon_in_force_counts_for_priorities_and_that_of_the_close_for_late_rewards():
    rem = memory(64, priority_exponent=1.0, priority_epsilon=1.0)
    first = add(rem)
    rem.priority_epsilon = 3.0
    rem.update_priority(first + 3, 2.0)
    rem.add_reward(first, 5.0)
    assert weights(rem) == [6, 1, 1, 5, 0]


# -- absolute --


def test_absolute_priority_sets_the_weight_for_every_initial_weight():
    rem = memory(64, priority_exponent=0.5)
    first = add(rem, init_w=np.array([1.0, 10.0, 0.25, 1.0]), do_update_weight=False)
    assert rem.update_priority([first, first + 1, first + 2, 99 << 20], 5.0, absolute=True) == 1
    assert weights(rem) == [5, 5, 5, 1, 0]


def test_absolute_reaches_no_step_that_is_not_to_be_drawn():
    rem = memory(64, frame_stack=2)
    first = add(rem, init_w=np.array([1.0, 0.0, 1.0, 1.0]), do_update_weight=False)
    rem.update_priority(range(first, first + 5), 5.0, absolute=True)
    assert weights(rem) == [0, 0, 5, 5, 0]


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf, 1e39])
def test_invalid_absolute_weight_changes_nothing(weight):
    rem = memory(64)
    first = add(rem, do_update_weight=False)
    with pytest.raises(ValueError, match="priority: expected"):
        rem.update_priority([first, first + 1], [5.0, weight], absolute=True)
    assert weights(rem) == [1, 1, 1, 1, 0]


# -- frame_padding --


@pytest.mark.parametrize("stack", [1, 2, 3, 6, 9])
@pytest.mark.parametrize("padding", ["repeat", "zero"])
@pytest.mark.parametrize("shape", [(), (40,)], ids=["in a record", "in a column"])
def test_padding_stands_for_frames_before_the_first(padding, stack, shape):
    rem = memory(64, s=np.zeros(shape, np.int64), frame_stack=stack, frame_padding=padding, seed=0)
    frames = np.arange(11, 15).reshape(-1, *[1] * len(shape)) + np.zeros(shape, np.int64)
    build.add_uniform(rem, 30, s=np.zeros((30, *shape), np.int64))
    build.add_uniform(rem, 4, s=frames, final_state=frames[0] + 4)
    batch = rem.get_batch(2000)
    before = [11 if padding == "repeat" else 0] * (stack - 1)
    all_frames = [*before, 11, 12, 13, 14, 15]
    wanted = {tuple(all_frames[at : at + stack]) for at in range(5)}
    for side, least in ((batch.prev, 11), (batch.next, 12)):
        stacks = side.s.reshape(2000, stack, -1)
        assert (stacks == stacks[:, :, :1]).all()
        found = {tuple(row) for row in stacks[:, :, 0].tolist() if row[-1] >= 11}
        assert found == {row for row in wanted if least <= row[-1] < least + 4}


def test_padding_is_of_the_episode_where_that_lies_in_pieces():
    rem = memory(8, frame_stack=4, frame_padding="repeat", seed=0)
    writers = [rem.writer() for _ in range(2)]
    for writer in writers:
        writer.new_episode()
    for step in range(4):
        for at, writer in enumerate(writers):
            writer.add_entry(**build.step(10 * at + step))
    for writer in writers:
        writer.close_episode(**build.UNIFORM)
    stacks = {tuple(row) for row in rem.get_batch(500).prev.s.tolist()}
    one = {(0, 0, 0, 0), (0, 0, 0, 1), (0, 0, 1, 2)}
    assert stacks == one | {tuple(10 + k for k in row) for row in one}


def test_changed_padding_applies_to_the_next_sample():
    rem = memory(64, frame_stack=3)
    build.add_uniform(rem, 2)
    with pytest.raises(RuntimeError, match="an episode of at least 4 entries, the longest has 2"):
        rem.get_batch(1)
    for padding, stack in (("repeat", [0, 0, 0]), ("zero", [0, 0, 0])):
        rem.frame_padding = padding
        assert rem.get_batch(1).prev.s.tolist() == [stack]
    rem.frame_padding = "none"
    assert rem.num_sampleable == 0


# -- settings --


@pytest.mark.parametrize(
    ("name", "value", "error", "said"),
    [
        ("new_priority", "median", ValueError, "'returns', 'max' or a number"),
        ("new_priority", "Max", ValueError, "'returns', 'max' or a number"),
        ("new_priority", -1.0, ValueError, "or a finite float32 number >= 0, got -1"),
        ("new_priority", np.nan, ValueError, "or a finite float32 number >= 0, got NaN"),
        ("new_priority", 1e39, ValueError, "or a finite float32 number >= 0, got 1e39"),
        ("new_priority", 1e300, ValueError, "or a finite float32 number >= 0, got 1e300"),
        ("new_priority", 10**400, ValueError, "a number that float64 holds"),
        ("new_priority", None, TypeError, "'returns', 'max' or a number, got NoneType"),
        ("new_priority", True, TypeError, "'returns', 'max' or a number, got bool"),
        ("new_priority", b"max", TypeError, "'returns', 'max' or a number, got bytes"),
        ("priority_epsilon", -1e-9, ValueError, "a finite number >= 0"),
        ("priority_epsilon", np.inf, ValueError, "a finite number >= 0"),
        ("priority_epsilon", "0.1", TypeError, "a number, got str"),
        ("frame_padding", "same", ValueError, "'none', 'repeat' or 'zero', got \"same\""),
        ("frame_padding", None, TypeError, "'none', 'repeat' or 'zero', got NoneType"),
        ("frame_padding", 0, TypeError, "'none', 'repeat' or 'zero', got int"),
    ],
)
def test_setting_that_cannot_be_is_refused(name, value, error, said):
    rem = memory(64)
    before = getattr(rem, name)
    with pytest.raises(error, match=f"{name}: expected .*{said}"):
        setattr(rem, name, value)
    assert getattr(rem, name) == before


@pytest.mark.parametrize("new", ["max", 0.75])
def test_settings_and_the_maximum_come_back_from_a_file(new, tmp_path):
    rem = memory(
        64, new_priority="max", priority_epsilon=0.25, frame_padding="zero", priority_exponent=1.0
    )
    rem.update_priority(add(rem), 8.0)
    rem.clear()
    rem.new_priority = new
    rem.save(tmp_path / "memory.rm")
    again = ReplayMemory.load(tmp_path / "memory.rm")
    names = ("new_priority", "priority_epsilon", "frame_padding")
    assert [getattr(again, name) for name in names] == [new, 0.25, "zero"]
    again.new_priority = "max"
    add(again)
    assert weights(again) == [8.25] * 4 + [0]


def test_settings_are_printed(capsys):
    memory(new_priority=2.5, priority_epsilon=0.5, frame_padding="zero").print_info()
    text = capsys.readouterr().out
    for line in ("new_priority: 2.5", "priority_epsilon: 0.5", "frame_padding: zero"):
        assert f"  {line}\n" in text


# -- the warning --


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == "cogrs.replay"]


def silent(rem: ReplayMemory, count: int) -> None:
    add(rem, count)


def seen(rem: ReplayMemory, count: int) -> None:
    add(rem, count, do_update_weight=False)


@pytest.fixture(autouse=True)
def _log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="cogrs.replay")


def test_more_than_half_with_weight_zero_is_logged_once_with_both_counts(caplog):
    rem = memory(8000)
    seen(rem, 40)
    silent(rem, 40)
    assert warnings(caplog) == []
    silent(rem, 2182)
    [text] = warnings(caplog)
    assert "2,222 of 2,262 closed steps have weight 0" in text
    assert "priority_epsilon" in text
    assert "new_priority='max'" in text
    silent(rem, 100)
    assert len(warnings(caplog)) == 1


def test_warning_comes_from_every_way_to_close(caplog):
    for close in (
        lambda rem: silent(rem, 3),
        lambda rem: written(rem),
        lambda rem: written(rem.writer()),
    ):
        caplog.clear()
        close(memory(64))
        assert len(warnings(caplog)) == 1
        assert "3 of 3" in warnings(caplog)[0]


def written(writer: Any) -> None:
    writer.new_episode()
    zeros = np.zeros(3)
    writer.add_entries(**build.steps(3, r=zeros, v=zeros))
    writer.close_episode(final_state=9)


@pytest.mark.parametrize(
    "changes",
    [
        {"new_priority": "max"},
        {"new_priority": 0.5},
        {"priority_epsilon": 1e-3},
        {"priority_exponent": 0.0},
    ],
)
def test_settings_named_by_the_warning_silence_the_warning(caplog, changes):
    silent(memory(64, **changes), 10)
    assert warnings(caplog) == []


def test_steps_with_weight_zero_are_not_counted(caplog):
    rem = memory(64, frame_stack=3)
    add(rem, 4, init_w=0.0)
    add(rem, 4, episodic_weight_multiplier=0.0)
    add(rem, 2, do_update_weight=False)
    assert warnings(caplog) == []
    silent(rem, 4)
    assert "2 of 2" in warnings(caplog)[0]


def test_steps_that_are_gone_are_not_counted(caplog):
    rem = memory(11)
    seen(rem, 5)
    silent(rem, 4)
    seen(rem, 5)
    silent(rem, 4)
    assert warnings(caplog) == []
