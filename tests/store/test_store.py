"""A store as programs use it: reading, adding, late rewards, removing; spaces; bad arguments."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress

import gymnasium
import numpy as np
import pytest

from cogrs import sdk
from cogrs.space_json import ActorSpaces, actor_spaces_to_json
from cogrs.store import TrialFilter, is_person, open_store
from cogrs.workers import STEP_INFO, feed_log
from tests.store.trials import DONE, log_file, params, stored

SPACES = {
    "a": ActorSpaces(
        gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32), gymnasium.spaces.Discrete(3)
    )
}


def test_added_trial_reads_as_its_file_does(store, tmp_path):
    path = log_file(tmp_path, "t1", ticks=4, spaces=actor_spaces_to_json(SPACES))
    record = store.add(path)
    assert (record.ticks, record.returns, record.end_reason) == (4, {"a": 4.0}, DONE)
    trial, samples = store.read("t1")
    expected, own = sdk.read_log(path)
    assert trial == expected
    assert trial.spaces == SPACES
    assert str(list(samples)) == str(list(own))
    assert str(list(sdk.read_log(store.path(record))[1])) == str(list(sdk.read_log(path)[1]))


def test_trial_of_json_lines_becomes_the_same_file(store, tmp_path):
    path = log_file(tmp_path, "t1", spaces=actor_spaces_to_json(SPACES))
    trial, samples = sdk.read_log(path)
    sink = sdk.JsonLinesSink(tmp_path)
    sink.start(trial)
    for each in samples:
        sink.sample(each)
    sink.end()
    record = store.add(tmp_path / "t1.jsonl")
    assert record.file.endswith("t1.parquet")
    read, kept = store.read("t1")
    assert read.spaces == SPACES
    assert str(list(kept)) == str(list(sdk.read_log(path)[1]))
    assert list(store.verify()) == []


def test_trial_that_is_there_already_is_refused(store, tmp_path):
    stored(store, tmp_path, "t1")
    with pytest.raises(ValueError, match=r"t1\.parquet: trial t1 is in the store already"):
        store.add(tmp_path / "t1.parquet")
    assert len(list(store.trials())) == 1


def test_file_of_something_else_is_refused_and_nothing_is_stored(store, tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"x\.parquet"):
        store.add(tmp_path / "x.parquet")
    with pytest.raises(FileNotFoundError):
        store.add(tmp_path / "y.parquet")
    with pytest.raises(ValueError, match=r"expected a \.jsonl or \.parquet file"):
        store.add(tmp_path / "x.csv")
    assert list(store.trials()) == list(store.verify()) == []


def test_late_reward_is_at_its_step_for_all_readers(store, tmp_path):
    stored(store, tmp_path, "t1", ticks=4)
    old = store.path(store.trial("t1"))
    record = store.add_reward("t1", "a", 2, 5.0, sender="ada", confidence=0.5)
    assert (record.returns, record.people) == ({"a": 9.0}, True)
    assert store.trial("t1") == record
    assert not old.exists()
    trial, samples = store.read("t1")
    late = [each for one in samples for each in one.rewards["a"] if each.value == 5.0]
    assert [(each.tick, each.sources[0].sender_name) for each in late] == [(2, "ada")]
    assert is_person(trial, "ada")
    assert not is_person(trial, "env")
    assert store.add_reward("t1", "a", 4, -1.0).returns == {"a": 8.0}
    assert [each.trial_id for each in store.trials(TrialFilter(people=True))] == ["t1"]
    assert list(store.verify()) == []

    from cogrs.replay import ReplayMemory

    number = np.float32(0)
    entry = (np.zeros(2, np.float32), np.int64(0), number, number, number, number)
    memory = ReplayMemory(*entry, np.zeros((), STEP_INFO), 10)
    asyncio.run(feed_log(memory, [store.path(store.trial("t1"))]))
    assert memory.episode(0).entries.r[:4].tolist() == [1.0, 6.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (("t1", "b", 1, 1.0), ValueError, "actor: no actor 'b' in trial t1; it has a"),
        (("t1", "a", 9, 1.0), ValueError, "tick: expected an integer from 0 to 3, got 9"),
        (("t1", "a", -1, 1.0), ValueError, "tick: expected an integer from 0 to 3, got -1"),
        (("t1", "a", 1, float("nan")), ValueError, "value: expected a finite number, got nan"),
        (("t1", "a", 1, "1"), TypeError, "value: expected a finite number, got str"),
        (("t9", "a", 1, 1.0), ValueError, "no trial 't9'"),
        ((1, "a", 1, 1.0), TypeError, "trial_id: expected a string, got int"),
    ],
    ids=["actor", "tick", "negative", "nan", "text", "trial", "type"],
)
def test_late_reward_with_a_wrong_argument_changes_nothing(store, tmp_path, arguments, error, text):
    stored(store, tmp_path, "t1")
    before = store.trial("t1")
    with pytest.raises(error, match=text.replace("'", ".")):
        store.add_reward(*arguments)
    with pytest.raises(ValueError, match="confidence: expected a number > 0, got 0"):
        store.add_reward("t1", "a", 1, 1.0, confidence=0)
    assert store.trial("t1") == before
    assert list(store.verify()) == []


def test_removed_trials_leave_no_file(store, tmp_path):
    stored(store, tmp_path, "t0", "t1", "t2")
    with pytest.raises(ValueError, match="no trial 't9'"):
        store.remove(["t0", "t9"])
    assert len(list(store.trials())) == 3
    assert [each.trial_id for each in store.remove(["t0", "t2"])] == ["t0", "t2"]
    assert [each.trial_id for each in store.trials()] == ["t1"]
    assert [path.name for path in store.folder.rglob("*.parquet*")] == ["t1.parquet"]
    with pytest.raises(TypeError, match="trial_ids: expected a list"):
        store.remove("t1")


def test_missing_store_is_an_error_that_names_the_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match=f"{tmp_path}/no: expected a store of trials"):
        open_store(tmp_path / "no")
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize(
    ("where", "files", "error", "text"),
    [
        ("http://x", None, ValueError, "where: expected a folder, file:FOLDER or postgresql"),
        ("file://host/x", None, ValueError, "where: expected a folder of this machine"),
        ("", None, ValueError, "where: expected a folder, got ''"),
        (None, None, TypeError, "where: expected a path, got NoneType"),
        ("x", "y", ValueError, "files: expected only beside a postgresql:// URL, got y"),
        ("postgresql://u:secret@h/d", None, ValueError, "beside postgresql://u@h/d, got none"),
        ("postgresql://u@h/d", 1, TypeError, "files: expected a path, got int"),
    ],
    ids=["scheme", "host", "empty", "none", "files", "secret", "type"],
)
def test_wrong_location_is_refused_by_name(where, files, error, text):
    with pytest.raises(error, match=text) as caught:
        open_store(where, files=files)
    assert "secret" not in str(caught.value)


def test_urls_of_files_name_folders(tmp_path):
    for where in (f"file:{tmp_path}/a%20b", f"file://{tmp_path}/a%20b", tmp_path / "a b"):
        with open_store(where, create=True) as store:
            assert store.folder == tmp_path / "a b"


def test_person_is_a_client_actor_or_somebody_outside_of_the_trial():
    given = params(("a", "player"), ("p", "person"))
    trial = sdk.LoggedTrial("t", (), given)
    assert [is_person(trial, each) for each in ("env", "a", "p", "ada")] == [
        False,
        False,
        True,
        True,
    ]


def test_store_without_pyarrow_names_the_package_to_install(folder, monkeypatch):
    with open_store(folder, create=True):
        pass
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with open_store(folder) as store, pytest.raises(ImportError, match=r"'cogrs\[parquet\]'"):
        store.read("t1")


def test_postgres_without_psycopg_names_the_package_to_install(folder, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    with pytest.raises(ImportError, match=r"psycopg.*pip install 'cogrs\[postgres\]'"):
        open_store("postgresql://localhost/x", files=folder)


def test_removal_during_a_late_reward_leaves_neither_row_nor_file(store, tmp_path, folder):
    """Removals and late rewards of the same trials take turns, in any order."""
    names = [f"t{number}" for number in range(20)]
    stored(store, tmp_path, *names)
    ready = threading.Barrier(2)

    def reward() -> None:
        with open_store(folder) as other:
            ready.wait(30)
            for name in names:
                with suppress(ValueError):  # it was removed already
                    other.add_reward(name, "a", 1, 1.0)

    thread = threading.Thread(target=reward)
    thread.start()
    ready.wait(30)
    for name in names:
        store.remove([name])
    thread.join(60)
    assert list(store.trials()) == []
    assert list(folder.glob("trials/*/0*/*")) == []


def test_failed_removal_leaves_files_in_place(store, tmp_path, monkeypatch):
    stored(store, tmp_path, "t0", "t1")

    def fail(*_: object) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(store._index, "remove", fail)
    with pytest.raises(OSError, match="the disk is gone"):
        store.remove(["t0", "t1"])
    monkeypatch.undo()
    assert list(store.verify()) == []
    assert [each.tick for each in store.read("t1")[1]] == [0, 1, 2, 3]


def test_removal_with_an_unknown_id_removes_nothing(store, tmp_path):
    stored(store, tmp_path, "t0")
    with pytest.raises(ValueError, match="no trial 't9'"):
        store.remove(["t0", "t9"])
    assert [each.trial_id for each in store.trials()] == ["t0"]
    assert len(store.remove(["t0", "t0"])) == 1
