"""The calls that CleanRL's dqn.py, c51.py and ppo.py make of buffers and environments."""

from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from stable_baselines3.common.buffers import ReplayBuffer as TheirBuffer

import cogrs
from cogrs.sb3 import ReplayBuffer

FIELDS = "observations", "next_observations", "actions", "rewards", "dones"


def cartpole() -> gymnasium.Env[Any, Any]:
    env = gymnasium.make("CartPole-v1", max_episode_steps=22)
    return gymnasium.wrappers.RecordEpisodeStatistics(env)


def buffer_of(kind: Any, envs: Any, num_envs: int) -> Any:
    return kind(
        1000,
        envs.single_observation_space,
        envs.single_action_space,
        torch.device("cpu"),
        n_envs=num_envs,
        handle_timeout_termination=False,
    )


@pytest.mark.parametrize("num_envs", [1, 3])
def test_loop_of_dqn_fills_our_buffer_and_theirs_alike(num_envs: int) -> None:
    envs = SyncVectorEnv([cartpole] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)
    ours, theirs = (buffer_of(kind, envs, num_envs) for kind in (ReplayBuffer, TheirBuffer))
    envs.single_action_space.seed(0)
    obs, _ = envs.reset(seed=1)
    ends = set()
    for _ in range(300):
        actions = np.array([envs.single_action_space.sample() for _ in range(num_envs)])
        next_obs, rewards, terminations, truncations, infos = envs.step(actions)
        real_next_obs = next_obs.copy()
        for number, truncated in enumerate(truncations):
            ends |= {(bool(terminations[number]), bool(truncated))}
            if truncated:
                real_next_obs[number] = infos["final_obs"][number]
        for buffer in (ours, theirs):
            buffer.add(obs, real_next_obs, actions, rewards, terminations, infos)
        obs = next_obs
    assert {(True, False), (False, True)} <= ends
    for field in FIELDS:
        np.testing.assert_array_equal(getattr(ours, field), getattr(theirs, field))
    envs.close()


def target_of_c51(data: Any, net: torch.nn.Module, atoms: torch.Tensor, gamma: float) -> Any:
    """Return the projected distribution's shape by the calls that c51.py makes of a batch."""
    shown = net(data.next_observations).reshape(len(data.rewards), -1, len(atoms))
    best = (shown.softmax(2) * atoms).sum(2).argmax(1)
    assert shown[torch.arange(len(best)), best].shape == (len(best), len(atoms))
    return (data.rewards + gamma * atoms * (1 - data.dones)).clamp(atoms[0], atoms[-1])


def test_batches_have_the_shapes_that_dqn_and_c51_compute_with() -> None:
    envs = SyncVectorEnv([cartpole])
    ours, theirs = (buffer_of(kind, envs, 1) for kind in (ReplayBuffer, TheirBuffer))
    obs, _ = envs.reset(seed=0)
    for _ in range(60):
        actions = envs.action_space.sample()
        next_obs, rewards, terminations, _, infos = envs.step(actions)
        for buffer in (ours, theirs):
            buffer.add(obs, next_obs, actions, rewards, terminations, infos)
        obs = next_obs
    net, atoms = torch.nn.Linear(4, 2 * 11), torch.linspace(-5, 5, 11)
    values = torch.nn.Linear(4, 2)
    losses = []
    for buffer in (ours, theirs):
        data = buffer.sample(16)
        with torch.no_grad():
            best, _ = values(data.next_observations).max(dim=1)
            target = data.rewards.flatten() + 0.99 * best * (1 - data.dones.flatten())
        found = values(data.observations).gather(1, data.actions).squeeze()
        losses.append(torch.nn.functional.mse_loss(target, found))
        assert target_of_c51(data, net, atoms, 0.99).shape == (16, 11)
    assert all(loss.shape == () and loss.isfinite() for loss in losses)
    envs.close()


def test_loop_of_ppo_runs_on_our_environments_and_logs_episodes() -> None:
    num_envs, num_steps = 4, 64
    made: Any = cogrs.VectorEnv("cartpole", num_envs=num_envs)
    envs = gymnasium.wrappers.vector.RecordEpisodeStatistics(made)
    assert isinstance(envs.single_action_space, gymnasium.spaces.Discrete)
    obs = torch.zeros((num_steps, num_envs, *envs.single_observation_space.shape))
    actions = torch.zeros((num_steps, num_envs, *envs.single_action_space.shape))
    rewards, dones = torch.zeros((2, num_steps, num_envs))
    following, _ = envs.reset(seed=1)
    next_obs, next_done = torch.Tensor(following), torch.zeros(num_envs)
    logged = []
    for step in range(num_steps):
        obs[step], dones[step] = next_obs, next_done
        action = torch.distributions.Categorical(logits=torch.zeros(num_envs, 2)).sample()
        actions[step] = action
        following, reward, terminations, truncations, infos = envs.step(action.numpy())
        rewards[step] = torch.tensor(reward).view(-1)
        done = np.logical_or(terminations, truncations)
        next_obs, next_done = torch.Tensor(following), torch.Tensor(done)
        if "episode" in infos:
            logged += infos["episode"]["r"][infos["_episode"]].tolist()
    assert logged
    assert sum(logged) <= rewards.sum()
    assert dones.sum() > 0
    envs.close()


def test_loop_of_dqn_atari_stores_frames_once() -> None:
    # There `next_obs` of a step that terminated is the first observation of the next episode.
    space = gymnasium.spaces.Box(0, 255, (4, 8, 8), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)
    options: dict[str, Any] = {"optimize_memory_usage": True, "handle_timeout_termination": False}
    ours: Any = ReplayBuffer(200, space, action_space, "cpu", **options)
    rng = np.random.default_rng(0)
    obs = np.zeros((1, 4, 8, 8), np.uint8)
    rows = []
    for step in range(120):
        frame = rng.integers(1, 255, (1, 1, 8, 8), np.uint8)
        terminated = np.array([step % 11 == 10])
        first = np.repeat(frame, 4, axis=1)
        next_obs = first if terminated[0] else np.concatenate([obs[:, 1:], frame], axis=1)
        row = obs, next_obs, np.array([step % 2]), np.array([1.0]), terminated
        ours.add(*row, {})
        rows.append(row)
        obs = next_obs
    assert ours.memory.frame_stack == 4
    np.testing.assert_array_equal(ours.observations[:120], [row[0] for row in rows])
    for shown, row in zip(ours.next_observations[:120], rows, strict=True):
        newest = slice(3 if row[4][0] else 0, 4)
        np.testing.assert_array_equal(shown[:, newest], row[1][:, newest])
    np.testing.assert_array_equal(ours.dones[:120], [row[4] for row in rows])
