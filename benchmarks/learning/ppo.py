"""PPO on a `cogrs.VectorEnv` and on Gymnasium's `SyncVectorEnv`, by the same loop.

Settings are the defaults of CleanRL's ppo.py (Huang et al. 2022) on CartPole-v1, which publishes
490.04 +- 6.12 as the mean of the last 100 episodes over three seeds. As there, a truncated episode
counts as one that terminated.
"""

from __future__ import annotations

import time
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import torch
from benchmarks.learning.proof import Check, Outcome, Proof, at_least
from clipped_policy import make_net
from gymnasium.vector import AutoresetMode
from torch import nn
from torch.distributions import Categorical

import cogrs

if TYPE_CHECKING:
    from benchmarks.learning.rows import Rows
    from benchmarks.learning.run import Run

ENVS, LENGTH, TOTAL, RATE = 4, 128, 500_000, 2.5e-4
GAMMA, LAMBDA, EPOCHS, PARTS = 0.99, 0.95, 4, 4
CLIP, ENTROPY, VALUE_LOSS, MAX_NORM = 0.2, 0.01, 0.5, 0.5
OURS, THEIRS = "VectorEnv", "SyncVectorEnv"


def vector_env(run: Run) -> Outcome:
    """Learn from the built-in game, which runs in Rust."""
    return learn(run, cogrs.VectorEnv("cartpole", ENVS, autoreset_mode="same_step"))


def sync_vector_env(run: Run) -> Outcome:
    """Learn from Gymnasium's environments in Python."""
    make = [lambda: gymnasium.make("CartPole-v1")] * ENVS
    mode = AutoresetMode.SAME_STEP
    return learn(run, gymnasium.vector.SyncVectorEnv(make, autoreset_mode=mode))


def learn(run: Run, envs: Any) -> Outcome:
    """Learn; the score is the mean of the last 100 episodes."""
    torch.set_num_threads(1)  # nets this small gain nothing from more
    torch.manual_seed(run.seed)
    size, actions = envs.single_observation_space.shape[0], int(envs.single_action_space.n)
    policy, critic = make_net((size, 64, 64, actions), 0.01), make_net((size, 64, 64, 1), 1)
    optimizer = torch.optim.Adam([*policy.parameters(), *critic.parameters()], RATE, eps=1e-5)
    obs, paid, steps, stepping = envs.reset(seed=run.seed)[0], np.zeros(ENVS), 0, 0.0
    total = run.budget(TOTAL)
    while steps + ENVS * LENGTH <= total or not steps:
        optimizer.param_groups[0]["lr"] = RATE * (1 - steps / TOTAL)
        kept: dict[str, list[torch.Tensor]] = {
            key: [] for key in ("obs", "action", "log", "value", "reward", "over")
        }
        for _ in range(LENGTH):
            with torch.no_grad():
                seen = torch.from_numpy(np.array(obs))
                chances = Categorical(logits=policy(seen))
                action, value = chances.sample(), critic(seen)[:, 0]
                row = (seen, action, chances.log_prob(action), value)
            moves, began = action.numpy(), time.perf_counter()
            obs, reward, terminated, truncated, _ = envs.step(moves)
            stepping += time.perf_counter() - began
            over, paid, steps = terminated | truncated, paid + reward, steps + ENVS
            for each in paid[over]:
                run.episode(steps, each)
            paid[over] = 0
            row += tuple(torch.as_tensor(each, dtype=torch.float32) for each in (reward, over))
            for key, part in zip(kept, row, strict=True):
                kept[key].append(part)
        with torch.no_grad():
            last = critic(torch.from_numpy(np.array(obs)))[:, 0]
        update(
            policy, critic, optimizer, {key: torch.stack(each) for key, each in kept.items()}, last
        )
    envs.close()
    return Outcome(steps, run.score(), {"env steps/s": steps / stepping})


def update(
    policy: nn.Module,
    critic: nn.Module,
    optimizer: torch.optim.Optimizer,
    kept: dict[str, torch.Tensor],
    last: torch.Tensor,
) -> None:
    """Learn from `LENGTH` steps of all environments, arrays (LENGTH, ENVS)."""
    advantage, later, following = torch.zeros_like(kept["value"]), torch.zeros(ENVS), last
    for at in reversed(range(LENGTH)):
        goes_on = 1 - kept["over"][at]
        error = kept["reward"][at] + GAMMA * following * goes_on - kept["value"][at]
        later = error + GAMMA * LAMBDA * goes_on * later
        advantage[at], following = later, kept["value"][at]
    rows = {key: each.flatten(0, 1) for key, each in kept.items()}
    gain, before = advantage.flatten(), rows["value"]
    goal = gain + before
    for _ in range(EPOCHS):
        for part in torch.randperm(len(goal)).chunk(PARTS):
            chances = Categorical(logits=policy(rows["obs"][part]))
            ratio = (chances.log_prob(rows["action"][part]) - rows["log"][part]).exp()
            scaled = (gain[part] - gain[part].mean()) / (gain[part].std() + 1e-8)
            won = torch.min(ratio * scaled, ratio.clamp(1 - CLIP, 1 + CLIP) * scaled).mean()
            value = critic(rows["obs"][part])[:, 0]
            near = before[part] + (value - before[part]).clamp(-CLIP, CLIP)
            errors = torch.max((value - goal[part]) ** 2, (near - goal[part]) ** 2)
            loss = VALUE_LOSS * 0.5 * errors.mean() - won - ENTROPY * chances.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], MAX_NORM)
            optimizer.step()


def judge(rows: Rows) -> list[Check]:
    """Compare the mean over the seeds with the goal, and the rates of steps seed by seed."""
    faster = median(rows.ratios("env steps/s", OURS, THEIRS))
    return [
        at_least("mean of the last 100 episodes", fmean(rows.scores(OURS)), 475),
        at_least("steps/s within step() to SyncVectorEnv", faster, 5, "x"),
    ]


PROOF = Proof(
    title="PPO on VectorEnv reaches the published return, and its steps take a fifth of the time",
    source="CleanRL ppo: 490.0 +- 6.1",
    settings={OURS: vector_env, THEIRS: sync_vector_env},
    seeds=(1, 2, 3),
    judge=judge,
    long=True,
)
