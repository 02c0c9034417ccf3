"""The supervisor and its children, which do nothing here."""

import signal
import sys
import threading

import pytest

from cogrs.cluster.child import Child
from cogrs.cluster.run_folder import RunFolder
from cogrs.cluster.supervisor import Supervisor
from tests.cluster import programs

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="runs need POSIX signals"),
    pytest.mark.timeout(300),
]


class Idle(Child):
    """Does nothing, and ends some looks after it was asked to; a deaf one, when it is killed."""

    def __init__(self, told, deaf, *names):
        super().__init__(*names)
        self._told = told
        self._deaf = deaf
        self._looks = None

    def _start(self):
        self._told(("start", self.name))
        return self

    def _exit_code(self):
        if self._looks is None:
            return None
        self._looks -= 1
        if self._looks > 0:
            return None
        if self._looks == 0:
            self._told(("end", self.name))
        return 0

    def _send(self, number):
        self._told((signal.Signals(number).name, self.name))
        if self._looks is None and not (self._deaf and number == signal.SIGTERM):
            self._looks = 5

    def _why(self, code):
        raise AssertionError

    def _close(self):
        pass


def stopped(tmp_path, monkeypatch, deaf=()):
    """What children are told, and when they end, in a run that is stopped once all have started."""
    monkeypatch.setattr("cogrs.cluster.directory_client._ANSWER", 0.2)
    folder = RunFolder(tmp_path, "run")
    folder.create(programs.plan(tmp_path, shards=2, actors=2))
    said, stop = [], threading.Event()

    def told(what):
        said.append(what)
        if what == ("start", "actor-1"):
            stop.set()

    supervisor = Supervisor(
        folder, stop, lambda *names: Idle(told, f"{names[0]}-{names[1]}" in deaf, *names)
    )
    supervisor.run()
    assert folder.state().state == "ended"
    return [each for each in said if each[0] != "start"]


def test_actors_end_first_then_shards_the_learner_and_the_directory(tmp_path, monkeypatch):
    stages = (["actor-0", "actor-1"], ["shard-0", "shard-1"], ["learner-0"], ["directory-0"])
    said = stopped(tmp_path, monkeypatch)
    for stage in stages:
        mine, said = said[: 2 * len(stage)], said[2 * len(stage) :]
        assert mine[: len(stage)] == [("SIGTERM", name) for name in stage]
        assert sorted(mine[len(stage) :]) == [("end", name) for name in stage]
    assert not said


def test_part_that_does_not_end_is_killed_before_the_next_role_is_asked(tmp_path, monkeypatch):
    monkeypatch.setattr("cogrs.cluster.supervisor._GRACE", 0.5)
    said = stopped(tmp_path, monkeypatch, deaf=("shard-1",))
    of_shard = [what for what, name in said if name == "shard-1"]
    assert of_shard == ["SIGTERM", "SIGKILL", "end"]
    assert said.index(("end", "shard-1")) < said.index(("SIGTERM", "learner-0"))
    assert ("SIGKILL", "learner-0") not in said
