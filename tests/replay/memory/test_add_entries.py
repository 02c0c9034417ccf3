"""`add_entries`: many steps at once."""

import numpy as np
import pytest

from tests.replay import build
from tests.replay.build import memory, step, steps
from tests.replay.golden import snapshot


def test_add_entries_equals_add_entry_per_step() -> None:
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


def test_add_entries_of_zero_steps_stores_no_entry() -> None:
    rem = memory()
    rem.new_episode()
    rem.add_entries(**steps(0))
    assert rem.num_entry == 0


@pytest.mark.parametrize(("field", "name"), [*build.NAMES[1:], ("init_w", "init_w")])
def test_leading_dimensions_that_differ_are_refused(field: str, name: str) -> None:
    rem = memory()
    rem.new_episode()
    with pytest.raises(ValueError, match=rf"\b({field}|{name})\b"):
        rem.add_entries(**steps(4, **{field: np.zeros(3, np.int8)}))
    assert rem.num_entry == 0


def test_bad_step_in_the_middle_stores_no_step_of_the_call() -> None:
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
