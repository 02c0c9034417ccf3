"""Files of data logs that somebody else made, and folders that somebody else can write to."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from cogrs import sdk
from cogrs.api.common_pb2 import TrialParams
from cogrs.log_schema import log_schema
from cogrs.sdk import datalog_jsonl, datalog_parquet, datalog_row
from tests.logs import ROW, read_samples, write_log

if TYPE_CHECKING:
    from pathlib import Path

GOOD = json.dumps(ROW).encode()


def observation(**changes: Any) -> dict[str, Any]:
    return {"observation": {**ROW["observation"], **changes}}


def deep(levels: int) -> str:
    return "[" * levels + "]" * levels


ROWS: dict[str, Any] = {
    "strings of 2 GB": observation(kind="|S2000000000", values=["a"]),
    "text of 8 GB": observation(kind="<U2000000000", values=["a"]),
    "void of 2 GB": observation(kind="|V2000000000", values=[0]),
    "record of 2 GB": observation(kind="[('a', '|S2000000000')]", values=[["a"]]),
    "objects": observation(kind="|O", values=[1]),
    "no such dtype": observation(kind="<f99", values=[1]),
    "dtype that is a number": observation(kind=4),
    "values of values": observation(values=[[1.5]]),
    "text as values": observation(values="1"),
    "text in values": observation(values=["1"]),
    "values too large": observation(kind="|u1", values=[300]),
    "integers too large": observation(kind="<i8", values=[2**70]),
    "float32 that rounds to infinity": observation(values=[3.4028235677973366e38]),
    "float16 that rounds to infinity": observation(kind="<f2", values=[65520]),
    "bfloat16 that rounds to infinity": observation(kind="bfloat16", values=[3.4e38]),
    "float8 beyond the largest": observation(kind="float8_e4m3fn", values=[1e5]),
    "integers too large for floats": observation(values=[10**400]),
    "fractions as integers": observation(kind="<i4", values=[1.5]),
    "another size": observation(shape=[2]),
    "huge shape": observation(shape=[2**62, 2**62]),
    "negative shape": observation(shape=[-1]),
    "shape of text": observation(shape=["1"]),
    "shape of lists": observation(shape=[[1]]),
    "shape of many dimensions": observation(shape=[1] * 100),
    "shape of none": observation(shape=[0, 2**70], values=[]),
    "no kind": {"observation": {"shape": [1], "values": [1]}},
    "no values": {"observation": {"kind": "<f4", "shape": [1]}},
    "data that is not base64": {"observation": {"kind": "", "shape": [], "data": "*"}},
    "observation of text": {"observation": "x"},
    "parts of other bytes": {
        "observation": {"kind": "cogrs.payload.Array", "shape": [], "data": "/w=="}
    },
    "tick of text": {"tick": "0"},
    "tick of a flag": {"tick": True},
    "huge tick": {"tick": 2**200},
    "actor of a number": {"actor": 5},
    "flag of a number": {"terminated": 1},
    "rewards of none": {"rewards": None},
    "reward of text": {"rewards": ["x"]},
    "huge reward": {"rewards": [{"tick": 0, "value": 10**400, "sources": []}]},
    "sources of a number": {"rewards": [{"tick": 0, "value": 1, "sources": 5}]},
    "source of none": {"rewards": [{"tick": 0, "value": 1, "sources": [None]}]},
    "messages of a mapping": {"messages": {"a": 1}},
    "message of other data": {"messages": [{**ROW["messages"][0], "data": 5}]},
    "no sample": {"sample": None},
}
LINES = {
    "deep": deep(100_000),
    "deep, of objects": '{"a":' * 100_000,
    "many lists": "[" + "[]," * 200_000 + "[]]",
    "not JSON": "{",
    "no row": "5",
    "NaN": json.dumps({**ROW, "tick": float("nan")}),
    "long integer": '{"tick": ' + "9" * 5000 + "}",
    "other bytes": "\udcff",
}


@pytest.mark.parametrize("kind", [*ROWS, *LINES])
def test_line_that_no_sink_writes_is_refused_with_its_file(tmp_path: Path, kind: str) -> None:
    line = LINES.get(kind) or json.dumps({**ROW, **ROWS[kind]})
    path = write_log(tmp_path, line.encode("utf-8", "surrogateescape"), GOOD)
    with pytest.raises(ValueError, match=r"t\.jsonl:") as caught:
        read_samples(path)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("head", [deep(100_000), "5", "{", '{"params": 5}', '{"params": {"a": 1}}'])
def test_head_that_no_sink_writes_is_refused(tmp_path: Path, head: str) -> None:
    path = write_log(tmp_path, head=head.encode())
    with pytest.raises(ValueError, match=r"t\.jsonl: expected a trial's parameters first"):
        read_samples(path)


def test_row_written_by_a_sink_is_read(tmp_path: Path) -> None:
    (sample,) = read_samples(write_log(tmp_path, GOOD))
    assert sample.observations["a"].value == np.float32(1.5)
    assert sample.messages["a"][0].payload.value == b"hi"


def test_line_or_sample_above_its_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_log(tmp_path, GOOD, json.dumps({**ROW, "actor": "b"}).encode())
    assert len(read_samples(path)) == 1
    monkeypatch.setattr(datalog_row, "LOG_SAMPLE_BYTES", 300)
    with pytest.raises(ValueError, match=r"t\.jsonl: expected samples of at most 300 bytes"):
        read_samples(path)
    monkeypatch.setattr(datalog_jsonl, "LOG_LINE_BYTES", 100)
    with pytest.raises(ValueError, match=r"t\.jsonl:2: expected lines of at most 100 bytes"):
        read_samples(path)


# -- Parquet -----------------------------------------------------------------------------------


def structs(**changes: Any) -> dict[str, Any]:
    row = {**ROW, **changes}
    row["action"] = {"kind": "", "shape": [], "data": b"hi"}
    row["messages"] = [{**each, "data": b"hi"} for each in row["messages"]]
    if "values" in (row["observation"] or {}):
        row["observation"] = {"kind": "<f4", "shape": [1], "data": np.float32(1.5).tobytes()}
    return row


def parquet(folder: Path, rows: list[dict[str, Any]], **options: Any) -> Path:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    params = TrialParams()
    metadata = options.pop("metadata", None) or {
        "cogrs.trial_id": b"t",
        "cogrs.params": params.SerializeToString(),
    }
    schema = options.pop("schema", None) or log_schema()
    table = pa.Table.from_pylist(rows, schema.with_metadata(metadata))
    path = folder / "t.parquet"
    pq.write_table(table, path, **options)
    return path


def test_parquet_of_a_value_that_many_rows_share_takes_little_memory(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    shared = {"kind": "", "shape": [], "data": bytes(4 << 20)}
    rows = [structs(sample=number, observation=shared) for number in range(200)]
    path = parquet(tmp_path, rows, dictionary_pagesize_limit=1 << 30)
    del rows
    assert path.stat().st_size < 1 << 20
    before, most, count = pa.total_allocated_bytes(), 0, 0
    for sample in sdk.read_log(path)[1]:
        most, count = max(most, pa.total_allocated_bytes() - before), count + 1
        assert len(sample.observations["a"].value) == 4 << 20
    assert count == 200
    assert most < 100 << 20  # all rows together take 800 MiB


def test_parquet_with_all_rows_in_one_sample_is_refused_before_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datalog_row, "LOG_SAMPLE_BYTES", 10 << 20)
    shared = {"kind": "", "shape": [], "data": bytes(4 << 20)}
    rows = [structs(observation=shared) for _ in range(20)]
    with pytest.raises(ValueError, match=r"t\.parquet: expected samples of at most"):
        read_samples(parquet(tmp_path, rows, dictionary_pagesize_limit=1 << 30))


@pytest.mark.parametrize("compression", ["gzip", "zstd", "brotli", "lz4"])
def test_parquet_of_another_compression_is_refused(tmp_path: Path, compression: str) -> None:
    path = parquet(tmp_path, [structs()], compression=compression)
    with pytest.raises(ValueError, match=r"t\.parquet: .* expected SNAPPY or UNCOMPRESSED"):
        sdk.read_log(path)


def test_parquet_with_columns_above_a_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = parquet(tmp_path, [structs(sample=number) for number in range(20)])
    assert len(read_samples(path)) == 20
    monkeypatch.setattr(datalog_parquet, "LOG_GROUP_VALUES", 19)
    with pytest.raises(ValueError, match=r"t\.parquet: .* expected at most 19 values"):
        sdk.read_log(path)
    monkeypatch.setattr(datalog_parquet, "LOG_GROUP_VALUES", 20)
    monkeypatch.setattr(datalog_parquet, "LOG_GROUP_BYTES", 20)
    with pytest.raises(ValueError, match=r"t\.parquet: .* expected at most 20 bytes"):
        sdk.read_log(path)


def test_parquet_of_many_rewards_in_a_few_bytes_is_refused(tmp_path: Path) -> None:
    reward = {"tick": 0, "value": 1.0, "sources": []}
    path = parquet(tmp_path, [structs(rewards=[reward] * 300_000)])
    assert path.stat().st_size < 100_000
    with pytest.raises(ValueError, match=r"t\.parquet: .*rewards.* values"):
        sdk.read_log(path)


def test_parquet_of_more_rows_than_bytes_is_refused(tmp_path: Path) -> None:
    path = parquet(tmp_path, [structs()] * 100_000)
    assert path.stat().st_size < 100_000
    with pytest.raises(ValueError, match=r"t\.parquet: expected no more rows than bytes"):
        sdk.read_log(path)


def test_parquet_of_other_columns_or_metadata_is_refused(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    with pytest.raises(ValueError, match="expected the columns of a data log"):
        sdk.read_log(parquet(tmp_path, [{"a": 1}], schema=pa.schema([("a", pa.int64())])))
    for metadata in ({"cogrs.trial_id": b"t"}, {"cogrs.params": b""}):
        with pytest.raises(ValueError, match="parameters in its metadata"):
            sdk.read_log(parquet(tmp_path, [structs()], metadata=metadata))
    damaged = [("params", b"\xff"), ("params_base64", b"/w=="), ("params_base64", b"no base64!")]
    for key, params in damaged:
        metadata = {"cogrs.trial_id": b"t", f"cogrs.{key}": params}
        with pytest.raises(ValueError, match=r"t\.parquet: expected a trial's parameters"):
            sdk.read_log(parquet(tmp_path, [structs()], metadata=metadata))


def test_parquet_with_values_that_no_sink_writes_is_refused(tmp_path: Path) -> None:
    odd = [
        {"tick": None, "actor": None},
        {"observation": {"kind": "|S2000000000", "shape": [1], "data": b"x"}},
        {"observation": {"kind": "<f4", "shape": [2**62, 8], "data": b"x"}},
        {"observation": {"kind": None, "shape": [1], "data": b"x"}},
        {"rewards": [None]},
        {"messages": []} | {"user_id": None},
    ]
    for changes in odd:
        with pytest.raises(ValueError, match=r"t\.parquet: "):
            read_samples(parquet(tmp_path, [structs(**changes)]))


# -- what is written ---------------------------------------------------------------------------


def trial() -> sdk.LoggedTrial:
    return sdk.LoggedTrial("t", (sdk.Actor("a", "c"),), TrialParams())


def sample(size: int = 1) -> sdk.Sample:
    seen = {"a": sdk.Observation(0, np.zeros(size, np.uint8))}
    return sdk.Sample(0, seen, {}, {}, {}, "", "")


@pytest.mark.parametrize("target", ["file", "nothing", "folder"])
def test_link_in_the_place_of_the_unfinished_file_is_not_followed(
    tmp_path: Path, target: str
) -> None:
    pytest.importorskip("pyarrow")
    other, folder = tmp_path / "other", tmp_path / "logs"
    folder.mkdir()
    if target == "file":
        other.write_text("precious")
    elif target == "folder":
        other.mkdir()
    (folder / "t.parquet.part").symlink_to(other)
    sink = sdk.ParquetSink(folder)
    sink.start(trial())
    sink.sample(sample())
    sink.end()
    assert not (folder / "t.parquet").is_symlink()
    assert len(read_samples(folder / "t.parquet")) == 1
    if target == "file":
        assert other.read_text() == "precious"
    else:
        assert other.exists() == (target == "folder")


def test_unfinished_file_of_a_process_that_was_ended_is_replaced(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "t.parquet.part").write_text("half a file")
    sink = sdk.ParquetSink(tmp_path)
    sink.start(trial())
    sink.sample(sample())
    sink.end()
    assert os.listdir(tmp_path) == ["t.parquet"]
    assert len(read_samples(tmp_path / "t.parquet")) == 1


def test_link_in_the_place_of_a_file_of_lines_is_refused(tmp_path: Path) -> None:
    other, folder = tmp_path / "other", tmp_path / "logs"
    folder.mkdir()
    (folder / "t.jsonl").symlink_to(other)
    with pytest.raises(FileExistsError):
        sdk.JsonLinesSink(folder).start(trial())
    assert not other.exists()


@pytest.mark.parametrize("kind", ["JsonLinesSink", "ParquetSink"])
def test_sample_that_could_not_be_read_again_is_not_written(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(datalog_row, "LOG_SAMPLE_BYTES", 1000)
    sink = getattr(sdk, kind)(tmp_path)
    sink.start(trial())
    sink.sample(sample(500))
    with pytest.raises(ValueError, match="expected samples of at most 1000 bytes"):
        sink.sample(sample(2000))
    sink.lost()
    (path,) = tmp_path.iterdir()
    assert len(read_samples(path)) == 1


def test_large_samples_are_written_in_row_groups_of_bounded_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(datalog_parquet, "_ROW_GROUP_BYTES", 1000)
    sink = sdk.ParquetSink(tmp_path)
    sink.start(trial())
    for _ in range(10):
        sink.sample(sample(400))
    sink.end()
    with pq.ParquetFile(tmp_path / "t.parquet") as file:
        assert file.metadata.num_row_groups == 4


def test_parquet_row_of_many_messages_with_one_shared_value_is_refused_early(
    tmp_path: Path,
) -> None:
    message = {"sender": "e", "tick": 0, "type": "t", "data": bytes(1 << 20)}
    pa = pytest.importorskip("pyarrow")
    row = structs()
    row["messages"] = [message] * 1000
    path = parquet(tmp_path, [row], dictionary_pagesize_limit=1 << 30)
    assert path.stat().st_size < 1 << 20
    before = pa.total_allocated_bytes()
    with pytest.raises(ValueError, match=r"t\.parquet: expected samples of at most"):
        read_samples(path)
    assert pa.total_allocated_bytes() - before < 100 << 20


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_pipe_in_the_place_of_a_log_is_refused_at_once(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"log{suffix}"
    os.mkfifo(path)
    with pytest.raises(ValueError, match=f"{path}: expected a regular file"):
        sdk.read_log(path)


def test_parquet_of_several_small_row_groups_is_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(datalog_parquet, "_ROW_GROUP_BYTES", 1)  # as large observations do
    trial, samples = sdk.read_log(write_log(tmp_path, GOOD))
    (sample,) = samples
    sink = sdk.ParquetSink(tmp_path)
    sink.start(trial)
    for _ in range(5):
        sink.sample(sample)
    sink.end()
    assert len(read_samples(tmp_path / "t.parquet")) == 5
