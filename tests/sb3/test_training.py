"""Algorithms of Stable-Baselines3 with our buffer and environments; long runs in the soak."""

import os
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import DQN, PPO, SAC, TD3
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecFrameStack, VecMonitor, VecNormalize

import cogrs
from cogrs.sb3 import PrioritizedDQN, ReplayBuffer, VecEnv

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
OURS: dict[str, Any] = {"replay_buffer_class": ReplayBuffer, "device": "cpu", "seed": 0}
SHORT: dict[str, Any] = {
    "learning_starts": 60,
    "buffer_size": 400,
    "batch_size": 16,
    "train_freq": 2,
}
NET = {"net_arch": [16]}


class Images(gymnasium.Env[Any, Any]):
    """Shows a bright row that moves by the action."""

    observation_space = spaces.Box(0, 255, (36, 36, 1), np.uint8)
    action_space = spaces.Discrete(2)

    def _shown(self) -> Any:
        shown = np.zeros((36, 36, 1), np.uint8)
        shown[self.at % 36] = 255
        return shown

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.at = self.steps = 0
        return self._shown(), {}

    def step(self, action: Any) -> Any:
        self.at += int(action)
        self.steps += 1
        return self._shown(), float(action), self.steps == 17, False, {}


class ByKey(gymnasium.Env[Any, Any]):
    """Shows a number and a vector."""

    observation_space = spaces.Dict(
        {"number": spaces.Discrete(3), "vector": spaces.Box(-1, 1, (2,), np.float32)}
    )
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        ends = bool(self.np_random.random() < 0.1)
        return self.observation_space.sample(), 1.0, ends, False, {}


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("algorithm", [DQN, SAC, TD3])
@pytest.mark.parametrize("options", [{}, {"n_step": 3, "sampler": "uniform"}])
def test_algorithm_trains_with_our_buffer(algorithm: Any, num_envs: int, options: Any) -> None:
    name = "CartPole-v1" if algorithm is DQN else "Pendulum-v1"
    env = make_vec_env(name, num_envs, seed=0)
    model = algorithm(
        "MlpPolicy", env, replay_buffer_kwargs=options, policy_kwargs=dict(NET), **OURS, **SHORT
    )
    before = [each.clone() for each in model.policy.parameters()]
    model.learn(600)
    assert any(
        not torch.equal(*pair) for pair in zip(before, model.policy.parameters(), strict=True)
    )
    assert isinstance(model.replay_buffer, ReplayBuffer)
    assert model.replay_buffer.size() == min(600, 400) // num_envs


def test_algorithm_trains_on_observations_by_key_with_our_buffer() -> None:
    options = {"n_step": 2}
    model = DQN("MultiInputPolicy", ByKey(), replay_buffer_kwargs=options, **OURS, **SHORT)
    model.learn(300)
    assert model.replay_buffer is not None
    assert set(model.replay_buffer.sample(4).observations) == {"number", "vector"}


class Numbers(ByKey):
    """Shows numbers, and takes some."""

    def __init__(self, shown: Any, taken: Any) -> None:
        self.observation_space, self.action_space = shown, taken


@pytest.mark.parametrize("shown", [spaces.Discrete(5), spaces.MultiDiscrete([3, 4])])
@pytest.mark.parametrize("algorithm", [DQN, PPO])
def test_algorithm_trains_on_numbers(algorithm: Any, shown: Any) -> None:
    taken = spaces.Discrete(3) if algorithm is DQN else spaces.MultiDiscrete([2, 3])
    envs = VecEnv(cogrs.VectorEnv(lambda: Numbers(shown, taken), num_envs=2))
    more: dict[str, Any] = {"n_steps": 32, "batch_size": 32, "device": "cpu", "seed": 0}
    if algorithm is DQN:
        more = {**OURS, **SHORT}
    model = algorithm("MlpPolicy", envs, policy_kwargs=dict(NET), **more)
    before = [each.clone() for each in model.policy.parameters()]
    model.learn(128)
    assert any(
        not torch.equal(*pair) for pair in zip(before, model.policy.parameters(), strict=True)
    )
    envs.close()


def test_same_rollout_fills_our_buffer_and_theirs_alike() -> None:
    held = []
    for more in ({}, OURS):
        env = make_vec_env("CartPole-v1", 2, seed=0)
        arguments: dict[str, Any] = {"device": "cpu", "seed": 0, "learning_starts": 1000, **more}
        model = DQN("MlpPolicy", env, buffer_size=1000, **arguments)
        model.learn(400)
        held.append(model.replay_buffer)
    theirs, ours = held
    fields = "observations", "next_observations", "actions", "rewards", "dones", "timeouts"
    for field in fields:
        np.testing.assert_array_equal(getattr(ours, field), getattr(theirs, field))


def test_images_train_with_frames_stored_once() -> None:
    env = VecFrameStack(make_vec_env(Images, 2, seed=0), 4)
    model = DQN("CnnPolicy", env, optimize_memory_usage=True, **OURS, **SHORT)
    model.learn(160)
    buffer: Any = model.replay_buffer
    assert buffer.memory.frame_stack == 4
    assert buffer.memory.state_buf.shape == (1, 36, 36)
    drawn = buffer.sample(64)
    assert drawn.observations.shape == (64, 4, 36, 36)
    moved = drawn.observations[:, 1:] == drawn.next_observations[:, :-1]
    assert moved.all()


def test_second_learn_begins_new_episodes() -> None:
    env = VecFrameStack(make_vec_env(Images, 1, seed=0), 4)
    model = DQN("CnnPolicy", env, optimize_memory_usage=True, **OURS, **SHORT)
    model.learn(40)
    with pytest.warns(UserWarning, match="last trajectory in the replay buffer will be truncated"):
        model.learn(40)
    drawn = model.replay_buffer.sample(500)  # type: ignore[union-attr]
    assert (drawn.observations[:, 1:] == drawn.next_observations[:, :-1]).all()


def test_buffer_is_saved_and_loaded_by_the_algorithm(tmp_path: Path) -> None:
    model = DQN("MlpPolicy", "CartPole-v1", **OURS, **SHORT)
    model.learn(200)
    model.save_replay_buffer(tmp_path / "buffer")
    other = DQN("MlpPolicy", "CartPole-v1", **OURS, **SHORT)
    other.load_replay_buffer(tmp_path / "buffer")
    assert isinstance(other.replay_buffer, ReplayBuffer)
    assert other.replay_buffer.size() == 200
    np.testing.assert_array_equal(
        other.replay_buffer.observations,
        model.replay_buffer.observations,  # type: ignore[union-attr]
    )
    other.learn(100)
    assert other.replay_buffer.size() == 300


def test_prioritized_dqn_sends_errors_back_and_anneals_beta(tmp_path: Path) -> None:
    model = PrioritizedDQN(
        "MlpPolicy", "CartPole-v1", n_steps=2, gamma=0.9, beta=0.5, **OURS, **SHORT
    )
    model.learn(300)
    buffer = model.replay_buffer
    assert (buffer.n_step, buffer.gamma, buffer.sampler) == (2, 0.9, "prioritized")
    assert buffer.beta == pytest.approx(1.0, abs=0.01)
    held: Any = buffer._writer
    assert len(np.unique(held.held().weight)) > 20
    model.save(tmp_path / "model")
    loaded = PrioritizedDQN.load(tmp_path / "model", env=model.get_env())
    assert loaded.beta == 0.5
    loaded.learn(100)


def test_prioritized_loss_is_weighted() -> None:
    # With weights of 1 and the same batches it is the loss of DQN.
    runs = []
    for algorithm in (DQN, PrioritizedDQN):
        arguments = {**OURS, **SHORT, "learning_starts": 10_000}
        model = algorithm("MlpPolicy", "CartPole-v1", policy_kwargs=dict(NET), **arguments)
        model.learn(100)
        rows = model.replay_buffer.sample(32)
        weights = {"weights": torch.ones(32, 1), "ids": np.zeros(0, np.uint64)}
        if algorithm is PrioritizedDQN:
            rows = rows._replace(**weights, discounts=torch.full((32, 1), 0.99))
        runs.append((model, rows))
    (plain, rows), (prioritized, like) = runs
    given = like._replace(**{name: getattr(rows, name) for name in rows._fields})
    prioritized.policy.load_state_dict(plain.policy.state_dict())
    plain.replay_buffer.sample = lambda *_, **__: rows  # type: ignore[union-attr,method-assign]
    prioritized.replay_buffer.sample = lambda *_, **__: given  # type: ignore[union-attr,method-assign]
    sent: list[Any] = []
    prioritized.replay_buffer.update_priorities = lambda *pair: sent.append(pair)  # type: ignore
    for model in (plain, prioritized):
        model.train(1, 32)
    for one, other in zip(plain.policy.parameters(), prioritized.policy.parameters(), strict=True):
        torch.testing.assert_close(one, other)
    assert sent[0][1].shape == (32, 1)


@pytest.mark.parametrize("beta", [-0.1, 1.1])
def test_prioritized_dqn_refuses_a_beta_out_of_range(beta: float) -> None:
    with pytest.raises(ValueError, match="beta: expected a number from 0 to 1, got"):
        PrioritizedDQN("MlpPolicy", "CartPole-v1", beta=beta, **OURS)


@pytest.mark.parametrize("wrapper", [VecMonitor, VecNormalize])
def test_ppo_trains_on_built_in_games(wrapper: Any) -> None:
    env = wrapper(VecEnv(cogrs.VectorEnv("cartpole", num_envs=8)))
    model = PPO("MlpPolicy", env, n_steps=32, batch_size=64, n_epochs=2, device="cpu", seed=0)
    model.learn(512)
    assert model.num_timesteps == 512
    env.close()


@pytest.mark.skipif(not SOAK, reason="learns CartPole: HYPOTHESIS_PROFILE=soak")
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("algorithm", ["dqn", "prioritized", "ppo"])
def test_algorithm_learns_cartpole(algorithm: str) -> None:
    env = VecMonitor(VecEnv(cogrs.VectorEnv("cartpole", num_envs=8)))
    if algorithm == "ppo":
        model: Any = PPO("MlpPolicy", env, n_steps=128, device="cpu", seed=0)
        model.learn(100_000)
    else:
        kind: Any = {"dqn": DQN, "prioritized": PrioritizedDQN}[algorithm]
        model = kind(
            "MlpPolicy",
            env,
            learning_rate=1e-3,
            buffer_size=100_000,
            learning_starts=1000,
            batch_size=64,
            train_freq=8,
            gradient_steps=4,
            target_update_interval=200,
            exploration_fraction=0.3,
            policy_kwargs={"net_arch": [256, 256]},
            **OURS,
        )
        model.learn(80_000)
    mean, _ = evaluate_policy(model, env, 20)
    assert mean > 195
    env.close()
