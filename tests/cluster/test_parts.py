"""Shards and actors by themselves: ports, and the rate limiter."""

import contextlib
import socket
import sys
import threading

import numpy as np
import pytest

from cogrs.cluster.actor import run_actor
from cogrs.cluster.part import Part
from cogrs.cluster.shard import run_shard
from tests.cluster import programs
from tests.cluster.runs import eventually
from tests.cluster.threads import directory_and_shards, figures, part_on_thread

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="runs need POSIX signals"),
    pytest.mark.timeout(300),
]


def test_actors_wait_at_the_limiter_of_each_shard_while_there_is_no_learner(tmp_path):
    plan = programs.plan(tmp_path, ports=(23_000, 23_299))
    with directory_and_shards(plan) as (folder, directory):
        eventually(lambda: len(directory.snapshot()["parts"]) == 2)
        ports = [
            int(endpoint.rpartition(":")[2])
            for each in directory.snapshot()["parts"]
            for endpoint in each["endpoints"]
        ]
        assert len(set(ports)) == 6
        assert all(23_000 <= port <= 23_299 for port in ports)
        with (
            part_on_thread(folder, "actor", 0, run_actor),
            part_on_thread(folder, "actor", 1, run_actor),
        ):
            for index in range(2):
                eventually(lambda index=index: figures(directory, "shard", index)["actors_waited"])
            # 300 steps are allowed for each actor, and it notices when an episode ends.
            assert 100 < figures(directory, "actor", 0)["count"] < 1_000
            # Both push to both.
            senders = [figures(directory, "shard", index)["rows"]["senders"] for index in range(2)]
            assert [len(each) for each in senders] == [2, 2]


def test_change_of_the_directory_reaches_all_parts(tmp_path):
    plan = programs.plan(tmp_path, shards=1)
    with directory_and_shards(plan) as (folder, _), contextlib.ExitStack() as stack:
        parts = [
            stack.enter_context(part_on_thread(folder, role, 0, run_idle))
            for role in ("learner", "actor", "supervisor")
        ]
        for part in parts:
            eventually(part.shards)
        moved = Part(folder, "shard", 0, 2, threading.Event())
        moved.register({"endpoints": ["tcp://192.0.2.1:1"] * 3})
        # Ten times the two seconds that it may take.
        for part in parts:
            eventually(lambda part=part: part.shards()[0]["generation"] == 2, within=20)
            assert part.shards()[0]["endpoints"] == ["tcp://192.0.2.1:1"] * 3
        moved.close()


def run_idle(part):
    part.register()
    while not part.stopping:
        part.sleep(1)
    part.close()


class WithField(programs.LinearPolicy):
    def act(self, observations):
        return super().act(observations), {"probability": np.ones(len(observations))}


class WithState(programs.LinearPolicy):
    def act(self, observations):
        return super().act(observations), np.zeros(1), {}


@pytest.mark.parametrize("trials", [False, True])
@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (WithField, "expected fields 'prob' or 'value', got 'probability'"),
        (WithState, "'value'; got a tuple of ndarray, ndarray, dict"),
    ],
)
def test_answer_of_a_policy_that_is_no_pair_is_refused(tmp_path, trials, policy, text):
    plan = programs.plan(tmp_path, shards=1, actors=1, policy=policy, trials=trials)
    with directory_and_shards(plan) as (folder, _):
        part = Part(folder, "actor", 0, 1, threading.Event())
        with pytest.raises((TypeError, RuntimeError), match=text):
            run_actor(part)
        part.close()


def test_shard_whose_ports_are_taken_says_which(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        first = taken.getsockname()[1] - 1
        plan = programs.plan(tmp_path, shards=1, ports=(first, first + 2))
        with directory_and_shards(programs.plan(tmp_path, shards=1)) as (folder, _):
            part = Part(folder, "shard", 0, 2, threading.Event())
            part.plan = plan
            text = f"ports: no three ports are free from {first} to {first + 2}"
            with pytest.raises(OSError, match=text):
                run_shard(part)
            part.close()
