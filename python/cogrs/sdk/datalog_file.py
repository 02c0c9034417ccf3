"""Data logs in files: JSON lines, or Parquet."""

from __future__ import annotations

import base64
import json
import re
from contextlib import closing
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from google.protobuf import json_format

from cogrs.api.common_pb2 import TrialParams
from cogrs.dtypes import dtype_of, holds_numbers, kind_of
from cogrs.optional import imported
from cogrs.sdk.datalog import DatalogSink, LoggedTrial, Sample
from cogrs.sdk.datalog_row import Packed, rows_of, samples_of
from cogrs.sdk.trial import Actor

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence

    from google.protobuf.message import Message

    from cogrs.sdk.datalog_row import Row

_ROW_GROUP = 4096
"""Rows that a Parquet file is written by."""

_TRIAL, _PARAMS = b"cogrs.trial_id", b"cogrs.params"
_SAFE = re.compile(r"[\w-][\w.-]*")


class JsonLinesSink(DatalogSink):
    """Writes a trial to `<trial id>.jsonl`, a line for its parameters, then one for each row.

    A row is an actor at a tick. The file of a trial that broke off ends without an `end_reason`.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Write to a folder, which is made if it is not there."""
        self._folder = Path(folder)
        self._file: IO[str] | None = None
        self._samples = 0

    def start(self, trial: LoggedTrial) -> None:
        """Make the file.

        Raises:
            OSError: It cannot be made, or is there already.
            ValueError: The trial's id makes no name for a file.
        """
        self._trial = trial
        self._file = _path(self._folder, trial.id, ".jsonl").open("x", encoding="utf-8")
        params = json_format.MessageToDict(trial.params, preserving_proto_field_name=True)
        self._write({"trial_id": trial.id, "params": params})

    def sample(self, sample: Sample) -> None:
        """Write its rows."""
        for row in rows_of(self._trial, self._samples, sample):
            self._write(row)
        self._samples += 1
        if self._file is not None:
            self._file.flush()

    def end(self) -> None:
        """Close the file."""
        self.lost()

    def lost(self) -> None:
        """Close the file: what was told is in it."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _write(self, row: Row) -> None:
        if self._file is not None:
            self._file.write(json.dumps(_to_json(row), allow_nan=False) + "\n")


class ParquetSink(DatalogSink):
    """Writes a trial to `<trial id>.parquet`, a row for each actor at each tick.

    It needs pyarrow: `pip install 'cogrs[parquet]'`. The file has its name once it is whole, or the
    trial broke off.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Write to a folder, which is made if it is not there.

        Raises:
            ImportError: pyarrow is not installed.
        """
        self._parquet = _pyarrow("pyarrow.parquet")
        self._folder = Path(folder)
        self._writer: Any = None
        self._rows: list[Row] = []
        self._samples = 0

    def start(self, trial: LoggedTrial) -> None:
        """Make the file.

        Raises:
            OSError: It cannot be made, or is there already.
            ValueError: The trial's id makes no name for a file.
        """
        self._trial = trial
        self._path = _path(self._folder, trial.id, ".parquet")
        if self._path.exists():
            raise FileExistsError(f"{self._path} is there already")
        metadata = {_TRIAL: trial.id.encode(), _PARAMS: trial.params.SerializeToString()}
        self._schema = _schema().with_metadata(metadata)
        self._aside = self._path.with_name(f"{self._path.name}.part")
        self._writer = self._parquet.ParquetWriter(self._aside, self._schema)

    def sample(self, sample: Sample) -> None:
        """Keep its rows, and write what has come together."""
        self._rows += rows_of(self._trial, self._samples, sample)
        self._samples += 1
        if len(self._rows) >= _ROW_GROUP:
            self._write()

    def end(self) -> None:
        """Close the file."""
        self.lost()

    def lost(self) -> None:
        """Close the file: what was told is in it."""
        if self._writer is None:
            return
        self._write()
        writer, self._writer = self._writer, None
        writer.close()
        self._aside.replace(self._path)

    def _write(self) -> None:
        rows, self._rows = self._rows, []
        if rows:
            pyarrow = _pyarrow("pyarrow")
            kept = [_to_structs(row) for row in rows]
            self._writer.write_table(pyarrow.Table.from_pylist(kept, self._schema))


def read_log(
    path: str | os.PathLike[str], messages: Sequence[type[Message]] = ()
) -> tuple[LoggedTrial, Iterator[Sample]]:
    """Read what `JsonLinesSink` or `ParquetSink` has written.

    Args:
        path: A file, `.jsonl` or `.parquet`.
        messages: Classes of the user's messages; those of other classes are bytes.

    Returns:
        The trial, and its samples in their order, read as they are asked for.

    Raises:
        OSError: It cannot be read.
        ValueError: It is no such file.
    """
    where = Path(path)
    readers: dict[str, Callable[[Path], tuple[str, TrialParams, Iterator[Row]]]] = {
        ".jsonl": _read_json,
        ".parquet": _read_parquet,
    }
    if where.suffix not in readers:
        raise ValueError(f"path: expected a .jsonl or .parquet file, got {where}")
    trial_id, params, rows = readers[where.suffix](where)
    actors = tuple(Actor(each.name, each.actor_class) for each in params.actors)
    return LoggedTrial(trial_id, actors, params), samples_of(rows, messages)


def _path(folder: Path, trial_id: str, suffix: str) -> Path:
    if not _SAFE.fullmatch(trial_id):
        raise ValueError(f"trial id: expected letters, digits, '-', '_', '.'; got {trial_id!r}")
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{trial_id}{suffix}"


def _read_json(path: Path) -> tuple[str, TrialParams, Iterator[Row]]:
    with path.open(encoding="utf-8") as file:
        try:
            head = json.loads(file.readline())
            params = json_format.ParseDict(head["params"], TrialParams())
            trial_id = str(head["trial_id"])
        except (KeyError, TypeError, ValueError, json_format.ParseError) as error:
            raise ValueError(f"{path}: expected a trial's parameters first: {error}") from None
    return trial_id, params, _json_rows(path)


def _json_rows(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8") as file:
        next(file)
        for number, line in enumerate(file, 2):
            try:
                yield _from_json(json.loads(line))
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"{path}:{number}: {error}") from error


def _read_parquet(path: Path) -> tuple[str, TrialParams, Iterator[Row]]:
    parquet = _pyarrow("pyarrow.parquet")
    try:
        with closing(parquet.ParquetFile(path)) as file:
            metadata = file.schema_arrow.metadata or {}
    except _pyarrow("pyarrow").ArrowInvalid as error:
        raise ValueError(f"{path}: {error}") from error
    if _PARAMS not in metadata:
        raise ValueError(f"{path}: expected a trial's parameters in its metadata, got none")
    params = TrialParams.FromString(metadata[_PARAMS])
    return metadata[_TRIAL].decode(), params, _parquet_rows(path)


def _parquet_rows(path: Path) -> Iterator[Row]:
    with closing(_pyarrow("pyarrow.parquet").ParquetFile(path)) as file:
        for batch in file.iter_batches(_ROW_GROUP):
            for row in batch.to_pylist():
                for name in ("observation", "action"):
                    if row[name] is not None:
                        row[name] = Packed(**row[name])
                yield row


def _to_structs(row: Row) -> Row:
    return {
        name: value._asdict() if isinstance(value, Packed) else value for name, value in row.items()
    }


def _to_json(value: Any) -> Any:
    if isinstance(value, Packed):
        return _packed_to_json(value)
    if isinstance(value, dict):
        return {name: _to_json(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_to_json(each) for each in value]
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _packed_to_json(value: Packed) -> Row:
    """Return readable numbers, where JSON has them, else bytes in base 64."""
    kept: Row = {"kind": value.kind, "shape": list(value.shape)}
    if holds_numbers(value.kind) and kind_of(dtype := dtype_of(value.kind)) in "biuf":
        array = np.frombuffer(value.data, dtype)
        # float128 has digits that JSON's readers lose.
        if dtype.itemsize <= 8 and np.isfinite(array).all():
            return {**kept, "values": array.tolist()}
    return {**kept, "data": base64.b64encode(value.data).decode()}


def _from_json(row: Row) -> Row:
    for name in ("observation", "action"):
        if (kept := row[name]) is not None:
            if "values" in kept:
                data = np.array(kept["values"], dtype_of(kept["kind"], name)).tobytes()
            else:
                data = base64.b64decode(kept["data"])
            row[name] = Packed(kept["kind"], tuple(kept["shape"]), data)
    for message in row["messages"]:
        message["data"] = base64.b64decode(message["data"])
    return row


def _schema() -> Any:
    pa = _pyarrow("pyarrow")
    payload = pa.struct(
        [("kind", pa.string()), ("shape", pa.list_(pa.uint64())), ("data", pa.binary())]
    )
    source = pa.struct(
        [("sender", pa.string()), ("value", pa.float32()), ("confidence", pa.float32())]
    )
    reward = pa.struct(
        [("tick", pa.int64()), ("value", pa.float32()), ("sources", pa.list_(source))]
    )
    message = pa.struct(
        [
            ("sender", pa.string()),
            ("tick", pa.int64()),
            ("type", pa.string()),
            ("data", pa.binary()),
        ]
    )
    return pa.schema(
        [
            ("trial_id", pa.string()),
            ("sample", pa.int64()),
            ("tick", pa.int64()),
            ("timestamp", pa.uint64()),
            ("actor", pa.string()),
            ("actor_class", pa.string()),
            ("observation", payload),
            ("terminated", pa.bool_()),
            ("truncated", pa.bool_()),
            ("action", payload),
            ("rewards", pa.list_(reward)),
            ("messages", pa.list_(message)),
            ("user_id", pa.string()),
            ("end_reason", pa.string()),
        ]
    )


def _pyarrow(name: str) -> Any:
    return imported(name, "Parquet files need pyarrow", "'cogrs[parquet]'")
