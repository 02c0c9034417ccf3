"""Data logs with any content are refused or read."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from cogrs import sdk
from tests.fuzz.harness import corpus, prolonged
from tests.fuzz.strategies import bounded, bytes_like, changed
from tests.logs import HEAD, ROW, read_samples, write_log


def read_lines(*lines: bytes, **options: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write_log(Path(folder), *lines, **options)
        bounded(lambda: read_samples(path), ValueError)


@prolonged
@given(changed(HEAD), st.lists(changed(ROW), max_size=3))
def test_log_of_any_rows_is_refused_or_read(head: Any, rows: list[Any]) -> None:
    read_lines(*(json.dumps(each).encode() for each in rows), head=json.dumps(head).encode())


@prolonged
@given(bytes_like(json.dumps(ROW).encode()))
def test_log_of_any_bytes_is_refused_or_read(line: bytes) -> None:
    read_lines(line)


@pytest.mark.parametrize("path", corpus("jsonl"), ids=lambda path: path.name)
def test_log_of_the_corpus_is_refused(path: Path) -> None:
    with pytest.raises(ValueError, match=r"\.jsonl"):
        read_samples(path)


def whole_parquet() -> bytes:
    from cogrs.api.common_pb2 import TrialParams

    with tempfile.TemporaryDirectory() as folder:
        sink = sdk.ParquetSink(folder)
        sink.start(sdk.LoggedTrial("t", (sdk.Actor("a", "c"),), TrialParams()))
        for tick in range(3):
            seen = {"a": sdk.Observation(tick, np.arange(5))}
            sink.sample(sdk.Sample(tick, seen, {"a": b"x"}, {}, {}, "", ""))
        sink.end()
        return (Path(folder) / "t.parquet").read_bytes()


@pytest.fixture(scope="module")
def parquet() -> bytes:
    pytest.importorskip("pyarrow")
    return whole_parquet()


@prolonged
@given(data=st.data())
def test_parquet_of_any_bytes_is_refused_or_read(parquet: bytes, data: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.parquet"
        path.write_bytes(data.draw(bytes_like(parquet)))
        bounded(lambda: read_samples(path), ValueError, OSError, MemoryError)
