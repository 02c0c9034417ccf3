"""Learning from the same draws is the same, to the bit, with our buffer and Stable-Baselines3's."""

from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from stable_baselines3 import DQN
from stable_baselines3.common import buffers
from stable_baselines3.common.env_util import make_vec_env

from cogrs.sb3 import ReplayBuffer
from tests.combinations import pairwise
from tests.sb3.rollout import BOX, DISCRETE, rollout

STEPS = 600
FIELDS = ("observations", "actions", "next_observations", "dones", "rewards")


class Twin(ReplayBuffer):
    """Adds to two buffers, draws from ours, and looks the drawn steps up in that of the library.

    That one holds all steps of a run. A step is known by its observation, which no other one has.
    """

    def __init__(
        self,
        buffer_size: int,
        *spaces: Any,
        shows_theirs: bool,
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        **more: Any,
    ) -> None:
        options: Any = {
            "n_envs": n_envs,
            "optimize_memory_usage": optimize_memory_usage,
            "handle_timeout_termination": handle_timeout_termination,
        }
        device = {"device": more.pop("device")}
        super().__init__(buffer_size, *spaces, **options, **device, **more)
        # Their buffer refuses both.
        options["optimize_memory_usage"] &= not handle_timeout_termination
        kind = buffers.NStepReplayBuffer if more else buffers.ReplayBuffer
        self.other: Any = kind(2 * STEPS, *spaces, **options, **device, **more)
        self.shows_theirs = shows_theirs
        self.places: dict[bytes, tuple[int, int]] = {}
        self.batches: list[tuple[Any, Any]] = []

    def add(self, obs: Any, *more: Any) -> None:
        for env, each in enumerate(obs):
            self.places[each.tobytes()] = self.other.pos, env
        super().add(obs, *more)
        self.other.add(obs, *more)

    def sample(self, batch_size: int, env: Any = None) -> Any:
        ours = super().sample(batch_size, env)
        drawn = [self.places[each.numpy().tobytes()] for each in ours.observations]
        calls, envs = np.array(drawn).T
        with mock.patch.object(np.random, "randint", return_value=envs):
            theirs = self.other._get_samples(calls, env)
        self.batches.append((ours, theirs))
        return theirs if self.shows_theirs else ours


def learned(num_envs: int, options: dict[str, Any], twin: dict[str, Any]) -> Any:
    """Return a DQN after a short run, in which some episodes are truncated."""
    env = make_vec_env("CartPole-v1", num_envs, seed=0, env_kwargs={"max_episode_steps": 15})
    model = DQN(
        "MlpPolicy",
        env,
        learning_rate=2.3e-3,
        batch_size=16,
        learning_starts=100,
        train_freq=16 // num_envs,
        gradient_steps=4,
        target_update_interval=10,
        policy_kwargs={"net_arch": [32]},
        replay_buffer_class=Twin,
        replay_buffer_kwargs=twin,
        device="cpu",
        seed=3,
        **options,
    )
    before = [each.clone() for each in model.q_net.parameters()]
    model.learn(STEPS)
    pairs = zip(model.q_net.parameters(), before, strict=True)
    assert not any(torch.equal(one, other) for one, other in pairs)
    buffer = model.replay_buffer
    assert len(buffer.places) == num_envs * buffer.other.pos >= STEPS
    assert len(buffer.batches) > 100
    return model


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether tensors are equal to the bit, dtype and shape included."""
    alike = one.dtype == other.dtype and one.shape == other.shape
    return alike and one.numpy().tobytes() == other.numpy().tobytes()


@pytest.mark.parametrize(
    ("handled", "optimized", "num_envs", "size"),
    pairwise([True, False], [True, False], [1, 4], [2 * STEPS, 200]),
)
def test_dqn_learns_the_same_parameters_from_the_same_draws(
    handled: bool, optimized: bool, num_envs: int, size: int
) -> None:
    options = {"buffer_size": size, "optimize_memory_usage": optimized}
    twin = {"handle_timeout_termination": handled}
    models = [learned(num_envs, options, {**twin, "shows_theirs": shown}) for shown in (0, 1)]
    for model in models:
        buffer = model.replay_buffer
        assert buffer.other.timeouts.any() == handled
        for ours, theirs in buffer.batches:
            for field in FIELDS:
                pair = getattr(ours, field), getattr(theirs, field)
                if field == "next_observations" and optimized and not handled:
                    # Theirs has the next episode's there, whose value is multiplied by 0.
                    pair = tuple(each[ours.dones[:, 0] == 0] for each in pair)
                assert same(*pair), field
    states = [model.policy.state_dict() for model in models]
    assert all(same(states[0][name], states[1][name]) for name in states[0])


def test_n_steps_learn_alike_from_the_same_draws() -> None:
    # Sums of rewards and powers of gamma are rounded once from float64; theirs are float32.
    options = {"buffer_size": STEPS}
    twin = {"n_steps": 3, "gamma": 0.99, "shows_theirs": False}
    buffer = learned(4, options, twin).replay_buffer
    assert buffer.other.timeouts.any()
    for ours, theirs in buffer.batches:
        for field in (*FIELDS, "discounts"):
            pair = getattr(ours, field), getattr(theirs, field)
            if field in ("rewards", "discounts"):
                torch.testing.assert_close(*pair, rtol=2e-7, atol=0)
            else:
                assert same(*pair), field


@pytest.mark.parametrize("num_envs", [1, 4])
def test_draws_are_uniform_over_the_steps_that_a_full_buffer_holds(num_envs: int) -> None:
    capacity, added, draws = 60, 200, 40_000
    buffer = ReplayBuffer(capacity * num_envs, BOX, DISCRETE, "cpu", num_envs, seed=0)
    for at, step in enumerate(rollout(added, num_envs)):
        number = np.arange(at * num_envs, (at + 1) * num_envs, dtype=np.float32)
        buffer.add(*step._replace(reward=number))
    drawn = buffer.sample(draws).rewards.numpy().astype(np.int64).ravel()
    held = np.count_nonzero(buffer.rewards)
    numbers, counts = np.unique(drawn, return_counts=True)
    for env in range(num_envs):
        ages = added - numbers[numbers % num_envs == env] // num_envs
        # Whole episodes or pieces (16 steps) are evicted, so what is held is not exactly the newest
        # `capacity`. Nothing among it is missing: the newest step is drawn as the others are.
        assert sorted(ages) == list(range(1, len(ages) + 1))
        assert held // num_envs <= len(ages) < capacity + 16
    mean = draws / len(numbers)
    # Chi-square of k degrees of freedom is above k + 4 * sqrt(2 * k) once in 10,000 times or less.
    freedom = len(numbers) - 1
    assert ((counts - mean) ** 2 / mean).sum() < freedom + 4 * (2 * freedom) ** 0.5
