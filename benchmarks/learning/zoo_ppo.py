"""Stable-Baselines3's PPO on CartPole-v1 with its own vector environment and with ours.

Settings are those of RL Baselines3 Zoo (hyperparams/ppo.yml), which publishes 500 +- 0 for its
trained agent.
"""

from __future__ import annotations

from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from benchmarks.learning.proof import Check, Outcome, Proof, at_least, at_most
from benchmarks.learning.sb3_run import Returns, greedy_returns, one_thread
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecMonitor

import cogrs
from cogrs.sb3 import VecEnv

if TYPE_CHECKING:
    from benchmarks.learning.rows import Rows
    from benchmarks.learning.run import Run

STEPS, ENVS, TESTS = 100_000, 8, 20
OURS, THEIRS = "SB3 with cogrs.sb3", "SB3"


def learn(run: Run, *, ours: bool) -> Outcome:
    """Learn; the score is the mean return without exploration, in Gymnasium's environment."""
    one_thread()
    if ours:
        envs: Any = VecMonitor(VecEnv(cogrs.VectorEnv("cartpole", ENVS, seed=run.seed)))
    else:
        envs = make_vec_env("CartPole-v1", ENVS, seed=run.seed)
    model = PPO(
        "MlpPolicy",
        envs,
        n_steps=32,
        batch_size=256,
        gae_lambda=0.8,
        gamma=0.98,
        n_epochs=20,
        ent_coef=0.0,
        # The share of the run that is left.
        learning_rate=lambda left: left * 1e-3,
        clip_range=lambda left: left * 0.2,
        device="cpu",
        seed=run.seed,
    )
    model.learn(run.budget(STEPS), callback=Returns(run))
    greedy = greedy_returns(model, "CartPole-v1", 1 if run.is_short else TESTS, run.seed)
    envs.close()
    return Outcome(model.num_timesteps, fmean(greedy), {"last 100": run.score()})


def judge(rows: Rows) -> list[Check]:
    """Compare returns and the time with those of Stable-Baselines3."""
    faster = median(rows.ratios("wall_s", OURS, THEIRS))
    return [
        at_least("median greedy return", median(rows.scores(OURS)), median(rows.scores(THEIRS))),
        at_most("wall time to SB3 with its own parts", faster, 1.0, "x"),
    ]


PROOF = Proof(
    title="SB3's PPO learns the same with our vector environment, in less time",
    source="RL Baselines3 Zoo, ppo on CartPole-v1: 500 +- 0",
    settings={OURS: lambda run: learn(run, ours=True), THEIRS: lambda run: learn(run, ours=False)},
    seeds=(1, 2, 3, 4, 5),
    judge=judge,
)
