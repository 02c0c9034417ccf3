"""Faults under load: no deadlock, learning goes on, and each row is stored or lost."""

import os
import random
import resource
import signal
import sys
import time
from collections import deque

import pytest

from tests.cluster import programs
from tests.cluster.runs import (
    eventually,
    goes_on,
    has_restarted,
    kill,
    part,
    running,
)
from tests.replay import build

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="this system cannot kill"),
    pytest.mark.timeout(600),
]

STOPPED = 20.0 if build.SOAK else 7.0
"""Seconds for which a shard is stopped: longer than the learner waits for it."""
_IN_FLIGHT = 40
"""Caches of one actor on their way to one shard, at most: 16 in each of two queues, and sockets."""


def assert_conserved(run, most_lost):
    """Rows are stored or lost, and no more are lost than can have been."""
    rows = eventually(run.status).rows
    assert rows.inserted == rows.stored + rows.lost
    assert 0 <= rows.lost <= most_lost


def in_flight(run):
    plan = run._folder.plan()
    return _IN_FLIGHT * plan.cache_size * plan.actors * plan.shards


def test_run_goes_on_after_kills_of_parts_of_the_directory_and_of_all_at_once(tmp_path):
    with running(tmp_path) as run:
        lost = in_flight(run)
        for check in (
            check_kill_of_a_shard,
            check_kill_of_an_actor,
            check_kill_of_the_learner,
            check_kill_of_the_directory,
            check_kill_of_all_parts_at_once,
        ):
            goes_on(run)
            lost += in_flight(run) + check(run)
            goes_on(run)
            assert_conserved(run, lost)


# Each check returns how many rows may be lost with shards: those that came since the checkpoint
# of a second before, at most all.


def check_kill_of_a_shard(run):
    """It goes on with its checkpoint."""
    eventually(lambda: list((run._folder.path / "shard-0").glob("*.checkpoint")))
    before = eventually(lambda: part(run, "shard", 0).count)
    generation = kill(run, "shard", 0)
    eventually(lambda: has_restarted(run, "shard", 0, generation))
    eventually(lambda: part(run, "shard", 0).count)  # of the checkpoint
    assert_restarted_once(run, "shard")
    eventually(lambda: part(run, "shard", 0).count > before)
    rows = eventually(run.status).rows
    assert rows.lost_with_shards <= rows.lost
    return before + _IN_FLIGHT * run._folder.plan().cache_size


def check_kill_of_an_actor(run):
    generation = kill(run, "actor", 0)
    eventually(lambda: has_restarted(run, "actor", 0, generation))
    assert_restarted_once(run, "actor")
    return 0


def check_kill_of_the_learner(run):
    generation = kill(run, "learner", 0)
    eventually(lambda: has_restarted(run, "learner", 0, generation))
    eventually(lambda: part(run, "learner", 0).count > 0)
    assert_restarted_once(run, "learner")
    return 0


def assert_restarted_once(run, role):
    found = part(run, role, 0)
    assert (found.restarts, found.error) == (1, "ended by SIGKILL")


def check_kill_of_the_directory(run):
    """All parts register again, with the same generations; then others are found by it."""
    status = run.status()
    log = run._folder.log("directory", 0)
    size = log.stat().st_size
    pid = directory_pid(run)
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: directory_pid(run) not in (pid, None))
    eventually(lambda: len(run.status().parts) == len(status.parts))
    assert [each.generation for each in run.status().parts] == [
        each.generation for each in status.parts
    ]
    assert log.stat().st_size >= size
    goes_on(run)
    most = part(run, "shard", 1).count + _IN_FLIGHT * run._folder.plan().cache_size
    generation = kill(run, "shard", 1)
    eventually(lambda: has_restarted(run, "shard", 1, generation))
    goes_on(run)
    assert eventually(run.status).rows.inserted >= status.rows.inserted
    return most


def directory_pid(run):
    """The process of the directory: a child of the supervisor."""
    for each in os.listdir("/proc"):
        if each.isdecimal():
            try:
                with open(f"/proc/{each}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            if b"directory" in words and str(run._folder.path).encode() in words:
                return int(each)
    return None


def check_kill_of_all_parts_at_once(run):
    """It is the second failure of each: a third would give it up."""
    before = run.status()
    for each in before.parts:
        if each.role != "supervisor":
            os.kill(each.pid, signal.SIGKILL)
    for each in before.parts[1:]:
        eventually(lambda each=each: has_restarted(run, each.role, each.index, each.generation))
    eventually(lambda: part(run, "learner", 0).count > 0)
    return before.rows.stored + in_flight(run)


def test_run_survives_a_full_disk_and_a_shard_that_is_stopped_without_restarts(tmp_path):
    with running(tmp_path) as run:
        for check in (check_full_disk, check_stopped_shard, check_all_shards_stopped):
            goes_on(run)
            check(run)
            assert {each.restarts for each in run.status().parts} == {0}
        assert_conserved(run, in_flight(run))


def check_stopped_shard(run):
    """Learning goes on with the other one meanwhile."""
    kill(run, "shard", 0, signal.SIGSTOP)
    try:
        end = time.monotonic() + STOPPED
        drawn = run.status().rows.drawn
        eventually(lambda: part(run, "learner").figures["down"] == [0])
        eventually(lambda: run.status().rows.drawn > drawn + 64)
        time.sleep(max(0.0, end - time.monotonic()))
    finally:
        kill(run, "shard", 0, signal.SIGCONT)
    eventually(lambda: part(run, "learner").figures["down"] == [])
    goes_on(run)


def check_all_shards_stopped(run):
    """The learner and the actors wait for them."""
    for index in range(2):
        kill(run, "shard", index, signal.SIGSTOP)
    try:

        def counts():
            return [part(run, role).count for role in ("learner", "actor")]

        def stand_still():
            before = counts()
            time.sleep(3)  # parts tell their counts every second
            return counts() == before

        eventually(stand_still)
    finally:
        for index in range(2):
            kill(run, "shard", index, signal.SIGCONT)
    goes_on(run)
    eventually(lambda: part(run, "learner").figures["down"] == [])


def check_full_disk(run):
    """As of a full disk, files of these processes end at a byte; it is told, and then forgotten."""
    for role in ("shard", "learner"):
        pid = part(run, role).pid
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE, (16, -1))
        eventually(lambda role=role: "File too large" in part(run, role).error)
        goes_on(run)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
        eventually(lambda role=role: part(run, role).error == "")


def test_actor_that_fails_again_and_again_is_given_up_and_the_others_go_on(tmp_path, monkeypatch):
    bad = tmp_path / "bad"
    monkeypatch.setenv(programs.BAD_FILE, str(bad))
    changes = {"policy": "tests.cluster.programs:FailingPolicy", "actors": 3}
    with running(tmp_path, changes=changes) as run:
        goes_on(run)
        failures = 0
        while not part(run, "actor", 1).given_up:
            generation = kill(run, "actor", 1)
            failures += 1
            eventually(
                lambda generation=generation: (
                    has_restarted(run, "actor", 1, generation) or part(run, "actor", 1).given_up
                )
            )
        assert failures == 3
        # Its shard is the home of another actor now.
        goes_on(run)
        assert part(run, "actor", 1).error == "ended by SIGKILL"
        assert run.state == "running"


@pytest.mark.skipif(not build.SOAK, reason="a long form, of make soak")
@pytest.mark.timeout(1800)
def test_learning_goes_on_through_twenty_rounds_of_kills_in_ten_minutes(tmp_path):
    chosen = random.Random(1)
    parts = [("shard", 0), ("shard", 1), ("actor", 0), ("actor", 1), ("learner", 0)]
    killed = {each: deque(maxlen=2) for each in parts}
    with running(tmp_path) as run:
        goes_on(run)
        lost = in_flight(run)
        began = time.monotonic()
        for number in range(20):
            # A part that fails for the third time in five minutes is given up.
            now = time.monotonic()
            free = [each for each in parts if sum(now - at < 310 for at in killed[each]) < 2]
            for role, index in chosen.sample(free, min(len(free), chosen.choice([1, 1, 2]))):
                lost += in_flight(run) + (part(run, role, index).count if role == "shard" else 0)
                generation = kill(run, role, index)
                killed[role, index].append(time.monotonic())
                eventually(
                    lambda role=role, index=index, before=generation: has_restarted(
                        run, role, index, before
                    )
                )
            goes_on(run)
            assert_conserved(run, lost)
            time.sleep(max(0.0, began + 30 * (number + 1) - time.monotonic()))
        assert sum(each.restarts for each in run.status().parts) >= 15
