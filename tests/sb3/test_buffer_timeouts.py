"""Time-outs in `ReplayBuffer`, beside the buffers of Stable-Baselines3."""

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common import buffers

from cogrs.sb3 import ReplayBuffer
from cogrs.sb3.held_steps import mapped
from tests.sb3.rollout import BOX, DISCRETE, rollout

KEYS = spaces.Dict(place=spaces.Discrete(5), speed=BOX)
FIELDS = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


def equal(one: Any, other: Any) -> None:
    if isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            equal(one[key], other[key])
        return
    assert one.dtype == other.dtype
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("handled", [False, True])
@pytest.mark.parametrize(
    ("kind", "space"), [(buffers.ReplayBuffer, BOX), (buffers.DictReplayBuffer, KEYS)]
)
def test_time_outs_are_held_and_drawn_as_by_the_buffer_of_stable_baselines3(
    kind: Any, space: Any, handled: bool
) -> None:
    arguments = (60, space, DISCRETE, "cpu", 2)
    other = kind(*arguments, handle_timeout_termination=handled)
    ours: Any = ReplayBuffer(*arguments, handle_timeout_termination=handled, seed=0)
    # More steps than fit.
    for step in rollout(45, 2, end=0.2, space=space):
        ours.add(*step)
        other.add(*step)
    newest = np.arange(30, 45) % 30
    for field in FIELDS:
        found, expected = (
            mapped(lambda rows: rows[newest], getattr(buffer, field)) for buffer in (ours, other)
        )
        equal(found, expected)
    assert other.dones[newest].any()
    assert other.timeouts[newest].any() == handled
    ended = other.dones * (1 - other.timeouts)
    by_reward = dict(zip(other.rewards.ravel().tolist(), ended.ravel().tolist(), strict=True))
    drawn = ours.sample(2000)
    rewards, dones = drawn.rewards.ravel().tolist(), drawn.dones.ravel().tolist()
    assert set(other.rewards[newest].ravel().tolist()) <= set(rewards)
    # A piece of an episode may have steps that the other buffer has dropped.
    for reward, done in zip(rewards, dones, strict=True):
        assert by_reward.get(reward, done) == done
    assert (drawn.discounts == np.float32(0.99)).all()
