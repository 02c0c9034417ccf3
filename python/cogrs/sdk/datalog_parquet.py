"""Data logs as Parquet files; needs pyarrow.

Files may come from anybody. So what is read is bounded before it is made: by what a file says of
its columns, and by the bytes of each row.
"""

from __future__ import annotations

import functools
import os
from contextlib import closing, contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any

from google.protobuf.message import DecodeError

from cogrs.api.common_pb2 import TrialParams
from cogrs.limits import LOG_GROUP_BYTES, LOG_GROUP_VALUES
from cogrs.log_schema import SPACES, TRIAL, former_schema, log_schema, metadata_of, params_of
from cogrs.optional_dependency import import_optional
from cogrs.sdk.datalog import LoggedTrial
from cogrs.sdk.datalog_file import FileSink
from cogrs.sdk.datalog_row import Packed, check_size, checked_row, spread_size
from cogrs.sdk.wire import actors_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from cogrs.sdk.datalog_row import Row

_ROW_GROUP, _ROW_GROUP_BYTES = 4096, 64 << 20
"""Rows, or bytes, that a Parquet file is written by."""

_ROWS, _ROWS_BYTES = 256, 16 << 20
"""Rows that are read out of a Parquet file together, unless they have more bytes."""

_ITEM = 64
"""Bytes that are counted for a value beside its content."""

_OPTIONAL = {"tick", "timestamp", "observation", "action"}
"""Columns whose values may be missing."""

_COMPRESSIONS = ("SNAPPY", "UNCOMPRESSED")
"""Compressions that are read: others make gigabytes out of kilobytes."""


class ParquetSink(FileSink):
    """Writes a trial to `<trial id>.parquet`, a row for each actor at each tick.

    It needs pyarrow: `pip install 'cogrs[parquet]'`. The file gets its name when it is complete, or
    when the trial broke off.
    """

    suffix = ".parquet"

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Write to a folder, which is made if it is not there.

        Raises:
            ImportError: pyarrow is not installed.
        """
        super().__init__(folder)
        self._parquet = _pyarrow("pyarrow.parquet")
        self._writer: Any = None
        self._rows: list[Row] = []
        self._size = 0

    def _open(self, path: Path, trial: LoggedTrial) -> None:
        if path.exists():
            raise FileExistsError(f"{path} exists already")
        params = trial.params.SerializeToString()
        metadata = metadata_of(trial.id, params, trial.spaces_json)
        self._path = path
        self._schema = log_schema().with_metadata(metadata)
        self._part = path.with_name(f"{path.name}.part")
        self._file = _created(self._part)
        try:
            self._writer = self._parquet.ParquetWriter(self._file, self._schema)
        except BaseException:
            self._file.close()
            raise

    def _add(self, rows: list[Row], size: int) -> None:
        self._rows += rows
        self._size += size
        if len(self._rows) >= _ROW_GROUP or self._size >= _ROW_GROUP_BYTES:
            self._write()

    def lost(self) -> None:
        """Write what is left, and close the file."""
        if self._writer is None:
            return
        with self._file:
            self._write()
            writer, self._writer = self._writer, None
            writer.close()
        self._part.replace(self._path)

    def _write(self) -> None:
        rows, self._rows, self._size = self._rows, [], 0
        if rows:
            pyarrow = _pyarrow("pyarrow")
            kept = [_to_structs(row) for row in rows]
            self._writer.write_table(pyarrow.Table.from_pylist(kept, self._schema))


def _created(path: Path) -> IO[bytes]:
    """Create a file in place of one that an ended process left, or of a link."""
    with suppress(FileNotFoundError):
        path.unlink()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    return os.fdopen(os.open(path, flags, 0o666), "wb")


def read_parquet(path: Path) -> tuple[LoggedTrial, Iterator[Row]]:
    """Return the trial of a file, and its rows as they are asked for.

    Raises:
        ValueError: It has no parameters, or would take more than such files may. Rows raise it as
            they are read.
    """
    parquet = _pyarrow("pyarrow.parquet")
    with _arrow_errors(path), closing(parquet.ParquetFile(path)) as file:
        trial = _checked_trial(path, file)
    return trial, _parquet_rows(path)


def read_columns(path: Path, columns: Sequence[str]) -> tuple[LoggedTrial, list[Any]]:
    """Return the trial of a file and some of its columns, as `pyarrow.RecordBatch`es.

    Texts and bytes may be dictionaries. Limits and errors are those of `read_parquet`.
    """
    parquet, pyarrow = _pyarrow("pyarrow.parquet"), _pyarrow("pyarrow")
    source: Any = path
    if path.stat().st_size <= _ROWS_BYTES:
        # One read: Parquet asks for a small file in dozens of pieces.
        source = pyarrow.BufferReader(path.read_bytes())
    opened = parquet.ParquetFile
    with _arrow_errors(path), closing(opened(source, pre_buffer=False)) as file:
        trial = _checked_trial(path, file)
        if _spread_at_most(file.metadata) <= _ROWS_BYTES:
            batches = file.iter_batches(_ROW_GROUP, columns=columns, use_threads=False)
            return trial, list(batches)
    with _arrow_errors(path), _with_dictionaries(path) as file:
        return trial, list(_batches(file, columns))


def _spread_at_most(metadata: Any) -> int:
    """Return a bound of the bytes of a file once each row has its own copy of shared values."""
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    columns = (group.column(at) for group in groups for at in range(group.num_columns))
    return sum(each.num_values * (_ITEM + each.total_uncompressed_size) for each in columns)


def _with_dictionaries(path: Path) -> Any:
    """Open a file so that a value which many rows share is kept once until its row is read."""
    parquet = _pyarrow("pyarrow.parquet")
    return closing(parquet.ParquetFile(path, read_dictionary=_shared_columns()))


@functools.cache
def _shared_columns() -> list[str]:
    """Return the columns of texts and bytes."""
    pyarrow, parquet = _pyarrow("pyarrow"), _pyarrow("pyarrow.parquet")
    kept = pyarrow.BufferOutputStream()
    parquet.ParquetWriter(kept, log_schema()).close()
    schema = parquet.ParquetFile(pyarrow.BufferReader(kept.getvalue())).schema
    return [column.path for column in schema if column.physical_type == "BYTE_ARRAY"]


def _checked_trial(path: Path, file: Any) -> LoggedTrial:
    """Return the trial of a file whose metadata keep the limits."""
    schema = file.schema_arrow
    metadata = schema.metadata or {}
    _check_columns(file, path.stat().st_size)
    try:
        serialized = params_of(metadata)
        if serialized is None or TRIAL not in metadata:
            raise ValueError("they are missing")
        params = TrialParams.FromString(serialized)
        spaces = metadata.get(SPACES, b"").decode()
        return LoggedTrial(metadata[TRIAL].decode(), actors_of(params.actors), params, spaces)
    except (DecodeError, ValueError) as error:
        raise ValueError(
            f"{path}: expected a trial's parameters in its metadata: {error}"
        ) from error


def _check_columns(file: Any, size: int) -> None:
    """Raise a ValueError for a file whose metadata exceed a limit."""
    schema = file.schema_arrow.remove_metadata()
    if not (schema.equals(log_schema()) or schema.equals(former_schema())):
        raise ValueError("expected the columns of a data log, got other columns")
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
    with _arrow_errors(path), _with_dictionaries(path) as file:
        for rows in _batches(file):
            # The types of values are those of the columns: only values that are missing are wrong.
            check = _from_structs if _is_whole(rows) else _checked_structs
            yield from map(check, rows.to_pylist())


def _is_whole(rows: Any) -> bool:
    """Return whether no value is missing that a row needs."""
    names = zip(rows.schema.names, rows.columns, strict=True)
    return all(_lacks_at_most(each, len(each) * (name in _OPTIONAL)) for name, each in names)


def _lacks_at_most(array: Any, count: int) -> bool:
    """Return whether so many items are missing at most, and no part of those that are there."""
    missing, types = array.null_count, _pyarrow("pyarrow").types
    if missing > count:
        return False
    if types.is_struct(array.type):
        parts = map(array.field, range(array.type.num_fields))
        return all(_lacks_at_most(each, missing) for each in parts)
    return not types.is_list(array.type) or _lacks_at_most(array.values, 0)


def _batches(file: Any, columns: Sequence[str] | None = None) -> Iterator[Any]:
    """Yield rows together, as many as are small."""
    for number in range(file.num_row_groups):
        # Each by itself: pyarrow does not join dictionaries of several groups.
        of_group = {"row_groups": [number], "columns": columns, "use_threads": False}
        for batch in file.iter_batches(_ROW_GROUP, **of_group):
            for at in range(0, batch.num_rows, _ROWS):
                yield from _small(batch.slice(at, _ROWS))


def _small(rows: Any) -> Iterator[Any]:
    """Yield rows together while they are small, and otherwise one by one, checking their size."""
    if spread_size(rows.to_struct_array()) <= _ROWS_BYTES:
        yield rows
        return
    for at in range(rows.num_rows):
        row = rows.slice(at, 1)
        check_size(spread_size(row.to_struct_array()))
        yield row


@contextmanager
def _arrow_errors(path: Path) -> Iterator[None]:
    """Turn pyarrow's errors about a damaged file into a ValueError that names the file."""
    try:
        yield
    except (_pyarrow("pyarrow").ArrowException, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # the file cannot be read
        raise ValueError(f"{path}: {error}") from error


def _checked_structs(row: Row) -> Row:
    return checked_row(_from_structs(row))


def _from_structs(row: Row) -> Row:
    for name in ("observation", "action"):
        if row[name] is not None:
            row[name] = Packed(**row[name])
    row.setdefault("stood_in", False)
    return row


def _to_structs(row: Row) -> Row:
    return {
        name: value._asdict() if isinstance(value, Packed) else value for name, value in row.items()
    }


def _pyarrow(name: str) -> Any:
    return import_optional(name, "Parquet files need pyarrow", "'cogrs[parquet]'")
