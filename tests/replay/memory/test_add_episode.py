"""`add_episode`: whole episodes at once."""

from typing import Any

import numpy as np
import pytest

from tests.replay import build
from tests.replay.build import memory, step, steps
from tests.replay.golden import snapshot


def test_add_episode_equals_an_episode_written_step_by_step() -> None:
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
    *(
        ({"bootstrap_value": flag}, TypeError, "bootstrap_value: expected a number, or None where")
        for flag in (True, np.True_, np.array(False), [True])
    ),
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
