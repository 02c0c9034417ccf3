"""New priorities of stored entries."""

from typing import Any

import numpy as np
import pytest

from tests.replay import build
from tests.replay.build import memory
from tests.replay.golden import snapshot


def test_new_priority_makes_the_weight_anew() -> None:
    rem = memory(priority_exponent=2.0)
    first = rem.add_episode(**build.steps(4, init_w=2.0), episodic_weight_multiplier=3.0)
    assert rem.update_priority(first + 1, 5.0) == 0
    assert rem.episode(0).weight[1] == 2 * 3 * 25


def test_exponent_in_force_is_that_of_the_new_priority() -> None:
    rem = memory(priority_exponent=1.0)
    first = rem.add_episode(**build.steps(4))
    rem.priority_exponent = 2.0
    rem.update_priority(first, 3.0)
    assert rem.episode(0).weight[0] == 9


def test_priorities_are_set_for_many_ids() -> None:
    rem = memory(priority_exponent=1.0)
    first = build.add_uniform(rem, 5)
    rem.update_priority(np.arange(first, first + 3, dtype=np.uint64), np.float32([5, 6, 7]))
    rem.update_priority([first + 3], [8])
    assert rem.episode(0).weight.tolist() == [5, 6, 7, 8, 0]


def test_one_priority_serves_for_many_ids() -> None:
    rem = memory(priority_exponent=1.0)
    first = build.add_uniform(rem, 4)
    rem.update_priority([first, first + 2], 5.0)
    assert rem.episode(0).weight.tolist() == [5, 1, 5, 0]


def test_ids_of_a_sample_are_accepted_without_conversion() -> None:
    rem = memory(priority_exponent=1.0, seed=0)
    build.add_uniform(rem, 4)
    assert rem.update_priority(rem.sample(32).id, 7.0) == 0
    assert rem.episode(0).weight.tolist() == [7, 7, 7, 0]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_ids_and_priorities_may_be_fields_of_packed_records(dtype: type) -> None:
    rem = memory(priority_exponent=1.0)
    first = build.add_uniform(rem, 5)
    records = np.zeros(4, [("flag", np.uint8), ("id", np.uint64), ("priority", dtype)])
    records["id"] = np.arange(first, first + 4)
    records["priority"] = [5, 6, 7, 8]
    assert rem.update_priority(records["id"], records["priority"]) == 0
    assert rem.episode(0).weight.tolist() == [5, 6, 7, 8, 0]


def test_ids_and_priorities_may_begin_at_any_address() -> None:
    rem = memory(priority_exponent=1.0)
    first = build.add_uniform(rem, 3)
    ids, priorities = (np.zeros(17, np.uint8)[1:].view(kind) for kind in (np.uint64, np.float64))
    ids[:] = first, first + 1
    priorities[:] = 5, 6
    assert rem.update_priority(ids, priorities) == 0
    assert rem.episode(0).weight.tolist() == [5, 6, 0]


def test_border_entries_are_never_drawn_at_any_priority() -> None:
    rem = memory(frame_stack=2)
    first = build.add_uniform(rem, 4, final_state=9)
    rem.update_priority(range(first, first + 5), 100.0)
    assert rem.episode(0).weight.tolist() == [0, 10, 10, 10, 0]


def test_ids_that_are_gone_are_counted_and_ignored() -> None:
    rem = memory(4, priority_exponent=1.0)
    gone = build.add_uniform(rem, 3)
    first = build.add_uniform(rem, 3)
    never = first + 1000
    assert rem.update_priority([gone, first, gone + 2, never], [5, 6, 7, 8]) == 3
    assert rem.episode(0).weight.tolist() == [6, 1, 0]


def test_late_priority_never_reaches_the_entry_that_took_the_place() -> None:
    rem = memory(4, priority_exponent=1.0)
    gone = build.add_uniform(rem, 4)
    build.add_uniform(rem, 4, first=10)
    assert rem.update_priority(range(gone, gone + 4), 100.0) == 4
    assert rem.episode(0).weight.tolist() == [1, 1, 1, 0]


@pytest.mark.parametrize(
    ("ids", "priority"),
    [
        ([0, 1], [1.0]),
        ([0], [1.0, 2.0]),
        ([0, 1], [1.0, -1.0]),
        ([0, 1], [1.0, np.nan]),
        ([0, 1], [1.0, np.inf]),
        ([0, 1], [1.0, 1e30]),
        ([0, 1], -1.0),
    ],
)
def test_refused_priorities_change_nothing(ids: list[int], priority: Any) -> None:
    rem = memory(priority_exponent=2.0)
    first = build.add_uniform(rem, 4)
    before = snapshot(rem)
    with pytest.raises(ValueError, match=r"priorit|length|weight"):
        rem.update_priority([first + id_ for id_ in ids], priority)
    assert snapshot(rem) == before


def test_priority_of_zero_is_never_drawn() -> None:
    rem = memory(priority_exponent=1.0, seed=0)
    first = build.add_uniform(rem, 4)
    rem.update_priority([first, first + 2], 0.0)
    assert set(rem.get_batch(100).prev.i.tolist()) == {1}


@pytest.mark.parametrize("mask", ["id", "priority"])
def test_masked_values_are_refused(mask: str) -> None:
    rem = memory()
    first = build.add_uniform(rem, 4)
    given: dict[str, Any] = {"id": np.array([first, first + 1], np.uint64), "priority": np.ones(2)}
    given[mask] = np.ma.masked_array(given[mask], mask=[0, 1])
    before = snapshot(rem)
    with pytest.raises(TypeError, match=mask):
        rem.update_priority(**given)
    assert snapshot(rem) == before


@pytest.mark.parametrize("flag", [True, np.True_, [False, True], np.array([True])], ids=repr)
def test_bools_are_refused_as_ids(flag: Any) -> None:
    rem = memory()
    build.add_uniform(rem, 4)
    before = snapshot(rem)
    with pytest.raises(TypeError, match=r"^id: expected an i"):
        rem.update_priority(flag, 2.0)
    assert snapshot(rem) == before


@pytest.mark.parametrize("flag", [True, np.True_, [False], np.array([True])], ids=repr)
@pytest.mark.parametrize("absolute", [False, True])
def test_bools_are_refused_as_priorities(flag: Any, absolute: bool) -> None:
    rem = memory()
    first = build.add_uniform(rem, 4)
    before = snapshot(rem)
    with pytest.raises(TypeError, match=r"^priority: expected"):
        rem.update_priority([first], flag, absolute=absolute)
    assert snapshot(rem) == before


@pytest.mark.parametrize("flag", [True, np.True_, np.array(True)], ids=repr)
def test_bools_are_refused_as_numbers(flag: Any) -> None:
    rem = memory()
    with pytest.raises(TypeError, match="priority_exponent: expected a number"):
        rem.priority_exponent = flag
    with pytest.raises(TypeError, match="multi_step: expected an integer"):
        rem.multi_step = flag
    with pytest.raises(TypeError, match="discount_factor"):
        rem.discount_factor = flag
