"""Processes that are killed: all that is older than a second is in the store, whole or partial."""

from __future__ import annotations

import os
import random
import signal
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from cogrs.store import open_store
from cogrs.store.journal import read_journal
from cogrs.store.location import Location
from cogrs.store.session import Session, unfinished
from cogrs.store.writer import StoreWriter
from tests.program import program
from tests.store.kill import check, killed
from tests.store.trials import DONE, open_trial, params, sample, samples, serialized

if TYPE_CHECKING:
    from pathlib import Path

LONG = settings.get_current_profile_name() == "soak"


@pytest.mark.parametrize("seed", range(200 if LONG else 3))
def test_writer_that_is_killed_leaves_whole_and_partial_trials_and_nothing_else(folder, seed):
    seconds = random.Random(seed).uniform(0.0, 2.5)
    told = killed(folder, seconds)
    found = check(folder, told)
    assert not unfinished(folder)
    assert not list(folder.rglob("*.part"))
    assert len(found) <= len({each.trial for each in told}) + 1


def test_store_that_was_taken_in_twice_by_different_processes_has_each_trial_once(folder):
    told = killed(folder, 1.5)
    first = check(folder, told)
    assert first
    told = killed(folder, 0.5, name="u")
    assert first.keys() < check(folder, told).keys() | {"u"}


def test_journals_of_a_writer_that_lives_are_left_alone(folder):
    writer = StoreWriter(Location(folder), flush=0.05)
    log = writer.begin("t1", params(), "")
    log.sample(sample(0))
    deadline = time.monotonic() + 30
    while not list(folder.glob("trials/*/journal/*")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    with open_store(folder) as store:
        assert list(store.trials()) == []
    assert len(unfinished(folder)) == 1
    for each in samples(2)[1:]:
        log.sample(each)
    log.close()
    writer.close()
    with open_store(folder) as store:
        assert [(each.ticks, each.partial) for each in store.trials()] == [(2, False)]


def left_behind(folder: Path, *trials) -> Session:
    """Return the session of a writer that wrote journals of these trials, and then was killed."""
    session = Session.begin(folder)
    for trial in trials:
        trial.flush(session)
    os.close(session._lock)  # as the system does
    return session


@pytest.mark.parametrize("cut", [1, 7, 40, 200])
def test_journal_that_was_cut_short_gives_the_samples_before_the_cut(folder, cut):
    trial = open_trial("t1")
    trial.samples = serialized(samples(6)[:5])
    with open_store(folder, create=True):
        session = left_behind(folder, trial)
    (journal,) = session.journals()
    journal.write_bytes(journal.read_bytes()[:-cut])
    with open_store(folder) as store:
        (found,) = store.trials()
        assert found.partial
        read = [each.tick for each in store.read("t1")[1]]
        assert read == list(range(len(read)))
        assert 1 <= len(read) < 5
        assert len(read) == 4 or cut > 40


def test_journal_without_a_sample_leaves_no_trial(folder):
    with open_store(folder, create=True):
        session = Session.begin(folder)
        session.new_journal().write_bytes(b"")
        session.new_journal().write_bytes(b"\xff" * 100)
        os.close(session._lock)
    assert [read_journal(each) for each in session.journals()] == [None, None]
    with open_store(folder) as store:
        assert list(store.trials()) == []
    assert not unfinished(folder)


def test_journal_that_was_given_back_does_not_bring_a_removed_trial_back(folder):
    first, second = open_trial("t1"), open_trial("t2")
    first.samples, second.samples = serialized(samples(20)), serialized(samples(2)[:1])
    with open_store(folder, create=True) as store:
        session = Session.begin(folder)
        first.flush(session)
        store._index.add([first.store(session, folder)])
        first.forget(session)
        store.remove(["t1"])
        second.flush(session)
        second.forget(session)
        second.samples = serialized(samples(3)[:2])
        second.flush(session)
        assert len(session.journals()) == 1
        os.close(session._lock)  # as the system does
    with open_store(folder) as store:
        assert [(each.trial_id, each.ticks) for each in store.trials()] == [("t2", 1)]


def test_journal_of_a_trial_that_had_ended_gives_a_whole_trial(folder):
    trial = open_trial("t1")
    trial.samples = serialized(samples(3))
    with open_store(folder, create=True):
        left_behind(folder, trial)
    with open_store(folder) as store:
        (found,) = store.trials()
    assert (found.partial, found.end_reason, found.ticks) == (False, DONE, 3)
    assert found.started.timestamp() == pytest.approx(trial.started)


def test_file_whose_row_was_not_written_is_taken_in_and_its_journal_removed(folder):
    trial = open_trial("t1")
    trial.samples = serialized(samples(3))
    with open_store(folder, create=True):
        session = left_behind(folder, trial)
    trial.store(session, folder)
    (session.folder / "000000" / "t2.parquet.part").write_bytes(b"cut short")
    with open_store(folder) as store:
        assert [each.trial_id for each in store.trials()] == ["t1"]
        assert list(store.verify()) == []
    assert [each.name for each in folder.rglob("*") if each.is_file()].count("t1.parquet") == 1
    assert not list(folder.rglob("*.part"))


def test_file_that_cannot_be_read_does_not_keep_the_store_from_opening(folder, caplog):
    with open_store(folder, create=True):
        session = left_behind(folder)
    place = session.place("t1")
    place.write_bytes(b"not Parquet")
    with open_store(folder) as store:
        assert list(store.trials()) == []
        assert [each.kind for each in store.verify()] == ["unlisted"]
    assert "not taken in" in caplog.text


def test_recovery_looks_only_at_files_that_may_lack_a_row(folder, store):
    writer = StoreWriter(Location(folder))
    session = writer._session
    log = writer.begin("t1", params(), "")
    for each in samples(1):
        log.sample(each)
    log.close()
    deadline = time.monotonic() + 30
    while not os.pread(session._lock, 32, 0):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert session.told_committed() == 0
    session.tell_committed(session.folder / "000007" / "x.parquet")
    assert session.told_committed() == 7
    writer.close()


FORKS = """
import os, sys, time
from pathlib import Path
from cogrs.store.location import Location
from cogrs.store.writer import StoreWriter
from tests.store.trials import params, sample

writer = StoreWriter(Location(Path(sys.argv[1])), flush=0.05)
log = writer.begin("t1", params(), "")
log.sample(sample(0))
while not list(Path(sys.argv[1]).glob("trials/*/journal/*")):
    time.sleep(0.02)
child = os.fork()
if child == 0:
    writer._session.end()  # as a destructor may; it must not touch the parent's folder
    time.sleep(300)
    os._exit(0)
print(child, flush=True)
time.sleep(300)
"""


def test_child_made_by_fork_does_not_keep_its_killed_parent_from_being_taken_in(folder):
    with program(f"import sys; sys.argv[1:] = [{str(folder)!r}]\n{FORKS}") as process:
        child = int(process.stdout.readline())
        try:
            with open_store(folder) as store:
                assert list(store.trials()) == []  # the parent lives
            os.kill(process.pid, signal.SIGKILL)
            process.wait(60)
            with open_store(folder) as store:
                assert [(each.trial_id, each.partial) for each in store.trials()] == [("t1", True)]
        finally:
            os.kill(child, signal.SIGKILL)
