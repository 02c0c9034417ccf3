"""DQN on our replay as good as the reference: CleanRL's dqn on CartPole-v1, 500,000 steps.

Settings are the defaults of CleanRL's dqn.py. It publishes 488.69 +- 16.11, and 498.38 +- 2.29 for
dqn_jax.py, as the mean of the last 100 episodes over three seeds.
"""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

from benchmarks.learning.deep_q import Settings, learn
from benchmarks.learning.proof import Check, Outcome, Proof, at_least
from torch.nn.functional import mse_loss

if TYPE_CHECKING:
    from benchmarks.learning.rows import Rows
    from benchmarks.learning.run import Run

SETTINGS = Settings(
    learning_rate=2.5e-4,
    hidden=(120, 84),
    buffer_size=10_000,
    batch_size=128,
    learning_starts=10_000,
    train_period=10,
    updates=1,
    target_period=500,
    exploration=0.5,
    last_epsilon=0.05,
    loss=mse_loss,
)


def cleanrl(run: Run) -> Outcome:
    """Learn; the score is the mean of the last 100 episodes, with 5 % random actions."""
    _, steps = learn(run, "CartPole-v1", SETTINGS, 500_000)
    return Outcome(steps, run.score())


def judge(rows: Rows) -> list[Check]:
    """Compare the mean over the seeds with the goal."""
    return [at_least("mean of the last 100 episodes", fmean(rows.scores("cogrs")), 475)]


PROOF = Proof(
    title="DQN on cogrs.ReplayMemory reaches the published return",
    source="CleanRL dqn: 488.7 +- 16.1",
    settings={"cogrs": cleanrl},
    seeds=(1, 2, 3),
    judge=judge,
    long=True,
)
