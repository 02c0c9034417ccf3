"""`add_reward`: rewards that come after their step."""

from typing import Any

import numpy as np
import pytest

from tests.replay import build
from tests.replay.build import memory, vector_memory
from tests.replay.golden import snapshot


def test_late_reward_gives_the_same_weights_as_an_early_reward() -> None:
    late, early = (memory(discount_factor=0.5, mix_lambda=0.5) for _ in range(2))
    r, v = np.float32([1, 2, 3, 4]), np.float32([5, 1, 0, 2])
    end = {"bootstrap_value": 3.0, "final_state": 9, "episodic_weight_multiplier": 2.0}
    first = late.add_episode(**build.steps(4, r=r, v=v), **end)
    assert late.add_reward(first + 2, 8.0) is True
    early.add_episode(**build.steps(4, r=r + np.float32([0, 0, 8, 0]), v=v), **end)
    assert build.described(late.episode(0)) == build.described(early.episode(0))


def test_late_reward_in_an_open_episode() -> None:
    rem = memory()
    rem.new_episode()
    first = rem.add_entries(**build.steps(3, r=[1, 1, 1]))
    assert rem.add_reward(first + 1, 4.0) is True
    rem.close_episode()
    assert rem.episode(0).entries.r.tolist() == [1, 5, 1]
    assert rem.episode(0).entries.q.tolist() == [7, 6, 1]


def test_late_reward_follows_the_settings_of_the_close() -> None:
    rem = memory(discount_factor=0.5, priority_exponent=1.0, frame_stack=2)
    first = rem.add_episode(**build.steps(4, r=[1, 1, 1, 1], v=[0, 0, 0, 0]))
    rem.discount_factor = 0.0
    rem.priority_exponent = 2.0
    rem.reward_coeff = 7.0
    rem.frame_stack = 1
    rem.add_reward(first + 2, 4.0)
    assert rem.episode(0).entries.q.tolist() == [2.875, 3.75, 5.5, 1]
    assert rem.episode(0).weight.tolist() == [2.875, 3.75, 5.5, 0]


def test_late_reward_keeps_new_priorities_of_later_entries_only() -> None:
    rem = memory(priority_exponent=1.0)
    first = rem.add_episode(**build.steps(4, r=[1, 1, 1, 1], v=[0, 0, 0, 0]))
    rem.update_priority(range(first, first + 3), 50.0)
    rem.add_reward(first + 1, 1.0)
    assert rem.episode(0).weight.tolist() == [5, 4, 50, 0]


def test_late_reward_leaves_values_that_were_not_updated() -> None:
    rem = memory()
    first = build.add_uniform(rem, 3)
    rem.add_reward(first, 4.0)
    assert rem.episode(0).entries.r.tolist() == [4, 1, 2]
    assert rem.episode(0).entries.q.tolist() == [0, 0, 0]
    assert rem.episode(0).weight.tolist() == [1, 1, 0]


def test_late_reward_leaves_weights_that_were_not_updated() -> None:
    rem = memory()
    first = rem.add_episode(**build.steps(3), do_update_weight=False)
    rem.add_reward(first, 4.0)
    assert rem.episode(0).entries.q.tolist() == [7, 3, 2]
    assert rem.episode(0).weight.tolist() == [1, 1, 0]


def test_late_reward_does_not_reach_samples_drawn_before() -> None:
    rem = memory(discount_factor=0.0)
    first = build.add_uniform(rem, 2)
    batch = rem.get_batch(4)
    rem.add_reward(first, 4.0)
    assert batch.prev.r.tolist() == [0] * 4


def test_late_reward_of_an_entry_that_is_gone() -> None:
    rem = memory(4)
    gone = build.add_uniform(rem, 3)
    build.add_uniform(rem, 3)
    before = snapshot(rem)
    assert rem.add_reward(gone, 1.0) is False
    assert snapshot(rem) == before


def test_late_reward_of_several_dimensions() -> None:
    rem = vector_memory(2)
    first = rem.add_episode(**build.steps(2, r=np.ones((2, 2)), v=np.zeros((2, 2))))
    rem.add_reward(first, [1, 10])
    assert rem.episode(0).entries.r.tolist() == [[2, 11], [1, 1]]


@pytest.mark.parametrize("delta", [np.nan, np.inf, [1.0], 3e38])
def test_refused_late_reward_changes_nothing(delta: Any) -> None:
    rem = memory()
    first = rem.add_episode(**build.steps(3, r=np.float32([0, 3e38, 0])))
    before = snapshot(rem)
    with pytest.raises(ValueError, match=r"delta|reward|finite"):
        rem.add_reward(first + 1, delta)
    assert snapshot(rem) == before
