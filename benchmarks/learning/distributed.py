"""A run of many processes learns the same as one process with as many environment steps.

Ape-X in small (Horgan et al. 2018): the plan of examples/cluster, with four actors, two shards and
8 samples per step inserted. Alone, one process has the same policies, environments, learner and
ratio of samples to steps. The score is the mean return of the last 100 episodes of the actor that
hardly explores.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import deque
from dataclasses import replace
from statistics import fmean, median, stdev
from typing import TYPE_CHECKING, Any

import numpy as np
from benchmarks.learning import ROOT
from benchmarks.learning.proof import Check, Outcome, Proof, at_most

import cogrs
from cogrs import cluster

if TYPE_CHECKING:
    from benchmarks.learning.rows import Rows
    from benchmarks.learning.run import Run

FOLDER = ROOT / "examples/cluster"
STEPS, PERIOD = 160_000, 1.0  # steps of all environments; seconds between two looks at a run
FIGURE = "us per step"


def plan_of(run: Run, folder: str) -> cluster.Plan:
    """Return the example's plan with this seed, which runs until it is stopped."""
    sys.path.insert(0, str(FOLDER))  # the plan names functions of its folder
    plan = cluster.Plan.from_toml(FOLDER / "plan.toml")
    return replace(plan, storage=folder, seed=run.seed, updates=None)


def distributed(run: Run) -> Outcome:
    """Learn with four actors, two shards and a learner, each a process."""
    steps = run.budget(STEPS)
    with (
        tempfile.TemporaryDirectory() as folder,
        cluster.launch(plan_of(run, folder), name="proof") as processes,
    ):
        began, count = time.monotonic(), 0
        while count < steps:
            if processes.wait(PERIOD):
                raise RuntimeError(f"the run ended by itself: {processes.status().error}")
            actors = [each for each in processes.status().parts if each.role == "actor"]
            count = sum(each.count for each in actors)
            score = actors[-1].figures.get("mean_return") if actors else None
            if score is not None:
                run.episode(count, score)
        seconds = time.monotonic() - began
    return Outcome(count, run.returns[-1], {FIGURE: 1e6 * seconds / count})


def alone(run: Run) -> Outcome:
    """Learn in this process."""
    steps, plan = run.budget(STEPS), plan_of(run, ".")
    from dqn import Learner, Policy

    number, at_once = plan.actors, plan.envs_per_actor
    envs = cogrs.VectorEnv(plan.make_env, number * at_once, seed=run.seed)
    spaces = envs.single_observation_space, envs.single_action_space
    policies = [
        Policy(
            cluster.PolicyContext(
                observation_space=spaces[0],
                action_space=spaces[1],
                index=index,
                actors=number,
                num_envs=at_once,
                seed=1_000 * run.seed + index,
            )
        )
        for index in range(number)
    ]
    capacity = number * plan.capacity
    memory = cogrs.ReplayMemory.from_spaces(*spaces, capacity, seed=run.seed, **plan.settings)
    recorder, learner, updates = memory.recorder(envs), Learner(*spaces), 0
    limiter: Any = plan.limiter
    obs, paid, latest = envs.reset(seed=run.seed)[0], np.zeros(envs.num_envs), deque(maxlen=100)
    began, count = time.monotonic(), 0
    while count < steps:
        parts = np.split(np.array(obs), number)
        action = np.concatenate([p.act(part) for p, part in zip(policies, parts, strict=True)])
        following, reward, terminated, truncated, _ = envs.step(action)
        recorder.add(obs, action, reward, terminated, truncated, following)
        obs, paid, count = following, paid + reward, count + envs.num_envs
        for at in np.flatnonzero(terminated | truncated):
            if at >= envs.num_envs - at_once:
                latest.append(float(paid[at]))
                run.episode(count, fmean(latest))
            paid[at] = 0.0
        allowed = limiter["samples_per_insert"] * memory.total_steps / plan.batch_size
        while memory.total_steps >= limiter["min_size"] and updates < allowed:
            batch = memory.sample(plan.batch_size, nstep_return=True)
            memory.update_priority(batch.id, learner.update(batch))
            updates += 1
            if updates % plan.publish_every == 0:
                for policy in policies:
                    policy.load(learner.parameters())
    seconds = time.monotonic() - began
    envs.close()
    return Outcome(count, fmean(latest), {FIGURE: 1e6 * seconds / count})


def judge(rows: Rows) -> list[Check]:
    """Compare the means with the standard deviation over the seeds, and the time of a step."""
    both = [rows.scores(name) for name in ("distributed", "alone")]
    apart, spread = fmean(both[1]) - fmean(both[0]), max(map(stdev, both))
    slower = median(rows.ratios(FIGURE, "distributed", "alone"))
    return [
        Check(f"at most one sd ({spread:.0f}) below alone", f"{apart:.0f}", apart <= spread),
        at_most("time per step to that alone", slower, 1.0, "x"),
    ]


PROOF = Proof(
    title="A run of eight processes learns as one process does, in less time per step",
    source="examples/cluster, after Horgan et al. 2018",
    settings={"distributed": distributed, "alone": alone},
    seeds=(1, 2, 3),
    judge=judge,
    long=True,
)
