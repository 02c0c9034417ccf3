"""Rewards that come five ticks late teach as much as rewards in time.

As when a person judges: the reward of a step arrives when later steps are stored already, and has
to reach the step that it is about. Settings are those of the demo; without any reward, the same
learner shows what chance is.
"""

from __future__ import annotations

import asyncio
from functools import partial
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

import gymnasium
from benchmarks.learning.demo_run import play_trials, student
from benchmarks.learning.proof import Check, Outcome, Proof, at_least

from cogrs import sdk

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.learning.rows import Rows
    from benchmarks.learning.run import Run

LATE = 5
"""Ticks from a step's observation to its reward."""


class Judged(sdk.GymnasiumEnvironment):
    """CartPole whose rewards are for an earlier tick; the last ones come with the end."""

    inline = True

    def __init__(self, late: int | None) -> None:
        """Send rewards so many ticks late; None sends none at all."""
        super().__init__(lambda: gymnasium.make("CartPole-v1"))
        self._late, self._due = late, 0

    def step(self, actions: Mapping[str, Any]) -> sdk.Update:
        """Step, and reward the steps that are due."""
        update = super().step(actions)
        tick, update.rewards = self._tick, []
        if self._late is not None:
            newest = tick if update.final else tick - self._late
            due = range(self._due + 1, newest + 1)
            update.rewards = [sdk.Reward("player", 1.0, tick=each) for each in due]
            self._due = max(self._due, newest)
        return update


def learn(run: Run, late: int | None) -> Outcome:
    """Learn from trials; the score is the mean length of the last 100 episodes."""
    with student(run) as learner:
        asyncio.run(play_trials(learner, partial(Judged, late)))
        return Outcome(learner.steps, run.score())


def judge(rows: Rows) -> list[Check]:
    """Compare late rewards with rewards in time, and with none."""
    timely, late = rows.scores("in time"), rows.scores("5 ticks late")
    apart, spread = fmean(timely) - fmean(late), max(stdev(timely), stdev(late))
    chance = fmean(rows.scores("no rewards"))
    return [
        Check(f"late is at most one sd ({spread:.0f}) below", f"{apart:.0f}", apart <= spread),
        at_least("late beside no rewards", fmean(late) / chance, 2, "x"),
    ]


PROOF = Proof(
    title="A reward that comes five ticks late teaches as much as one in time",
    source="settings of cogrs demo",
    settings={
        "in time": lambda run: learn(run, 0),
        "5 ticks late": lambda run: learn(run, LATE),
        "no rewards": lambda run: learn(run, None),
    },
    seeds=(1, 2, 3, 4, 5),
    judge=judge,
    long=True,
)
