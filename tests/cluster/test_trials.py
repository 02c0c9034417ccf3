"""Actors whose episodes are trials: an orchestrator, environments and agents in each."""

import sys
import threading

import numpy as np
import pytest

from cogrs.cluster.actor import run_actor
from cogrs.cluster.part import Part
from cogrs.workers import STEP_INFO
from tests.cluster import programs
from tests.cluster.runs import LONG, running
from tests.cluster.threads import directory_and_shards

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="runs need POSIX signals"),
    pytest.mark.timeout(600),
]


class TracingLearner(programs.LinearLearner):
    """Refuses batches whose steps are not those of trials."""

    def update(self, batch):
        assert batch.prev.info.dtype == STEP_INFO
        assert np.all(batch.prev.info["trial"] > 0)
        assert np.all(batch.prev.prob == 0.5)
        return super().update(batch)


class TellingPolicy(programs.LinearPolicy):
    """Tells a probability with its actions."""

    def act(self, observations):
        return super().act(observations), {"prob": np.full(len(observations), 0.5)}


def test_actors_by_trials_play_push_and_take_parameters(tmp_path):
    changes = {
        "trials": True,
        "shards": 1,
        "actors": 1,
        "updates": 60,
        "policy": TellingPolicy,
        "learner": TracingLearner,
    }
    with running(tmp_path, changes=changes) as run:
        assert run.wait(LONG)
        status = run.status()
        (actor,) = [each for each in status.parts if each.role == "actor"]
        assert actor.figures["episodes"] > 0
        assert actor.figures["publications"] > 0
        assert actor.figures["mean_return"] > 5
        assert actor.count > 50
        rows = status.rows
        assert rows.drawn == 60 * 16
        assert rows.lost == 0
        assert rows.inserted == rows.stored > 0
        assert {each.restarts for each in status.parts} == {0}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"make_env": programs.make_broken},
            "20 trials in a row ended without a step: .*the simulator is gone",
        ),
        (
            {"policy": programs.FailingPolicy},
            r"the policy failed: ValueError\('this policy always fails'\)",
        ),
    ],
)
def test_actor_by_trials_that_cannot_play_fails_with_the_reason(tmp_path, changes, text):
    plan = programs.plan(tmp_path, trials=True, shards=1, actors=1, **changes)
    with directory_and_shards(plan) as (folder, _):
        part = Part(folder, "actor", 0, 1, threading.Event())
        with pytest.raises(RuntimeError, match=text):
            run_actor(part)
        part.close()
