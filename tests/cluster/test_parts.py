"""Shards and actors by themselves: ports, and the rate limiter."""

import socket
import sys
import threading

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
