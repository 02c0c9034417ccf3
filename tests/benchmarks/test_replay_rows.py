"""The benchmarks' rows, which are made here without being measured."""

import importlib
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_rows_of_replay_benchmark_can_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    replay = importlib.import_module("replay")
    try:
        monkeypatch.setattr(replay.peers, "installed", lambda: ([], []))
        rows: list[str] = []
        bench = replay.Bench("", 1, None, large=True)
        monkeypatch.setattr(bench, "takes", lambda row: bool(rows.append(row.name)))
        for part in (replay.vectors, replay.limiters, replay.frames, replay.sequences):
            part(bench)
        assert len(rows) == len(set(rows)) > 20
    finally:
        for name in set(sys.modules) - before:
            if str(BENCHMARKS) in str(getattr(sys.modules[name], "__file__", "")):
                del sys.modules[name]
