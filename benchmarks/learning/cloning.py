"""Behaviour cloning: a scripted policy plays trials, and a net learns to act as it did.

The trials are kept in a store, exported as a data set of Minari, and imported into a
`cogrs.ReplayMemory`: examples/behaviour_cloning.py, whose parts run here.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from statistics import fmean
from typing import TYPE_CHECKING

import behaviour_cloning as example
import gymnasium
from benchmarks.learning.proof import Check, Outcome, Proof, at_least
from double_dqn import make_nets

import cogrs
from cogrs import datasets
from cogrs.store import open_store

if TYPE_CHECKING:
    from benchmarks.learning.rows import Rows
    from benchmarks.learning.run import Run

TRIALS, BATCHES, TESTED = 20, 5_000, 250


def clone(run: Run) -> Outcome:
    """Learn; the score is the mean return of ten episodes after the last batch."""
    batches, env = run.budget(BATCHES), gymnasium.make("CartPole-v1")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MINARI_DATASETS_PATH"] = f"{folder}/datasets"
        trials = 1 if run.is_short else TRIALS
        asyncio.run(example.play(f"{folder}/trials", trials, run.seed))
        with open_store(f"{folder}/trials") as store:
            (made,) = datasets.to_minari(store, "cartpole/script-v0", env="CartPole-v1")
        memory = cogrs.ReplayMemory.from_env(
            env, made.steps + made.episodes, sampler="uniform", seed=run.seed
        )
        datasets.from_minari(made.dataset_id, memory, bootstrap=0.0)
    params, _, _ = make_nets(env, run.seed)
    optimizer, returns = example.OPTIMIZER.init(params), [0.0]
    for batch in range(1, batches + 1):
        prev = memory.sample(example.BATCH_SIZE).prev
        params, optimizer, _ = example.update(params, optimizer, prev.state[:, 0], prev.action)
        if batch % TESTED == 0 or batch == batches:
            returns = example.test(env, params, run.seed)
            run.episode(batch, fmean(returns))
    return Outcome(made.steps, fmean(returns))


def judge(rows: Rows) -> list[Check]:
    """Compare the worst seed with the goal."""
    return [at_least("least return of all seeds", min(rows.scores("cogrs")), 475)]


PROOF = Proof(
    title="A net learns from exported trials to act as their policy did",
    source="examples/behaviour_cloning.py; the policy's own return is 500",
    settings={"cogrs": clone},
    seeds=(1, 2, 3),
    judge=judge,
    needs=("minari", "pyarrow"),
)
