"""What an orchestrator writes: whole trials, journals, limits; and stores that take nothing."""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from cogrs.store import TrialFilter, open_store
from cogrs.store import journal as journal_module
from cogrs.store import trial_file as file_module
from cogrs.store.journal import OpenTrial
from cogrs.store.location import Location
from cogrs.store.session import TRIALS
from cogrs.store.sqlite_index import NAME, SqliteIndex
from cogrs.store.writer import StoreWriter
from tests.store.trials import DONE, params, record, reward, sample, samples, until

if TYPE_CHECKING:
    from pathlib import Path


def written(folder: Path) -> dict[str, Any]:
    """Return the trials of a store by id, as its index has them now."""
    with open_store(folder) as store:
        return {each.trial_id: each for each in store.trials()}


@pytest.fixture
def writer(folder):
    writer = StoreWriter(Location(folder), flush=0.1)
    yield writer
    writer.close()


@pytest.fixture
def full_disk(monkeypatch):
    """Switch for a disk on which nothing can be written."""
    state = {"full": False}
    write = os.write

    def limited(file: int, data: Any) -> int:
        if state["full"]:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, data)

    for module in (journal_module, file_module):
        monkeypatch.setattr(module.os, "write", limited)
    return state


def test_trial_that_ended_is_listed_whole_with_returns_times_and_people(writer, folder):
    given = params(("a", "player"), ("p", "person"))
    log = writer.begin("t1", given, "")
    for each in samples(3, actors=2):
        if each.observations.tick_id == 2:
            each.rewards.append(reward(1, 5.0, "a", "p"))
        log.sample(each)
    log.close()
    found = until(lambda: written(folder).get("t1"))
    assert (found.ticks, found.returns, found.classes) == (
        3,
        {"a": 8.0, "p": 0.0},
        {"a": "player", "p": "person"},
    )
    assert (found.end_reason, found.user, found.partial, found.people) == (DONE, "ann", False, True)
    assert found.ended >= found.started
    with open_store(folder) as store:
        trial, read = store.read("t1")
        assert trial.params == given
        assert [each.tick for each in read] == [0, 1, 2, 3]
        assert list(store.verify()) == []


def test_trial_that_runs_is_not_listed_and_its_samples_go_to_a_journal(writer, folder):
    log = writer.begin("t1", params(), "")
    log.sample(sample(0))
    journals = until(lambda: list(folder.glob(f"{TRIALS}/*/journal/*")))
    assert len(journals) == 1
    assert written(folder) == {}
    for each in samples(3)[1:]:
        log.sample(each)
        time.sleep(0.05)
    log.close()
    assert until(lambda: written(folder).get("t1")).ticks == 3
    (journal,) = journals
    until(lambda: journal.stat().st_size == 0)
    log = writer.begin("t2", params(), "")
    log.sample(sample(0))
    until(lambda: journal.stat().st_size)
    assert list(journal.parent.iterdir()) == [journal]
    assert (writer.waiting, writer.waiting_bytes, writer.lost) == (0, 0, 0)


def test_close_writes_trials_whose_end_did_not_come_as_partial(folder):
    writer = StoreWriter(Location(folder))
    log = writer.begin("t1", params(), "")
    for each in samples(5)[:3]:
        log.sample(each)
    writer.close()
    found = written(folder)["t1"]
    assert (found.partial, found.ticks, found.end_reason) == (True, 2, "")
    log.sample(sample(3))
    log.close()
    assert writer.lost == 1
    assert not list(folder.glob(f"{TRIALS}/*/lock"))


def test_trial_without_samples_is_not_stored(writer, folder):
    writer.begin("t1", params(), "").close()
    log = writer.begin("t2", params(), "")
    log.sample(sample(0, last=DONE))
    log.close()
    until(lambda: written(folder))
    assert set(written(folder)) == {"t2"}


def test_samples_beyond_the_backlog_are_dropped_and_counted_and_the_trial_is_partial(
    folder, full_disk, caplog
):
    writer = StoreWriter(Location(folder), flush=0.05, backlog_bytes=4_000)
    full_disk["full"] = True
    log = writer.begin("t1", params(), "")
    for each in samples(20):
        log.sample(each)
    log.close()
    other = writer.begin("t2", params(), "")
    other.sample(sample(0))
    other.close()
    until(lambda: any("cannot be written" in each.message for each in caplog.records))
    kept, lost = writer.waiting, writer.lost
    assert kept + lost == 22
    assert lost > 10
    full_disk["full"] = False
    writer.close()
    found = written(folder)
    assert (found["t1"].partial, found["t1"].ticks, found["t1"].end_reason) == (True, kept - 1, "")
    assert "t2" not in found
    assert [each.message for each in caplog.records if "its log stops" in each.message]
    assert sum("cannot be written" in each.message for each in caplog.records) == 1


def test_full_disk_delays_trials_and_loses_nothing_that_fits(folder, full_disk, caplog):
    caplog.set_level(logging.WARNING)
    writer = StoreWriter(Location(folder), flush=0.05)
    full_disk["full"] = True
    for number in range(3):
        log = writer.begin(f"t{number}", params(), "")
        for each in samples(4):
            log.sample(each)
        log.close()
    until(lambda: any("cannot be written" in each.message for each in caplog.records))
    assert written(folder) == {}
    until(lambda: not list(folder.rglob("*.part")))  # another try may be under way
    full_disk["full"] = False
    until(lambda: len(written(folder)) == 3)
    writer.close()
    assert (writer.lost, writer.waiting) == (0, 0)
    with open_store(folder) as store:
        assert list(store.verify()) == []
    assert any("can be written again" in each.message for each in caplog.records)


def test_close_on_a_full_disk_counts_lost_samples_and_returns(folder, full_disk, caplog):
    writer = StoreWriter(Location(folder), flush=0.05)
    full_disk["full"] = True
    log = writer.begin("t1", params(), "")
    for each in samples(4):
        log.sample(each)
    log.close()
    writer.close(1.0)
    assert writer.lost == 5
    assert "5 samples could not be written" in caplog.text
    full_disk["full"] = False
    assert written(folder) == {}


def test_close_that_has_too_little_time_leaves_the_rest_to_the_next_process(folder, monkeypatch):
    store = OpenTrial.store

    def slow(self: OpenTrial, *arguments: Any) -> Any:
        time.sleep(0.2)
        return store(self, *arguments)

    monkeypatch.setattr(OpenTrial, "store", slow)
    writer = StoreWriter(Location(folder))
    for number in range(40):
        log = writer.begin(f"t{number:02}", params(), "")
        for each in samples(2):
            log.sample(each)
        log.close()
    began = time.monotonic()
    writer.close(0.5)
    assert time.monotonic() - began < 6
    assert writer.lost == 0
    monkeypatch.undo()
    until(lambda: not writer._thread.is_alive())
    found = written(folder)
    assert len(found) == 40
    assert not any(each.partial for each in found.values())
    with open_store(folder) as store_after:
        assert list(store_after.verify()) == []


def test_index_that_cannot_be_written_delays_rows_and_recovery_finds_the_files(
    folder, monkeypatch, caplog
):
    writer = StoreWriter(Location(folder))
    monkeypatch.setattr(SqliteIndex, "add", fail_to_add)
    log = writer.begin("t1", params(), "")
    for each in samples(4):
        log.sample(each)
    log.close()
    until(lambda: "trials wait" in caplog.text)
    monkeypatch.undo()
    assert until(lambda: written(folder).get("t1")).ticks == 4
    monkeypatch.setattr(SqliteIndex, "add", fail_to_add)
    log = writer.begin("t2", params(), "")
    for each in samples(2):
        log.sample(each)
    log.close()
    writer.close(1.0)
    monkeypatch.undo()
    found = written(folder)["t2"]
    assert (found.ticks, found.partial) == (2, False)
    with open_store(folder) as store:
        assert list(store.verify()) == []


def fail_to_add(self: SqliteIndex, records: Any) -> None:
    raise OSError(errno.EIO, "the database is gone")


def test_row_that_no_index_takes_is_dropped_and_others_go_on(folder, monkeypatch, caplog):
    add = SqliteIndex.add

    def picky(self: SqliteIndex, records: Any) -> Any:
        if any(each.trial_id == "t1" for each in records):
            raise ValueError("a row of odd values")
        return add(self, records)

    monkeypatch.setattr(SqliteIndex, "add", picky)
    writer = StoreWriter(Location(folder))
    for name in ("t0", "t1", "t2"):
        log = writer.begin(name, params(), "")
        log.sample(sample(0, last=DONE))
        log.close()
    until(lambda: {"t0", "t2"} <= set(written_only(folder)))
    writer.close()
    assert "trial t1: its row cannot be written" in caplog.text
    monkeypatch.undo()
    assert set(written(folder)) == {"t0", "t1", "t2"}


def written_only(folder: Path) -> list[str]:
    index = SqliteIndex(folder / NAME)
    try:
        return [each.trial_id for each in index.select(TrialFilter())]
    finally:
        index.close()


def test_trial_whose_id_is_no_file_name_is_counted_and_others_go_on(writer, folder, caplog):
    log = writer.begin("../evil", params(), "")
    log.sample(sample(0, last=DONE))
    log.close()
    good = writer.begin("good", params(), "")
    good.sample(sample(0, last=DONE))
    good.close()
    until(lambda: written(folder).get("good"))
    assert writer.lost == 1
    assert "../evil" in caplog.text
    assert [path.name for path in folder.rglob("*.parquet")] == ["good.parquet"]


def test_store_that_cannot_be_written_is_refused_at_once_and_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        StoreWriter(Location(tmp_path / "file/runs"))
    with pytest.raises(OSError, match="file"):
        StoreWriter(Location(tmp_path / "file"))


@pytest.mark.skipif(os.getuid() == 0, reason="root may write to every folder")
def test_folder_without_permission_is_refused_and_named(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match=str(tmp_path)):
        StoreWriter(Location(tmp_path / "runs"))


def test_index_of_a_newer_version_is_refused_at_the_start(folder):
    StoreWriter(Location(folder)).close()
    index = SqliteIndex(folder / NAME)
    index._query("UPDATE cogrs_store SET version = 2")
    index.close()
    with pytest.raises(ValueError, match="got version 2: a newer cogrs reads it"):
        StoreWriter(Location(folder))


def test_many_trials_at_the_same_time_are_each_stored_whole(writer, folder):
    logs = [writer.begin(f"t{k:03}", params(), "") for k in range(60)]
    for tick in range(6):
        for log in logs:
            log.sample(sample(tick, last=DONE if tick == 5 else ""))
        time.sleep(0.05)  # so that journals are written between
    for log in logs:
        log.close()
    until(lambda: len(written(folder)) == 60)
    writer.close()
    with open_store(folder) as store:
        assert list(store.verify()) == []
        for each in store.trials():
            assert (each.ticks, each.partial) == (5, False)
            assert [one.tick for one in store.read(each.trial_id)[1]] == list(range(6))


def test_two_writers_share_a_folder(folder):
    writers = [StoreWriter(Location(folder)) for _ in range(2)]
    for number, writer in enumerate(writers):
        log = writer.begin(f"t{number}", params(), "")
        for each in samples(2):
            log.sample(each)
        log.close()
    until(lambda: set(written(folder)) == {"t0", "t1"})
    for writer in writers:
        writer.close()
    assert record(0).trial_id not in written(folder)


def test_second_trial_of_an_id_is_refused_and_counted_and_the_first_stays(writer, folder, caplog):
    for ticks in (2, 3):
        log = writer.begin("t1", params(), "")
        for each in samples(ticks):
            log.sample(each)
        log.close()
    writer.close()
    assert writer.lost == 4
    assert "t1" in caplog.text
    with open_store(folder) as store:
        assert [each.ticks for each in store.trials()] == [2]
        assert list(store.verify()) == []


def test_id_that_another_writer_stored_is_refused_and_its_file_removed(folder, caplog):
    for ticks in (2, 3):
        writer = StoreWriter(Location(folder))
        log = writer.begin("t1", params(), "")
        for each in samples(ticks):
            log.sample(each)
        log.close()
        writer.close()
    assert writer.lost == 4
    assert "another trial has its id" in caplog.text
    assert len(list(folder.rglob("*.parquet"))) == 1
    with open_store(folder) as store:
        assert [each.ticks for each in store.trials()] == [2]


def test_samples_are_in_a_journal_before_a_long_queue_of_ended_trials_is_stored(
    folder, monkeypatch
):
    stored = threading.Event()
    go_on = threading.Event()

    def slow(*_: object) -> None:
        stored.set()
        go_on.wait(60)
        raise OSError("not now")

    monkeypatch.setattr(OpenTrial, "store", slow)
    writer = StoreWriter(Location(folder), flush=0.0)
    running, ended = (writer.begin(name, params(), "") for name in ("running", "ended"))
    running.sample(sample(0))
    ended.sample(sample(0, last=DONE))
    ended.close()
    try:
        assert stored.wait(60)
        assert len(list(folder.glob("trials/*/journal/*"))) == 2
    finally:
        go_on.set()
        writer.close(1.0)
