"""Runs on Ray, on one machine with two CPUs."""

import gc
import os
import signal
import subprocess
import warnings

import pytest

ray = pytest.importorskip("ray", reason="tests of cogrs.ray need: pip install 'cogrs[ray]'")

import cogrs.ray  # noqa: E402
from cogrs.cli import main  # noqa: E402
from cogrs.cluster import RunFailedError  # noqa: E402
from tests.cluster import programs  # noqa: E402
from tests.cluster.runs import LONG, eventually, goes_on, has_restarted, part  # noqa: E402
from tests.program import command  # noqa: E402
from tests.replay import build  # noqa: E402

pytestmark = [
    pytest.mark.timeout(600),
    # Ray's own: sockets and files that it leaves to the garbage collector.
    pytest.mark.filterwarnings("ignore"),
]
soak_only = pytest.mark.skipif(not build.SOAK, reason="a long form, of make soak")
SMALL = {"learner": 0.25, "shard": 0.25, "actor": 0.25}


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """Ray with two CPUs, for all tests of the module."""
    ray.init(
        num_cpus=2,
        namespace="cogrs",
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=100 << 20,
    )
    yield
    ray.shutdown()
    with warnings.catch_warnings():
        # What it leaves open must not be found in a test of other things.
        warnings.simplefilter("ignore")
        gc.collect()


def pid_of_the_directory(run):
    """Return the process that has the directory and the supervisor."""
    return part(run, "supervisor").pid


def test_run_without_room_is_refused_with_the_part_that_does_not_fit(tmp_path):
    plan = programs.plan(tmp_path)
    with pytest.raises(TimeoutError, match=r"no room within 2 s: shard 1 needs 1 CPU, actor 0"):
        cogrs.ray.launch(plan, name="crowd", room_timeout=2.0)
    with pytest.raises(ValueError, match="cpus: expected numbers > 0 for learner, shard"):
        cogrs.ray.launch(plan, cpus={"gpu": 1})
    with pytest.raises(FileNotFoundError, match="name: there is no run 'crowd'"):
        cogrs.ray.attach("crowd", storage=tmp_path)


STARTS = """
import sys
import ray
import cogrs.ray
from tests.cluster import programs

plan = programs.plan(sys.argv[1], shards=1, actors=1, updates=20)
cpus = {"learner": 0.25, "shard": 0.25, "actor": 0.25}
with cogrs.ray.launch(plan, cpus=cpus, timeout=None) as run:
    print(ray.is_initialized(), run.wait(), run.status().rows.drawn)
"""


@soak_only
def test_launch_without_an_address_starts_ray(tmp_path):
    environ = {name: each for name, each in os.environ.items() if name != "RAY_ADDRESS"}
    done = subprocess.run(
        command(STARTS, str(tmp_path)), capture_output=True, text=True, timeout=LONG, env=environ
    )
    assert done.stdout.splitlines()[-1] == f"True True {20 * 16}", done.stderr


JOINS = """
import sys
import ray
import cogrs.ray
from tests.cluster import programs

address, storage = sys.argv[1:]
version, ray.__version__ = ray.__version__, "2.50.1"
try:
    cogrs.ray.launch(programs.plan(storage), address=address, name="other")
except RuntimeError as error:
    print(error)
ray.shutdown()
ray.__version__ = version
try:
    cogrs.ray.attach("other", storage=storage, address=address)
except FileNotFoundError as error:
    print(error)
"""


def test_other_program_joins_the_cluster_unless_its_ray_has_another_version(tmp_path):
    address = ray.get_runtime_context().gcs_address
    done = subprocess.run(
        command(JOINS, address, str(tmp_path)), capture_output=True, text=True, timeout=LONG
    )
    version, joined = done.stdout.splitlines()[-2:]
    assert version.startswith("address: Version mismatch: The cluster was started with: Ray: ")
    assert "was started with: Ray: 2.50.1" in version
    assert joined.startswith("name: there is no run 'other' in ")
    assert not (tmp_path / "other").exists()


def test_run_by_trials_of_shipped_functions_survives_a_kill_and_ends_by_itself(tmp_path, capsys):
    class Policy(programs.LinearPolicy):
        """A class that nodes cannot import."""

    plan = programs.plan(tmp_path, policy=Policy, updates=150, trials=True)
    run = cogrs.ray.launch(plan, name="short", cpus=SMALL, timeout=LONG)
    with pytest.raises(FileExistsError, match="is under way"):
        cogrs.ray.launch(plan, name="short", cpus=SMALL, resume=True)
    found = part(run, "shard")
    os.kill(found.pid, signal.SIGKILL)
    eventually(lambda: has_restarted(run, "shard", 0, found.generation))
    assert main(["cluster", "status", "short", "--storage", str(tmp_path), "--ray", "auto"]) == 0
    assert "shard 1" in capsys.readouterr().out
    assert part(run, "shard").restarts == 1
    assert part(run, "shard").error == "its process ended unexpectedly: SYSTEM_ERROR"
    assert "shard-0 failed: its process ended unexpectedly" in run.logs("directory")
    # Its driver is not needed for that.
    eventually(lambda: run.state == "ended", within=4 * LONG)
    status = run.status()
    assert status.rows.drawn == 150 * 16
    assert all(each.figures["episodes"] > 0 for each in status.parts if each.role == "actor")
    assert status.rows.inserted == status.rows.stored + status.rows.lost
    assert run.wait(LONG)
    with pytest.raises(RuntimeError, match="the run is over"):
        run.scale(actors=3)
    with pytest.raises(ValueError, match="part: expected shard, actor, learner, directory or"):
        run.logs("worker")
    run.close()
    with pytest.raises(RuntimeError, match=r"short: this run is closed: cogrs\.ray\.attach"):
        run.status()


@soak_only
def test_run_on_ray_survives_kills_scales_and_ends(tmp_path):
    plan = programs.plan(tmp_path)
    with cogrs.ray.launch(plan, name="kills", cpus=SMALL, timeout=LONG) as run:
        goes_on(run)
        for role in ("shard", "actor", "learner"):
            found = part(run, role)
            os.kill(found.pid, signal.SIGKILL)
            eventually(lambda role=role, found=found: has_restarted(run, role, 0, found.generation))
            goes_on(run)
            assert part(run, role).restarts == 1
        run.scale(actors=3)
        eventually(lambda: part(run, "actor", 2).count > 0)
        pid = pid_of_the_directory(run)
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: pid_of_the_directory(run) != pid)
        goes_on(run)
        assert part(run, "actor", 2).count > 0
        run.scale(actors=2)
        rows = eventually(run.status).rows
        assert rows.inserted == rows.stored + rows.lost
        run.stop()
        assert run.status().state == "ended"
    for name in ("shard-0", "shard-1", "learner-0"):
        assert list((tmp_path / "kills" / name).glob("*.checkpoint"))


@soak_only
def test_run_on_ray_goes_on_after_all_its_processes_were_killed_at_once(tmp_path):
    plan = programs.plan(tmp_path)
    with cogrs.ray.launch(plan, name="all", cpus=SMALL, timeout=LONG) as run:
        goes_on(run)
        parts = run.status().parts
        for each in parts:
            os.kill(each.pid, signal.SIGKILL)
        for each in parts:
            if each.role != "supervisor":
                eventually(
                    lambda each=each: has_restarted(run, each.role, each.index, each.generation)
                )
        goes_on(run)
        rows = eventually(run.status).rows
        assert rows.inserted == rows.stored + rows.lost


@soak_only
def test_actors_that_always_fail_are_given_up_and_the_run_says_why(tmp_path):
    class Policy(programs.LinearPolicy):
        def act(self, observations):
            raise ValueError("this policy always fails")

    plan = programs.plan(tmp_path, policy=Policy)
    run = cogrs.ray.launch(plan, name="fails", cpus=SMALL, timeout=LONG)
    with pytest.raises(RunFailedError, match="ValueError: this policy always fails"):
        run.wait(LONG)
    status = run.status()
    assert status.state == "failed"
    assert "all actors were given up" in status.error


@soak_only
def test_run_on_ray_is_resumed_after_its_end(tmp_path):
    for updates, resume in ((50, False), (100, True)):
        plan = programs.plan(tmp_path, updates=updates)
        options = {"name": "ends", "cpus": SMALL, "timeout": LONG, "resume": resume}
        with cogrs.ray.launch(plan, **options) as run:
            assert run.wait(LONG)
            assert run.status().rows.drawn == updates * 16
            assert cogrs.ray.attach("ends", storage=tmp_path).state == "ended"
