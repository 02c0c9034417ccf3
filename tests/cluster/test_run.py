"""Runs on this machine: they learn, scale, stop and are resumed."""

import contextlib
import os
import platform
import signal
import subprocess
import sys

import pytest

from cogrs.cluster import RunFailedError, attach, launch
from cogrs.cluster.checkpoints import Checkpoints
from cogrs.cluster.run_folder import RunFolder
from tests.cluster import programs
from tests.cluster.runs import LONG, eventually, goes_on, part, running
from tests.program import command

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="runs need POSIX signals"),
    pytest.mark.timeout(600),
]


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_run_ends_by_itself_and_is_resumed_after_that_and_after_a_killed_supervisor(tmp_path):
    with running(tmp_path, changes={"updates": 50}) as run:
        assert run.wait(LONG) is True
        check_whole_run(run)
        before = run.status().rows
    with pytest.raises(FileExistsError, match="resume=True"):
        launch(programs.plan(tmp_path))
    with running(tmp_path, changes={"updates": 100}, resume=True) as run:
        run.wait(LONG)
        after = run.status().rows
        assert after.drawn == 100 * 16
        assert after.stored >= before.stored
        assert after.inserted >= before.inserted
        assert after.inserted == after.stored + after.lost
    with running(tmp_path, resume=True) as run:
        goes_on(run)
        assert part(run, "learner").count > 100
        parts = run.status().parts
        os.kill(parts[0].pid, signal.SIGKILL)
        eventually(lambda: not any(is_alive(each.pid) for each in parts[1:]))
        with pytest.raises(RunFailedError, match="the supervisor has ended unexpectedly"):
            run.wait(LONG)
    with running(tmp_path, changes={"updates": 100}, resume=True) as run:
        assert run.wait(LONG)  # nothing is left to do


def check_whole_run(run):
    """All rows of a run of fifty updates, in which nothing has failed, have come."""
    assert run.state == "ended"
    status = run.status()
    learner = next(each for each in status.parts if each.role == "learner")
    assert (learner.count, status.rows.drawn) == (50, 50 * 16)
    assert status.rows.lost == 0
    assert status.rows.inserted == status.rows.stored > 0
    assert {each.restarts for each in status.parts} == {0}
    assert "the learner has made its updates" in run.logs("supervisor")
    assert not any(is_alive(each.pid) for each in status.parts)


def test_policy_that_always_fails_ends_the_run_with_its_traceback(tmp_path):
    changes = {"policy": "tests.cluster.programs:FailingPolicy", "shards": 1, "actors": 1}
    with running(tmp_path, changes=changes) as run:
        with pytest.raises(RunFailedError, match="ValueError: this policy always fails"):
            run.wait(LONG)
        status = run.status()
        assert status.state == "failed"
        assert "all actors were given up" in status.error
        assert "this policy always fails" in run.logs("actor", 0)
        with pytest.raises(FileNotFoundError, match="part: expected one of actor-0, directory-0"):
            run.logs("actor", 7)


def test_launch_says_on_which_node_a_policy_cannot_be_imported(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("COGRS_TEST_DRIVER", str(os.getpid()))
    (tmp_path / "only_here.py").write_text(
        "import os\n"
        "if os.environ['COGRS_TEST_DRIVER'] != str(os.getpid()):\n"
        "    raise ImportError('there is no simulator here')\n"
        "from tests.cluster.programs import LinearPolicy\n"
    )
    plan = programs.plan(tmp_path, policy="only_here:LinearPolicy", shards=1, actors=1)
    with pytest.raises(RunFailedError) as caught:
        launch(plan, timeout=LONG)
    text = str(caught.value)
    assert "all actors were given up" in text
    assert f"policy: cannot import 'only_here:LinearPolicy' on node {platform.node()}" in text
    assert "Traceback" in text
    assert "ImportError: there is no simulator here" in text


DRIVER = """
import sys
from tests.cluster import programs
from cogrs.cluster import launch

plan = programs.plan(sys.argv[1], shards=int(sys.argv[3]), actors=int(sys.argv[3]))
run = launch(plan, detached=bool(int(sys.argv[2])), timeout=None)
print("up", flush=True)
run.wait()
"""


def driver(storage, *, detached=False, shards=2):
    """A program that has started a run, and waits for its end."""
    started = subprocess.Popen(
        command(DRIVER, str(storage), str(int(detached)), str(shards)),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert started.stdout.readline() == "up\n"
    return started


def test_ctrl_c_of_the_driver_ends_the_run_with_checkpoints(tmp_path):
    program = driver(tmp_path)
    run = attach("run", storage=tmp_path)
    pids = [each.pid for each in run.status().parts]
    goes_on(run)
    program.send_signal(signal.SIGINT)
    program.communicate(timeout=LONG)
    assert run.state == "ended"
    assert not any(map(is_alive, pids))
    for part_name in ("shard-0", "shard-1", "learner-0"):
        assert list((tmp_path / "run" / part_name).glob("*.checkpoint"))
    run.close()


def test_second_ctrl_c_leaves_at_once_and_the_parts_end_by_themselves(tmp_path):
    program = driver(tmp_path, shards=1)
    with attach("run", storage=tmp_path) as run:
        pids = [each.pid for each in run.status().parts]
        # One that does not end keeps the run from ending.
        stuck = part(run, "actor").pid
        os.kill(stuck, signal.SIGSTOP)
        program.send_signal(signal.SIGINT)
        eventually(lambda: "ending, within" in run.logs("supervisor"))
        program.send_signal(signal.SIGINT)
        program.communicate(timeout=LONG)
        assert run.state == "failed"
        with contextlib.suppress(ProcessLookupError):  # the system may have waken it
            os.kill(stuck, signal.SIGCONT)
        eventually(lambda: not any(map(is_alive, pids)))


def test_killed_driver_ends_its_run(tmp_path):
    program = driver(tmp_path, shards=1)
    run = attach("run", storage=tmp_path)
    program.kill()
    program.communicate()
    eventually(lambda: run.state == "ended")
    run.close()


def test_detached_run_outlives_a_killed_driver_and_is_scaled_and_stopped_by_others(tmp_path):
    program = driver(tmp_path, detached=True)
    with attach("run", storage=tmp_path) as run, attach("run", storage=tmp_path) as other:
        program.kill()
        program.communicate()
        goes_on(run)
        for resume in (False, True):
            with pytest.raises(FileExistsError, match="is under way"):
                launch(programs.plan(tmp_path), resume=resume)
        other.scale(actors=4)
        eventually(lambda: part(run, "actor", 3).count > 0)
        pid = part(run, "actor", 3).pid
        other.scale(actors=2)
        eventually(lambda: not is_alive(pid))
        other.scale(actors=4)
        eventually(lambda: part(run, "actor", 3).pid != pid)
        goes_on(run)
        assert {each.restarts for each in run.status().parts} == {0}
        with pytest.raises(ValueError, match="actors: expected an integer >= 2, got 1"):
            run.scale(actors=1)
        other.stop()
        assert run.wait(LONG) is True
        assert run.state == "ended"
        with pytest.raises(RuntimeError, match="the run is over"):
            run.scale(actors=3)


def test_attach_to_a_run_that_never_was_raises(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no run 'run'"):
        attach("run", storage=tmp_path)


def test_status_of_a_run_whose_directory_has_ended_is_the_last_one_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("cogrs.cluster.directory_client._ANSWER", 0.2)
    folder = RunFolder(tmp_path, "run")
    folder.create(programs.plan(tmp_path))
    lock = folder.lock()
    folder.write("state.json", {"state": "running", "error": "", "pid": os.getpid()})
    run = attach("run", storage=tmp_path)
    with pytest.raises(TimeoutError):
        run.status()
    # The supervisor keeps it before it ends the directory, and ends later.
    folder.write("status.json", {"parts": [], "ended": {}})
    assert run.status().state == "running"
    run.close()
    os.close(lock)


def test_newest_readable_checkpoint_counts_and_two_are_kept(tmp_path):
    kept = Checkpoints(tmp_path / "part")
    for number in range(4):
        kept.write(lambda path, number=number: path.write_text(str(number)))
    assert len(list((tmp_path / "part").iterdir())) == 2
    assert kept.newest(lambda path: int(path.read_text())) == 3
    sorted((tmp_path / "part").iterdir())[-1].write_text("damaged")
    assert kept.newest(lambda path: int(path.read_text())) == 2


def test_folder_of_a_run_keeps_its_secret_keys_from_others(tmp_path):
    folder = RunFolder(tmp_path, "run")
    folder.create(programs.plan(tmp_path))
    assert (folder.path / "keys").stat().st_mode & 0o077 == 0
    before = folder.server_key().read_bytes()
    folder.create(programs.plan(tmp_path))
    assert folder.server_key().read_bytes() == before


def test_new_launch_forgets_the_state_of_the_run_before(tmp_path):
    folder = RunFolder(tmp_path, "run")
    folder.create(programs.plan(tmp_path))
    said = ("directory.json", "order.json", "state.json", "status.json")
    for name in (*said, "ended.json"):
        folder.write(name, {})
    folder.create(programs.plan(tmp_path))
    assert [name for name in said if folder.has(name)] == []
    assert folder.has("ended.json")
