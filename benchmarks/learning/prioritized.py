"""Prioritized replay beside uniform replay, on LunarLander, both by Stable-Baselines3's DQN.

Settings are those of RL Baselines3 Zoo for dqn on LunarLander (hyperparams/dqn.yml); priorities
are those of Schaul et al. 2016 (alpha 0.6, beta from 0.4 to 1).
"""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from benchmarks.learning.curves import interquartile_mean
from benchmarks.learning.proof import Check, Outcome, Proof, at_most
from benchmarks.learning.sb3_run import Returns, greedy_returns, one_thread
from stable_baselines3 import DQN

from cogrs.sb3 import PrioritizedDQN, ReplayBuffer

if TYPE_CHECKING:
    from benchmarks.learning.rows import Rows
    from benchmarks.learning.run import Run

STEPS = 100_000
SETTINGS = {
    "learning_rate": 6.3e-4,
    "batch_size": 128,
    "buffer_size": 50_000,
    "learning_starts": 0,
    "gamma": 0.99,
    "target_update_interval": 250,
    "train_freq": 4,
    "gradient_steps": -1,
    "exploration_fraction": 0.12,
    "exploration_final_eps": 0.1,
    "policy_kwargs": {"net_arch": [256, 256]},
}


def learn(run: Run, *, prioritized: bool) -> Outcome:
    """Learn; the score is the mean of the last 100 episodes."""
    one_thread()
    kind = PrioritizedDQN if prioritized else DQN
    arguments = {"replay_buffer_class": ReplayBuffer, "device": "cpu", "seed": run.seed}
    model = kind("MlpPolicy", "LunarLander-v3", **SETTINGS, **arguments)
    steps = run.budget(STEPS)
    model.learn(steps, callback=Returns(run))
    greedy = greedy_returns(model, "LunarLander-v3", 1 if run.is_short else 20, run.seed)
    return Outcome(steps, run.score(), {"greedy": statistics.fmean(greedy)})


def judge(rows: Rows) -> list[Check]:
    """Compare returns by their interquartile means, and the time by ratios of each seed."""
    ours, theirs = (interquartile_mean(rows.scores(name)) for name in ("prioritized", "uniform"))
    slower = statistics.median(rows.ratios("wall_s", "prioritized", "uniform"))
    return [
        Check(
            "IQM of prioritized >= IQM of uniform", f"{ours:.0f} to {theirs:.0f}", ours >= theirs
        ),
        at_most("wall time of prioritized to uniform", slower, 1.1, "x"),
    ]


PROOF = Proof(
    title="Prioritized replay is not worse than uniform replay",
    source="RL Baselines3 Zoo, dqn on LunarLander",
    settings={
        "prioritized": lambda run: learn(run, prioritized=True),
        "uniform": lambda run: learn(run, prioritized=False),
    },
    seeds=(1, 2, 3, 4, 5),
    judge=judge,
    long=True,
    needs=("Box2D",),
)
