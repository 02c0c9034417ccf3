"""A store on a disk of its own: one that is full, and one that can only be read."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from cogrs import cli
from cogrs.store import open_store
from cogrs.store.location import Location
from cogrs.store.writer import StoreWriter
from tests.store.trials import params, samples, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    path = tmp_path / "disk"
    path.mkdir()
    made = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(path)]
    try:
        subprocess.run(made, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this account may not mount file systems")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def remount(disk: Path, option: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{option}", str(disk)], check=True)


def write(writer: StoreWriter, trials: int) -> None:
    made = samples(20)
    for number in range(trials):
        log = writer.begin(f"t{number:03}", params(), "")
        for each in made:
            log.sample(each)
        log.close()


def test_trials_wait_while_the_disk_is_full_and_all_are_stored_when_there_is_room(disk, caplog):
    writer = StoreWriter(Location(disk / "runs"), flush=0.1)
    write(writer, 400)
    until(lambda: "cannot be written, samples wait" in caplog.text)
    remount(disk, "size=16m")
    until(lambda: writer.waiting == 0)
    writer.close()
    assert writer.lost == 0
    with open_store(disk / "runs") as store:
        assert store.count() == 400
        assert not any(each.partial for each in store.trials())
        assert list(store.verify()) == []


def test_close_on_a_full_disk_counts_lost_samples_and_all_others_are_stored(disk, caplog):
    writer = StoreWriter(Location(disk / "runs"), flush=0.1)
    write(writer, 400)
    until(lambda: "cannot be written, samples wait" in caplog.text)
    writer.close(1.0)
    remount(disk, "size=16m")
    with open_store(disk / "runs") as store:
        stored = list(store.trials())
        assert {each.kind for each in store.verify()} <= {"partial"}
    whole = [each for each in stored if not each.partial]
    assert whole
    assert writer.lost > 0
    samples_kept = sum(each.ticks + 1 for each in stored)
    assert samples_kept + writer.lost == 400 * 21


def test_store_that_can_only_be_read_is_listed_shown_and_verified(disk, capsys):
    folder = disk / "runs"
    writer = StoreWriter(Location(folder))
    write(writer, 2)
    writer.close()
    remount(disk, "ro")
    at = ["--store", str(folder)]
    for verb in (["ls"], ["show", "t001"], ["verify"], ["replay", "t000"]):
        assert cli.main(["data", *verb, *at]) == 0, verb
    assert "t001" in capsys.readouterr().out
    with open_store(folder) as store:
        assert store.count() == 2
        assert len(list(store.read("t000")[1])) == 21
    for verb in (["rm", "t000"], ["import", str(folder)]):
        assert cli.main(["data", *verb, *at]) in (1, 2)
        assert str(folder) in capsys.readouterr().err
    with pytest.raises(OSError, match=r"disk/runs: expected a folder that can be written"):
        StoreWriter(Location(folder))
