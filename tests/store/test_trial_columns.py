"""Columns of samples as orchestrators log them: the rows that `ParquetSink` writes of the same."""

from __future__ import annotations

import asyncio
import base64
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from cogrs import sdk
from cogrs.api.common_pb2 import Message, RewardSource
from cogrs.api.datalog_pb2 import DatalogSample, LogExporterSampleRequest
from cogrs.log_schema import FORMER_PARAMS, PARAMS, SPACES, TRIAL, log_schema
from cogrs.sdk.codecs import CodecRegistry
from cogrs.sdk.datalog_host import DatalogHost
from cogrs.store.session import Session
from tests.store.trials import CODEC, open_trial, params, serialized

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

ARRAYS = npst.arrays(
    st.sampled_from([np.float32, np.int64, np.bool_, np.uint8, np.complex64]),
    npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
)
VALUES = st.recursive(
    ARRAYS,
    lambda inner: st.dictionaries(st.text("ab\u00df", min_size=1), inner, min_size=1, max_size=2),
    max_leaves=3,
)
CONTENTS = st.builds(
    lambda value, over, cut: CODEC.encode(value, terminated=over, truncated=cut),
    VALUES,
    st.booleans(),
    st.booleans(),
)
NAMES = ["a", "b"]
FLOATS = st.floats(-100, 100, width=32)


@st.composite
def logged(draw: Any) -> DatalogSample:
    made = DatalogSample(user_id=draw(st.sampled_from(["", "ann"])))
    if draw(st.booleans()):
        told = made.observations
        told.tick_id, told.timestamp = draw(st.integers(0, 9)), draw(st.integers(0, 2**63))
        contents = draw(st.lists(CONTENTS, min_size=1, max_size=2))
        for content in contents:
            told.observations.add(content=content, snapshot=True)
        told.actors_map.extend(draw(st.integers(0, len(contents) - 1)) for _ in NAMES)
    for _ in range(draw(st.sampled_from([0, 2]))):
        made.actions.add(content=draw(st.just(b"") | CONTENTS))
    for _ in range(draw(st.integers(0, 3))):
        sources = [
            RewardSource(sender_name=draw(st.sampled_from(["env", "p"])), value=draw(FLOATS))
            for _ in range(draw(st.integers(1, 2)))
        ]
        made.rewards.add(
            receiver_name=draw(st.sampled_from(NAMES)),
            tick_id=draw(st.integers(0, 9)),
            value=draw(FLOATS),
            sources=sources,
        )
    for _ in range(draw(st.integers(0, 2))):
        message = Message(sender_name="a", receiver_name=draw(st.sampled_from([*NAMES, "env"])))
        message.payload.type_url, message.payload.value = "x/y", draw(st.binary(max_size=5))
        made.messages.append(message)
    made.end_reason = draw(st.sampled_from(["", "done"]))
    return made


def by_the_sink(folder: Path, made: list[DatalogSample]) -> list[dict[str, Any]]:
    async def requests() -> AsyncIterator[LogExporterSampleRequest]:
        yield LogExporterSampleRequest(trial_params=params(("a", "x"), ("b", "y")))
        for each in made:
            yield LogExporterSampleRequest(sample=each)

    host = DatalogHost(lambda: sdk.ParquetSink(folder), CodecRegistry(None))
    asyncio.run(host.on_log_sample("t", requests()))
    return pyarrow.parquet.read_table(folder / "t.parquet").to_pylist()


@settings(
    max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, *HealthCheck]
)
@given(made=st.lists(logged(), max_size=4), group=st.integers(1, 9))
def test_rows_equal_the_rows_of_the_parquet_sink(tmp_path_factory, made, group):
    folder = tmp_path_factory.mktemp("rows")
    trial = open_trial("t", params(("a", "x"), ("b", "y")))
    trial.samples = serialized(made)
    session = Session.begin(folder)
    with patch("cogrs.store.journal._ROWS", group):
        kept = trial.store(session, folder)
    session.end()
    table = pyarrow.parquet.read_table(folder / kept.file)
    expected = by_the_sink(folder / "sink", made)
    assert table.to_pylist() == expected
    assert kept.end_reason == ([each.end_reason for each in made if each.end_reason] or [""])[-1]
    for name in NAMES:
        values = [each.value for one in made for each in one.rewards if each.receiver_name == name]
        assert kept.returns[name] == pytest.approx(sum(values), abs=1e-3)


@pytest.mark.parametrize(
    "content",
    [
        b"\x00",
        b"\xff" * 9,
        b"\x0a\x03<f4",  # a dtype without data
        b"\x0a\x02|O",
        b"hello",
        b"\x32\x02\x0a\x00",  # a part without an array
    ],
)
def test_content_of_another_codec_is_kept_as_bytes(tmp_path, content):
    made = DatalogSample(end_reason="done")
    made.observations.observations.add(content=content)
    made.observations.actors_map.append(0)
    made.actions.add(content=content)
    trial = open_trial("t")
    trial.samples = serialized([made])
    session = Session.begin(tmp_path)
    kept = trial.store(session, tmp_path)
    (read,) = sdk.read_log(tmp_path / kept.file)[1]
    assert read.observations["a"].value == read.actions["a"] == content
    session.end()


def test_trial_of_many_rows_is_written_in_several_groups(tmp_path, monkeypatch):
    monkeypatch.setattr("cogrs.store.journal._ROWS", 4)
    made = []
    for tick in range(10):
        made.append(DatalogSample(end_reason="done" if tick == 9 else ""))
        made[-1].observations.tick_id = tick
        made[-1].observations.observations.add(content=CODEC.encode([tick]))
        made[-1].observations.actors_map.append(0)
    trial = open_trial("t")
    session = Session.begin(tmp_path)
    trial.samples = serialized(made[:5])
    trial.flush(session)
    trial.samples = serialized(made[5:])
    kept = trial.store(session, tmp_path)
    path = tmp_path / kept.file
    assert pyarrow.parquet.ParquetFile(path).metadata.num_row_groups == 3
    assert [each.tick for each in sdk.read_log(path)[1]] == list(range(10))
    session.end()


def test_file_has_the_schema_and_metadata_of_data_logs(tmp_path):
    given_params = params(("a", "x"))
    trial = open_trial("t\u00fc".encode().hex(), given_params)
    trial.spaces = '{"x": "\u00fc"}'
    trial.samples = serialized([DatalogSample(end_reason="done")])
    session = Session.begin(tmp_path)
    path = tmp_path / trial.store(session, tmp_path).file
    session.end()
    file = pyarrow.parquet.ParquetFile(path)
    assert file.schema_arrow.remove_metadata().equals(log_schema())
    assert file.schema_arrow.metadata == {
        TRIAL: trial.trial_id.encode(),
        PARAMS: base64.b64encode(given_params.SerializeToString()),
        SPACES: trial.spaces.encode(),
    }
    # As pyarrow itself would describe these columns to other programs.
    other = pyarrow.BufferOutputStream()
    pyarrow.parquet.ParquetWriter(other, log_schema()).close()
    assert file.schema.equals(pyarrow.parquet.ParquetFile(other.getvalue()).schema)


def test_metadata_of_files_are_utf_8_as_programs_in_rust_demand(tmp_path):
    trial_params = params(("a", "x"))
    trial_params.actors[0].config.content = b"\xff\x80" * 100
    session = Session.begin(tmp_path)
    trial = open_trial("t", trial_params)
    trial.samples = serialized([DatalogSample(end_reason="done")])
    stored = tmp_path / trial.store(session, tmp_path).file
    session.end()
    told, samples = sdk.read_log(stored)
    sink = sdk.ParquetSink(tmp_path / "logs")
    sink.start(told)
    for sample in samples:
        sink.sample(sample)
    sink.end()
    (logged,) = (tmp_path / "logs").glob("*.parquet")
    for path in (stored, logged):
        metadata = pyarrow.parquet.read_metadata(path).metadata
        for value in metadata.values():
            value.decode()
        assert sdk.read_log(path)[0].params == trial_params


def test_file_of_the_first_version_has_its_params_read(tmp_path):
    given_params = params(("a", "x"))
    metadata = {TRIAL: b"t", FORMER_PARAMS: given_params.SerializeToString()}
    with pyarrow.parquet.ParquetWriter(
        tmp_path / "t.parquet", log_schema().with_metadata(metadata)
    ) as writer:
        writer.write_table(log_schema().empty_table())
    assert sdk.read_log(tmp_path / "t.parquet")[0].params == given_params


@pytest.mark.parametrize("ticks", [1, 3_000])
def test_large_and_many_contents_are_compressed_and_come_back(tmp_path, ticks):
    rng = np.random.default_rng(0)
    values = [rng.integers(0, 2, 9_000 // ticks + 2, np.uint8) for _ in range(ticks)]
    made = []
    for tick, value in enumerate(values):
        made.append(DatalogSample(user_id=f"user {tick}"))
        made[-1].observations.tick_id = tick
        made[-1].observations.observations.add(content=CODEC.encode(value))
        made[-1].observations.actors_map.append(0)
    trial = open_trial("t")
    trial.samples = serialized(made)
    session = Session.begin(tmp_path)
    path = tmp_path / trial.store(session, tmp_path).file
    session.end()
    read = list(sdk.read_log(path)[1])
    assert [each.user_id for each in read] == [f"user {tick}" for tick in range(ticks)]
    for value, sample in zip(values, read, strict=True):
        np.testing.assert_array_equal(sample.observations["a"].value, value)
    group = pyarrow.parquet.ParquetFile(path).metadata.row_group(0)
    columns = {group.column(at).path_in_schema: group.column(at) for at in range(26)}
    data = columns["observation.data"]
    assert data.compression == "SNAPPY"
    assert data.total_compressed_size < data.total_uncompressed_size
    assert columns["messages.list.element.data"].compression == "UNCOMPRESSED"
