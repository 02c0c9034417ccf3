"""The demo's learner learns the same from trials as from the collector, with as many steps."""

from __future__ import annotations

import asyncio
from statistics import fmean, stdev
from typing import TYPE_CHECKING

from benchmarks.learning.demo_run import AT_ONCE, play_trials, student
from benchmarks.learning.proof import Check, Outcome, Proof

import cogrs
from cogrs import sdk

if TYPE_CHECKING:
    from benchmarks.learning.rows import Rows
    from benchmarks.learning.run import Run


def trials(run: Run) -> Outcome:
    """Learn from trials of one orchestrator."""
    with student(run) as learner:
        environment = sdk.GymnasiumEnvironment.factory("CartPole-v1", seed=1_000 * run.seed)
        asyncio.run(play_trials(learner, environment))
        return Outcome(learner.steps, run.score())


def collector(run: Run) -> Outcome:
    """Learn from a vector of environments."""
    with student(run) as learner:
        envs = cogrs.VectorEnv("CartPole-v1", AT_ONCE, autoreset_mode="same_step")
        recorder, lengths = learner.memory.recorder(envs), [0] * AT_ONCE
        obs, _ = envs.reset(seed=1_000 * run.seed)
        while learner.steps < learner.total:
            decision = learner.policy(obs)
            following, reward, terminated, truncated, infos = envs.step(decision.action)
            played = {"prob": decision.prob, "value": decision.value}
            row = obs, decision.action, reward, terminated, truncated, following
            recorder.add(*row, infos=infos, **played)
            obs = following
            for at in range(AT_ONCE):
                lengths[at] += 1
                if terminated[at] or truncated[at]:
                    learner.end_episode(lengths[at])
                    lengths[at] = 0
        envs.close()
        return Outcome(learner.steps, run.score())


def judge(rows: Rows) -> list[Check]:
    """Compare the means of both with the standard deviation over the seeds."""
    both = [rows.scores(name) for name in ("trials", "collector")]
    apart, spread = abs(fmean(both[0]) - fmean(both[1])), max(map(stdev, both))
    return [
        Check(f"means are at most one sd ({spread:.0f}) apart", f"{apart:.0f}", apart <= spread)
    ]


PROOF = Proof(
    title="Trials teach as much as the collector with the same steps",
    source="settings of cogrs demo",
    settings={"trials": trials, "collector": collector},
    seeds=(1, 2, 3, 4, 5),
    judge=judge,
)
