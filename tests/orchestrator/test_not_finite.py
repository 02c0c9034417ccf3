"""Rewards of no finite number: they count for nothing, and spoil nobody else's."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cogrs.api.common_pb2 import RewardSource
from cogrs.orchestrator.engine.message_router import aggregate
from tests.orchestrator.world import World, action, reward

ODD = (math.nan, math.inf, -math.inf)
anything = st.floats(width=32)
sources = st.builds(RewardSource, value=anything, confidence=anything)


@given(st.lists(sources))
def test_the_value_is_finite_and_that_of_the_finite_sources(told: list[RewardSource]) -> None:
    finite = [each for each in told if math.isfinite(each.value) and math.isfinite(each.confidence)]
    assert math.isfinite(aggregate(told))
    assert aggregate(told) == aggregate(finite)


@pytest.mark.parametrize("odd", [{"value": v} for v in ODD] + [{"confidence": c} for c in ODD])
def test_they_are_passed_on_counted_and_told_once(odd, caplog) -> None:
    world = World(agents=2).run()
    mad = reward("a0", odd.get("value", 5.0), confidence=odd.get("confidence", 1.0))
    world.agent("a1").events.acted(action(rewards=[mad, mad]))
    world.agent("a0").events.acted(action())
    world.step(1, rewards=[reward("a0", 3.0)])
    (told,) = world.agent("a0").of("deliver")[-1].rewards
    assert told.value == 3.0
    assert [each.sender_name for each in told.sources] == ["a1", "a1", "env"]
    assert world.trial.counts["not finite rewards"] == 2
    assert caplog.text.count("from 'a1' is not finite") == 1
