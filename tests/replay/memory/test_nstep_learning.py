"""Learning from n steps, as the documentation says it: the values are right at every step."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cogrs import ReplayMemory
from tests.replay import build
from tests.replay.network import SLACK, pair

STEPS, GAMMA = 6, 0.9
UNSEEN = 2.0
"""The value of the last observation where the episode was truncated."""
CHAIN = np.arange(STEPS)
REWARD = np.float32([0, 0, 0, 0, 0, 1])
ENDINGS = {
    "terminated": ({}, 0.0),
    "truncated": ({"bootstrap_value": UNSEEN}, UNSEEN),
}


def play(rem: ReplayMemory, end: dict[str, Any]) -> None:
    """Play the chain: states 0 .. 5, a reward of 1 for the last action, then state 6."""
    rem.add_episode(**build.steps(STEPS, r=REWARD, v=np.zeros(STEPS)), final_state=STEPS, **end)


def learned(draw: Callable[[], Any]) -> np.ndarray:
    """Values of the states after many tabular updates; nobody says which state ends the chain."""
    values = np.zeros(STEPS + 1)
    values[STEPS] = UNSEEN
    for _ in range(60):
        sample = draw()
        target = sample.nstep_return + sample.nstep_discount * values[sample.next.s[:, 0]]
        values[sample.prev.s[:, 0]] = target
    return values[:STEPS]


def right(after: float) -> np.ndarray:
    return GAMMA ** (STEPS - 1.0 - CHAIN) * (1 + GAMMA * after)


@pytest.mark.parametrize(("end", "after"), ENDINGS.values(), ids=ENDINGS)
@pytest.mark.parametrize("n", [1, 2, 3, 5, 6, 7])
def test_chain_is_learned_in_one_process(n, end, after):
    rem = build.memory(
        64, multi_step=n, discount_factor=GAMMA, new_priority="max", priority_epsilon=1e-3, seed=0
    )
    play(rem, end)
    values = learned(lambda: rem.sample(128, nstep_return=True))
    np.testing.assert_allclose(values, right(after), rtol=1e-5)
    if not end:
        np.testing.assert_allclose(values.round(3), [0.59, 0.656, 0.729, 0.81, 0.9, 1], atol=1e-3)


@pytest.mark.parametrize(("end", "after"), ENDINGS.values(), ids=ENDINGS)
@pytest.mark.parametrize("n", [1, 2, 3, 5, 6, 7])
def test_chain_is_learned_over_a_network(n, end, after):
    settings = {"new_priority": "max", "priority_epsilon": 1e-3, "cache_size": 128}
    with pair(1, nstep=True, multi_step=n, discount_factor=[GAMMA], **settings) as (server, client):
        play(client.rem, end)

        def draw() -> Any:
            client.push_cache()
            return server.get_batch(128, wait=SLACK)

        np.testing.assert_allclose(learned(draw), right(after), rtol=1e-5)


@pytest.mark.parametrize("n", [1, 3])
def test_late_reward_at_the_end_of_the_chain_is_learned(n):
    """After errors have become small, the reward comes: what changed is drawn at once."""
    rem = build.memory(
        64, multi_step=n, discount_factor=GAMMA, new_priority="max", priority_epsilon=1e-3, seed=0
    )
    zeros = np.zeros(STEPS)
    first = rem.add_episode(
        **build.steps(STEPS, r=zeros, v=zeros), final_state=STEPS, do_update_weight=False
    )
    rem.update_priority(range(first, first + STEPS), 1e-6)
    assert rem.add_reward(first + STEPS - 1, 1.0)
    drawn = set(rem.sample(300).prev.s[:, 0].tolist())
    assert set(range(STEPS - n, STEPS)) <= drawn
    values = learned(lambda: rem.sample(512, nstep_return=True))
    np.testing.assert_allclose(values, right(0.0), rtol=1e-5)
