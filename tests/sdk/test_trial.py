"""The rule by which rewards find the step that they are about."""

from __future__ import annotations

import pytest

from cogrs.sdk import step_of_reward


@pytest.mark.parametrize(("tick", "step"), [(0, None), (1, 0), (2, 1), (1_000_000, 999_999)])
def test_reward_belongs_to_the_step_before_its_tick(tick: int, step: int | None) -> None:
    assert step_of_reward(tick) == step
