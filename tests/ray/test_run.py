"""Runs on Ray, on one machine with two CPUs."""

import os
import signal

import pytest

ray = pytest.importorskip("ray", reason="tests of cogrs.ray need: pip install 'cogrs[ray]'")

import cogrs.ray  # noqa: E402
from tests.cluster import programs  # noqa: E402
from tests.cluster.runs import LONG, eventually, goes_on, has_restarted, part  # noqa: E402

pytestmark = [
    pytest.mark.timeout(600),
    # Ray's own: sockets and files that it leaves to the garbage collector.
    pytest.mark.filterwarnings("ignore"),
]
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


def test_run_without_room_is_refused_with_the_part_that_does_not_fit(tmp_path):
    plan = programs.plan(tmp_path)
    with pytest.raises(TimeoutError, match=r"no room within 2 s: shard 1 needs 1 CPU, actor 0"):
        cogrs.ray.launch(plan, room_timeout=2.0)
    with pytest.raises(ValueError, match="cpus: expected numbers > 0 for learner, shard"):
        cogrs.ray.launch(plan, cpus={"gpu": 1})


def test_run_on_ray_survives_kills_scales_and_ends(tmp_path):
    plan = programs.plan(tmp_path)
    with cogrs.ray.launch(plan, name="kills", cpus=SMALL, timeout=LONG) as run:
        goes_on(run)
        with pytest.raises(FileExistsError, match="is under way"):
            cogrs.ray.launch(plan, name="kills", cpus=SMALL)
        for role in ("shard", "actor", "learner"):
            found = part(run, role)
            os.kill(found.pid, signal.SIGKILL)
            eventually(lambda role=role, found=found: has_restarted(run, role, 0, found.generation))
            goes_on(run)
            assert part(run, role).restarts == 1
        run.scale(actors=3)
        eventually(lambda: part(run, "actor", 2).count > 0)
        goes_on(run)
        run.scale(actors=2)
        rows = run.status().rows
        assert rows.inserted == rows.stored + rows.lost
        run.stop()
        assert run.status().state == "ended"
    for name in ("shard-0", "shard-1", "learner-0"):
        assert list((tmp_path / "kills" / name).glob("*.checkpoint"))


def test_run_on_ray_ends_after_its_updates_and_is_resumed(tmp_path):
    for updates, resume in ((50, False), (100, True)):
        plan = programs.plan(tmp_path, updates=updates)
        options = {"name": "ends", "cpus": SMALL, "timeout": LONG, "resume": resume}
        with cogrs.ray.launch(plan, **options) as run:
            assert run.wait(LONG)
            assert run.status().rows.drawn == updates * 16
