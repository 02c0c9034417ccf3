"""Who acts in the demo explores for as long as the learner has not learned."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tests.demo.process import MISSING

if MISSING:
    pytest.skip(f"no extra 'demo': {', '.join(MISSING)}", allow_module_level=True)

from cogrs.demo.actor import Policy
from cogrs.demo.q_learning import UPDATES, draw_parameters
from cogrs.workers import pack_arrays

STATES = np.random.default_rng(0).random((64, 4), np.float32)


@pytest.fixture
def policy():
    return Policy(draw_parameters(4, 2, seed=0), num_action=2, seed=0)


def test_policy_acts_at_random_until_the_learner_updates(policy):
    for _ in range(200):
        np.testing.assert_array_equal(policy(STATES).prob, 0.5)


def test_policy_takes_the_best_action_after_updates(policy):
    least = []
    for policy.updates in (0, 100, 300, 500, 10_000):
        decision = policy(STATES)
        least.append(decision.prob.max())
    assert least == sorted(least)
    assert least[-2:] == pytest.approx([0.99, 0.99])


def test_policy_follows_published_parameters(policy):
    parameters = draw_parameters(4, 2, seed=1)
    ended = threading.Event()

    class Client:
        def sub_bytes(self, topic, *, timeout, last):
            ended.set()
            return pack_arrays({**parameters, UPDATES: np.int64(30)})

    policy.follow(Client(), ended)
    assert policy.updates == 30
    assert policy.parameters.keys() == parameters.keys()
    for name, array in parameters.items():
        np.testing.assert_array_equal(policy.parameters[name], array)
