"""Memory that worker processes share, and the folders that they import from."""

from __future__ import annotations

import fcntl
import mmap
import os
import sys
from pathlib import Path

import pytest

from cogrs import GCWrapper
from cogrs.collector.environments.worker_process import SharedMemory
from cogrs.collector.games.gymnasium import ContextOptions, GameContext

sealed = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="Linux alone has seals")


@sealed
@pytest.mark.parametrize("size", [0, 1, 4096])
def test_shared_memory_cannot_be_made_smaller(size: int) -> None:
    memory = SharedMemory()
    try:
        memory.grow(3 * mmap.PAGESIZE)
        assert fcntl.fcntl(memory.descriptor, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK
        again = os.open(f"/proc/self/fd/{memory.descriptor}", os.O_RDWR)
        for descriptor in (memory.descriptor, again):
            with pytest.raises(PermissionError):
                os.ftruncate(descriptor, size)
        os.close(again)
        assert os.fstat(memory.descriptor).st_size == 3 * mmap.PAGESIZE
    finally:
        memory.close()


def test_shared_memory_grows_and_keeps_its_contents() -> None:
    memory = SharedMemory()
    try:
        for size in (1, 3 * mmap.PAGESIZE, mmap.PAGESIZE):
            memory.grow(size)
            assert os.fstat(memory.descriptor).st_size >= size
        assert os.fstat(memory.descriptor).st_size == 3 * mmap.PAGESIZE
    finally:
        memory.close()


@sealed
def test_environment_that_shrinks_the_memory_ends_no_other_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3]))
    co = ContextOptions()
    co.num_games = 4
    context = GameContext(co, "tests.collector.sample_environments:Shrinking", processes=2)
    with GCWrapper(context, co, {"actor": ({"_batchsize": 4, "s": ""}, {"a": ""})}) as wrapper:
        seen = []
        wrapper.reg_callback("actor", lambda batch, *_: seen.append(batch[0]["s"].sum()))
        wrapper.Start()
        for _ in range(3):
            wrapper.Run()
    assert seen == [0.0, 8000.0, 8000.0]


def test_module_of_the_present_folder_is_not_run_by_a_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = tmp_path / "ran"
    (tmp_path / "json.py").write_text(f"open({str(ran)!r}, 'w')")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3]))
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])
    monkeypatch.chdir(tmp_path)
    co = ContextOptions()
    co.num_games = 1
    context = GameContext(co, "CartPole-v1", processes=1)
    with GCWrapper(context, co, {"actor": ({"_batchsize": 1, "s": ""}, {"a": ""})}) as wrapper:
        wrapper.reg_callback("actor", lambda *_: None)
        wrapper.Start()
        wrapper.Run()
    assert not ran.exists()
