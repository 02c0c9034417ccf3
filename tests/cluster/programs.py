"""A policy and a learner for CartPole that need NumPy alone: linear values, learned by steps."""

import os
import time

import gymnasium
import numpy as np

from cogrs.cluster import Plan

BAD_FILE = "COGRS_TEST_BAD"
"""Variable of the environment: while this file exists, policies fail."""


class LinearPolicy:
    """Greedy, but for some actions at random."""

    def __init__(self, context):
        self._rng = np.random.default_rng(context.seed)
        self._actions = int(context.action_space.n)
        self._w = np.zeros((context.observation_space.shape[0] + 1, self._actions))
        self._epsilon = 0.4 ** (1 + 7 * context.index / max(1, context.actors - 1))

    def load(self, parameters):
        self._w = parameters["w"]

    def act(self, observations):
        greedy = (with_one(observations) @ self._w).argmax(1)
        random = self._rng.integers(self._actions, size=len(greedy))
        return np.where(self._rng.random(len(greedy)) < self._epsilon, random, greedy)


class FailingPolicy(LinearPolicy):
    """Fails after a few steps, while a file is there or always."""

    def act(self, observations):
        path = os.environ.get(BAD_FILE)
        if path is None or os.path.exists(path):
            raise ValueError("this policy always fails")
        return super().act(observations)


class LinearLearner:
    """Q-learning with a linear function, thirty updates a second.

    Actors are held to that by the limiter: a run leaves the machine time for other tests.
    """

    def __init__(self, observation_space, action_space):
        self._w = np.zeros((observation_space.shape[0] + 1, int(action_space.n)))
        self.updates = np.int64(0)

    def update(self, batch):
        rows = np.arange(len(batch.weight))
        state, following = with_one(batch.prev.state[:, 0]), with_one(batch.next.state[:, 0])
        goal = batch.nstep_return + batch.nstep_discount * (following @ self._w).max(1)
        error = goal - (state @ self._w)[rows, batch.prev.action]
        for action in range(self._w.shape[1]):
            mine = batch.prev.action == action
            self._w[:, action] += 0.01 * (error[mine] @ state[mine]) / len(rows)
        self.updates += 1
        time.sleep(0.03)
        return np.abs(error)

    def parameters(self):
        return {"w": self._w}

    def state(self):
        return {"w": self._w, "updates": self.updates}

    def restore(self, state):
        self._w, self.updates = np.array(state["w"]), np.int64(state["updates"])


def make_broken(**options):
    """An environment that fails at its first step."""
    env = gymnasium.make("CartPole-v1", **options)

    def step(action):
        raise OSError("the simulator is gone")

    env.step = step
    return env


def with_one(observations):
    return np.concatenate([observations, np.ones((len(observations), 1))], 1)


def plan(storage, **changes):
    """A small plan, whose run goes on until it is stopped."""
    given = {
        "make_env": "cartpole",
        "policy": "tests.cluster.programs:LinearPolicy",
        "learner": "tests.cluster.programs:LinearLearner",
        "shards": 2,
        "actors": 2,
        "envs_per_actor": 4,
        "batch_size": 16,
        "n_caches": 4,
        "cache_size": 32,
        "checkpoint_seconds": 1.0,
        "limiter": {"samples_per_insert": 2, "min_size": 100, "error_buffer": 400},
        "storage": storage,
        "seed": 1,
    }
    return Plan(**given | changes)
