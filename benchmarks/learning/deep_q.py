"""DQN (Mnih et al. 2015) on a `cogrs.ReplayMemory`, in PyTorch, for vector observations."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import gymnasium
import numpy as np
import torch
from torch import nn

import cogrs

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.learning.run import Run


@dataclass(frozen=True)
class Settings:
    """Settings of a DQN; periods are in steps of the environment."""

    learning_rate: float
    hidden: tuple[int, ...]
    buffer_size: int
    batch_size: int
    learning_starts: int
    train_period: int
    updates: int
    """Updates each time that it trains."""
    target_period: int
    exploration: float
    """Share of the steps over which epsilon falls from 1 to its last value."""
    last_epsilon: float
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    max_norm: float | None = None
    """Largest norm of a gradient."""
    gamma: float = 0.99
    random_steps: int = 0
    """Steps at first whose actions are random, whatever epsilon is."""


def make_net(sizes: tuple[int, ...]) -> nn.Sequential:
    """Create a net with ReLU between its layers."""
    layers = [part for each in pairwise(sizes) for part in (nn.Linear(*each), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def learn(run: Run, env_id: str, settings: Settings, total: int) -> tuple[nn.Module, int]:
    """Learn from one environment for `total` steps; return the net and the steps taken."""
    torch.set_num_threads(1)  # nets this small gain nothing from more
    torch.manual_seed(run.seed)
    rng, steps = np.random.default_rng(run.seed), run.budget(total)
    envs = cogrs.VectorEnv(env_id, 1, autoreset_mode="same_step")
    count = int(envs.single_action_space.n)
    sizes = (envs.single_observation_space.shape[0], *settings.hidden, count)
    net, target = make_net(sizes), make_net(sizes)
    target.load_state_dict(net.state_dict())
    optimizer = torch.optim.Adam(net.parameters(), settings.learning_rate)
    memory = cogrs.ReplayMemory.from_env(
        envs, settings.buffer_size, gamma=settings.gamma, sampler="uniform", seed=run.seed
    )
    recorder = memory.recorder(envs)
    obs, paid = envs.reset(seed=run.seed)[0], 0.0
    for step in range(1, steps + 1):
        share = step / (settings.exploration * total)
        epsilon = max(settings.last_epsilon, 1 - share * (1 - settings.last_epsilon))
        if step <= settings.random_steps or rng.random() < epsilon:
            action = rng.integers(count, size=1)
        else:
            with torch.no_grad():
                action = net(torch.from_numpy(obs)).argmax(1).numpy()
        following, reward, terminated, truncated, infos = envs.step(action)
        recorder.add(obs, action, reward, terminated, truncated, following, infos=infos)
        obs, paid = following, paid + float(reward[0])
        if terminated[0] or truncated[0]:
            run.episode(step, paid)
            paid = 0.0
        if step > settings.learning_starts and step % settings.train_period == 0:
            for _ in range(settings.updates):
                update(memory, net, target, optimizer, settings)
        if step % settings.target_period == 0:
            target.load_state_dict(net.state_dict())
    envs.close()
    return net, steps


def update(
    memory: cogrs.ReplayMemory,
    net: nn.Module,
    target: nn.Module,
    optimizer: torch.optim.Optimizer,
    settings: Settings,
) -> None:
    """Take one step of Q-learning."""
    batch = cogrs.torch.as_tensors(memory.sample(settings.batch_size, nstep_return=True))
    with torch.no_grad():
        best = target(batch.next.state[:, 0]).amax(1)  # a stack of one frame
        goal = batch.nstep_return + batch.nstep_discount * best  # the discount is 0 at an end
    value = net(batch.prev.state[:, 0]).gather(1, batch.prev.action[:, None])[:, 0]
    loss = settings.loss(value, goal)
    optimizer.zero_grad()
    loss.backward()
    if settings.max_norm is not None:
        nn.utils.clip_grad_norm_(net.parameters(), settings.max_norm)
    optimizer.step()


def greedy_returns(net: nn.Module, env_id: str, episodes: int, seed: int) -> list[float]:
    """Return the returns of episodes without exploration."""
    env, returns = gymnasium.make(env_id), []
    obs, _ = env.reset(seed=10_000 + seed)
    while len(returns) < episodes:
        paid, over = 0.0, False
        while not over:
            with torch.no_grad():
                action = int(net(torch.from_numpy(obs)).argmax())
            obs, reward, terminated, truncated, _ = env.step(action)
            paid, over = paid + float(reward), terminated or truncated
        returns.append(paid)
        obs, _ = env.reset()
    return returns
