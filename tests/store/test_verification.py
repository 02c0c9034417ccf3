"""`verify` and `--mend`: damage that tests make, both ways, and what is not damage."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from cogrs.store import open_store, verification
from cogrs.store.verification import ASIDE
from tests.store.trials import log_file, stored

if TYPE_CHECKING:
    from pathlib import Path

    from cogrs.store import Store


def kinds(store: Store, *, mend: bool = False) -> list[tuple[str, str, bool]]:
    return sorted((each.kind, each.trial_id, each.is_damage) for each in store.verify(mend=mend))


def aged(path: Path) -> Path:
    """Make a file look older than what another process may be about to finish."""
    past = time.time() - 1000
    os.utime(path, (past, past))
    return path


@pytest.fixture
def three(folder, tmp_path):
    """A store of three trials, whose writer has ended."""
    with open_store(folder, create=True) as store:
        stored(store, tmp_path, "t0", "t1", "t2")
    with open_store(folder) as store:
        yield store


def test_sound_store_has_no_findings(three):
    assert kinds(three) == []


def test_missing_file_is_damage_and_its_row_goes(three):
    three.path(three.trial("t1")).unlink()
    with pytest.raises(FileNotFoundError, match="the file of trial t1 is missing"):
        three.read("t1")
    assert kinds(three) == [("missing", "t1", True)]
    assert kinds(three, mend=True) == [("missing", "t1", False)]
    assert kinds(three) == []
    assert [each.trial_id for each in three.trials()] == ["t0", "t2"]


def test_file_without_a_row_is_damage_and_its_row_comes_back(three):
    before = three.trial("t1")
    three._index.remove(["t1"])
    assert kinds(three) == [("unlisted", "t1", True)]
    assert kinds(three, mend=True) == [("unlisted", "t1", False)]
    assert three.trial("t1") == before
    assert kinds(three) == []


@pytest.mark.parametrize("at", [0, 200, -1])
def test_changed_byte_is_damage_and_named_by_every_reader(three, at):
    path = three.path(three.trial("t1"))
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(ValueError, match=f"{path}: changed since trial t1 was stored"):
        three.read("t1")
    assert kinds(three) == [("changed", "t1", True)]
    assert kinds(three, mend=True) == [("changed", "t1", False)]
    assert kinds(three) == []
    left = {each.trial_id for each in three.trials()}
    # Where the file can still be read, the trial stays as the file has it now.
    assert left in ({"t0", "t2"}, {"t0", "t1", "t2"})
    assert (three.folder / ASIDE / path.name).exists() == ("t1" not in left)


def test_file_of_another_trial_in_its_place_is_set_aside(three):
    path = three.path(three.trial("t1"))
    path.write_bytes(three.path(three.trial("t2")).read_bytes())
    (found,) = three.verify(mend=True)
    assert (found.kind, found.mended != "") == ("changed", True)
    assert [each.trial_id for each in three.trials()] == ["t0", "t2"]
    assert (three.folder / ASIDE / path.name).exists()


def test_leftovers_of_interrupted_calls_are_no_damage_and_go(three):
    place = three.path(three.trial("t1"))
    aged(place).with_name("t9.parquet.part").write_bytes(b"")
    aged(place.with_name("t9.parquet.part"))
    place.with_name("t1~1.parquet").write_bytes(place.read_bytes())
    aged(place.with_name("t1~1.parquet"))
    expected = [("leftover", "t1", False), ("leftover", "t9", False)]
    assert kinds(three) == expected
    assert kinds(three, mend=True) == expected
    assert kinds(three) == []
    assert three.trial("t1").file.endswith("t1.parquet")


def test_removal_that_was_interrupted_is_no_damage_and_is_completed(three):
    place = three.path(three.trial("t1"))
    place.rename(place.with_name(f"{place.name}.removed"))
    assert ("leftover", "t1", False) in kinds(three)
    kinds(three, mend=True)
    assert [each.trial_id for each in three.trials()] == ["t0", "t2"]


def test_partial_trial_is_told_and_no_damage(three, tmp_path):
    folder = tmp_path / "more"
    path = log_file(folder, "p", ticks=3)
    # The last sample, which has the reason, is missing.
    import pyarrow.parquet as parquet

    table = parquet.read_table(path)
    parquet.write_table(table.slice(0, 3), path)
    assert three.add(path).partial
    assert kinds(three) == [("partial", "p", False)]


def test_files_of_a_writer_that_lives_are_not_judged(folder, tmp_path):
    with open_store(folder, create=True) as store:
        stored(store, tmp_path, "t0")
        store._index.remove(["t0"])
        with open_store(folder) as other:
            assert kinds(other) == []
    with open_store(folder) as store:
        assert kinds(store) == [("unlisted", "t0", True)]


def test_trial_that_is_removed_or_rewarded_during_verify_is_no_damage(three):
    with open_store(three.folder) as other:
        findings = three.verify()
        three.path(three.trial("t0")).unlink()
        first = next(findings)
        assert (first.kind, first.trial_id) == ("missing", "t0")
        # The rows of both were read already.
        other.remove(["t1"])
        other.add_reward("t2", "a", 1, 1.0)
        assert list(findings) == []


def test_writer_that_begins_during_verify_is_not_judged(three, tmp_path, monkeypatch):
    """The rows of a writer that lives come later than its files."""
    seen = verification.sessions(three.folder)
    with open_store(three.folder) as other:
        record = stored(other, tmp_path, "t3")[0]
        session = other.path(record).parent.parent
        other._index.remove(["t3"])  # as if the row was not written yet
        monkeypatch.setattr(verification, "sessions", lambda _: [*seen, session])
        assert kinds(three, mend=True) == []
        assert other.path(record).exists()


def test_file_of_an_id_that_contains_the_suffix_is_not_taken_for_a_leftover(three, tmp_path):
    with open_store(three.folder) as other:
        record = stored(other, tmp_path, "t1.parquet.x")[0]
        aged(other.path(record))
    three._index.remove(["t1.parquet.x"])
    assert kinds(three, mend=True) == [("unlisted", "t1.parquet.x", False)]
    assert three.trial("t1.parquet.x").ticks == 3
