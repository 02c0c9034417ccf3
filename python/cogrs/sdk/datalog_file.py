"""Data logs in files: JSON lines, or Parquet.

Files may come from anybody. So what is read is bounded before it is made: by the length of lines,
by what a Parquet file says of its columns, and by the bytes of each sample.
"""

from __future__ import annotations

import base64
import json
import os
import re
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from google.protobuf import json_format
from google.protobuf.message import DecodeError

from cogrs.api.common_pb2 import TrialParams
from cogrs.api.json_message import fill_message
from cogrs.arrays import refuse_loss
from cogrs.dtypes import dtype_of, holds_numbers, kind_of
from cogrs.files import check_regular
from cogrs.limits import LOG_CONTAINERS, LOG_GROUP_BYTES, LOG_GROUP_VALUES, LOG_LINE_BYTES
from cogrs.optional_dependency import import_optional
from cogrs.sdk.datalog import DatalogSink, LoggedTrial, Sample
from cogrs.sdk.datalog_row import (
    Packed,
    check_size,
    checked_row,
    rows_of,
    samples_of,
    size_of,
    spread_size,
)
from cogrs.sdk.trial import Actor
from cogrs.shown import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from google.protobuf.message import Message

    from cogrs.sdk.datalog_row import Row

_ROW_GROUP, _ROW_GROUP_BYTES = 4096, 64 << 20
"""Rows, or bytes, that a Parquet file is written by."""

_ROWS, _ROWS_BYTES = 256, 16 << 20
"""Rows that are read out of a Parquet file together, unless they have more bytes."""

_COMPRESSIONS = ("SNAPPY", "UNCOMPRESSED")
"""Of Parquet files that are read: those of others make gigabytes out of kilobytes."""

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
        """Write its rows.

        Raises:
            OSError: They cannot be written.
            ValueError: The sample is larger than `read_log` takes.
        """
        rows = list(rows_of(self._trial, self._samples, sample))
        check_size(sum(map(size_of, rows)))
        for row in rows:
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
        self._size = 0
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
        self._file = _created(self._aside)
        try:
            self._writer = self._parquet.ParquetWriter(self._file, self._schema)
        except BaseException:
            self._file.close()
            raise

    def sample(self, sample: Sample) -> None:
        """Keep its rows, and write what has come together.

        Raises:
            OSError: It cannot be written.
            ValueError: The sample is larger than `read_log` takes.
        """
        rows = list(rows_of(self._trial, self._samples, sample))
        size = sum(map(size_of, rows))
        check_size(size)
        self._rows += rows
        self._size += size
        self._samples += 1
        if len(self._rows) >= _ROW_GROUP or self._size >= _ROW_GROUP_BYTES:
            self._write()

    def end(self) -> None:
        """Close the file."""
        self.lost()

    def lost(self) -> None:
        """Close the file: what was told is in it."""
        if self._writer is None:
            return
        with self._file:
            self._write()
            writer, self._writer = self._writer, None
            writer.close()
        self._aside.replace(self._path)

    def _write(self) -> None:
        rows, self._rows, self._size = self._rows, [], 0
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
        ValueError: It is no such file, or exceeds a limit: see docs/limits.md. Samples raise it as
            they are read.
    """
    where = Path(path)
    readers: dict[str, Callable[[Path], tuple[str, TrialParams, Iterator[Row]]]] = {
        ".jsonl": _read_json,
        ".parquet": _read_parquet,
    }
    if where.suffix not in readers:
        raise ValueError(f"path: expected a .jsonl or .parquet file, got {where}")
    check_regular(where)
    trial_id, params, rows = readers[where.suffix](where)
    actors = tuple(Actor(each.name, each.actor_class) for each in params.actors)
    return LoggedTrial(trial_id, actors, params), _named(where, samples_of(rows, messages))


def _named(path: Path, samples: Iterator[Sample]) -> Iterator[Sample]:
    """Yield samples; errors begin with the file."""
    try:
        yield from samples
    except ValueError as error:
        text = str(error)
        raise ValueError(text if text.startswith(str(path)) else f"{path}: {text}") from error


def _created(path: Path) -> IO[bytes]:
    """Make a file anew: what lies there is of a process that was ended, or a link to be removed.

    Raises:
        OSError: It cannot be made.
    """
    with suppress(FileNotFoundError):
        path.unlink()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    return os.fdopen(os.open(path, flags, 0o666), "wb")


def _path(folder: Path, trial_id: str, suffix: str) -> Path:
    if not _SAFE.fullmatch(trial_id):
        raise ValueError(f"trial id: expected letters, digits, '-', '_', '.'; got {trial_id!r}")
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{trial_id}{suffix}"


def _read_json(path: Path) -> tuple[str, TrialParams, Iterator[Row]]:
    with path.open("rb") as file:
        try:
            head = _parsed(file.readline(LOG_LINE_BYTES + 1))
            params = fill_message(TrialParams(), head["params"])
            trial_id = str(head["trial_id"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path}: expected a trial's parameters first: {error}") from None
    return trial_id, params, _json_rows(path)


def _json_rows(path: Path) -> Iterator[Row]:
    with path.open("rb") as file:
        file.readline(LOG_LINE_BYTES + 1)
        lines = iter(lambda: file.readline(LOG_LINE_BYTES + 1), b"")
        for number, line in enumerate(lines, 2):
            try:
                row = checked_row(_from_json(_parsed(line)))
            except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
                raise ValueError(f"{path}:{number}: {error}") from error
            yield row


def _parsed(line: bytes) -> Any:
    """Return what a line of JSON says.

    Raises:
        ValueError: It is not JSON, or exceeds a limit.
    """
    if len(line) > LOG_LINE_BYTES:
        raise ValueError(f"expected lines of at most {LOG_LINE_BYTES} bytes")
    # A list of nothing takes thirty times the bytes of its text.
    if line.count(b"[") + line.count(b"{") > LOG_CONTAINERS:
        raise ValueError(f"expected at most {LOG_CONTAINERS} lists and objects in a line")
    try:
        return json.loads(line, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ValueError("expected fewer lists and objects in each other") from error


def _refuse_constant(text: str) -> None:
    raise ValueError(f"expected finite numbers, got {text}")


def _read_parquet(path: Path) -> tuple[str, TrialParams, Iterator[Row]]:
    parquet = _pyarrow("pyarrow.parquet")
    with _arrow_errors(path), closing(parquet.ParquetFile(path)) as file:
        metadata = file.schema_arrow.metadata or {}
        _check_columns(file, path.stat().st_size)
    if _PARAMS not in metadata or _TRIAL not in metadata:
        raise ValueError(f"{path}: expected a trial's parameters in its metadata, got none")
    try:
        params = TrialParams.FromString(metadata[_PARAMS])
        return metadata[_TRIAL].decode(), params, _parquet_rows(path)
    except (DecodeError, ValueError) as error:
        raise ValueError(f"{path}: expected a trial's parameters: {error}") from error


def _check_columns(file: Any, size: int) -> None:
    """Refuse a file that says of itself that it would take more than files of logs may.

    Raises:
        ValueError: Says what exceeds its limit.
    """
    if not file.schema_arrow.remove_metadata().equals(_schema()):
        raise ValueError("expected the columns of a data log, got others")
    if file.metadata.num_rows > size:
        raise ValueError(f"expected no more rows than bytes, got {file.metadata.num_rows}")
    for number in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(number)
        for column in map(group.column, range(group.num_columns)):
            where = f"row group {number}, {column.path_in_schema}"
            if column.compression not in _COMPRESSIONS:
                expected = " or ".join(_COMPRESSIONS)
                raise ValueError(f"{where}: expected {expected}, got {column.compression}")
            if column.num_values > LOG_GROUP_VALUES:
                expected = f"at most {LOG_GROUP_VALUES} values"
                raise ValueError(f"{where}: expected {expected}, got {column.num_values}")
            if column.total_uncompressed_size > LOG_GROUP_BYTES:
                expected = f"at most {LOG_GROUP_BYTES} bytes"
                raise ValueError(
                    f"{where}: expected {expected}, got {column.total_uncompressed_size}"
                )


def _parquet_rows(path: Path) -> Iterator[Row]:
    parquet = _pyarrow("pyarrow.parquet")
    with closing(parquet.ParquetFile(path)) as file:
        # A value that many rows share is kept once until its row is read, however large it is.
        shared = [column.path for column in file.schema if column.physical_type == "BYTE_ARRAY"]
    with (
        _arrow_errors(path),
        closing(parquet.ParquetFile(path, read_dictionary=shared)) as file,
    ):
        for batch in file.iter_batches(_ROW_GROUP, use_threads=False):
            for at in range(0, batch.num_rows, _ROWS):
                for rows in _small(batch.slice(at, _ROWS)):
                    yield from (checked_row(_from_structs(row)) for row in rows.to_pylist())


def _small(rows: Any) -> Iterator[Any]:
    """Yield rows together while they are small, and otherwise one by one.

    Raises:
        ValueError: One is larger than a sample may be.
    """
    if spread_size(rows.to_struct_array()) <= _ROWS_BYTES:
        yield rows
        return
    for at in range(rows.num_rows):
        row = rows.slice(at, 1)
        check_size(spread_size(row.to_struct_array()))
        yield row


@contextmanager
def _arrow_errors(path: Path) -> Iterator[None]:
    """Make a ValueError that names the file of what pyarrow raises for one that is damaged."""
    try:
        yield
    except (_pyarrow("pyarrow").ArrowException, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # it cannot be read at all
        raise ValueError(f"{path}: {error}") from error


def _from_structs(row: Row) -> Row:
    for name in ("observation", "action"):
        if row[name] is not None:
            row[name] = Packed(**row[name])
    return row


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


def _from_json(row: Any) -> Row:
    if not isinstance(row, dict):
        raise ValueError(f"expected a row, got {shown(row)}")
    for name in ("observation", "action"):
        if (kept := row[name]) is not None:
            kind, shape = kept["kind"], kept["shape"]
            data = (
                _bytes_of(kind, kept["values"])
                if "values" in kept
                else base64.b64decode(kept["data"], validate=True)
            )
            row[name] = Packed(kind, tuple(shape), data)
    for message in row["messages"]:
        message["data"] = base64.b64decode(message["data"], validate=True)
    return row


def _bytes_of(kind: Any, values: Any) -> bytes:
    """Return the elements of an array of numbers, which alone are written as numbers.

    Raises:
        ValueError: The dtype is another, or a value does not fit it.
    """
    if not isinstance(kind, str) or not holds_numbers(kind):
        raise ValueError(f"expected a dtype of numbers, got {shown(kind)}")
    if not isinstance(values, list) or not {*map(type, values)} <= {bool, int, float}:
        raise ValueError(f"expected a list of numbers, got {shown(values)}")
    dtype = dtype_of(kind, "kind")
    check_size(dtype.itemsize * len(values))
    # Integers of any length are kept as they are, unless they become floats anyhow.
    given = np.array(values, np.float64 if kind_of(dtype) == "f" else None)
    with np.errstate(over="ignore", invalid="ignore"):
        made = np.array(values, dtype)
    refuse_loss("values", given, made)
    return made.tobytes()


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
    return import_optional(name, "Parquet files need pyarrow", "'cogrs[parquet]'")
