"""Reads the files of data logs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cogrs.files import check_regular
from cogrs.sdk.datalog_row import samples_of

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from google.protobuf.message import Message

    from cogrs.sdk.datalog import LoggedTrial, Sample
    from cogrs.sdk.datalog_row import Row

_SUFFIXES = (".jsonl", ".parquet")


def read_log(
    path: str | os.PathLike[str], messages: Sequence[type[Message]] = ()
) -> tuple[LoggedTrial, Iterator[Sample]]:
    """Read a file of `JsonLinesSink` or `ParquetSink`.

    Args:
        path: A file, `.jsonl` or `.parquet`.
        messages: Classes of the user's messages; messages of other classes come back as bytes.

    Returns:
        The trial, and its samples in order, read one by one as they are asked for.

    Raises:
        OSError: It cannot be read.
        ValueError: `path` is not a file of these sinks, or exceeds a limit: see docs/limits.md.
            Iterating over the samples raises it too.
    """
    where = Path(path)
    if where.suffix not in _SUFFIXES:
        raise ValueError(f"path: expected a .jsonl or .parquet file, got {where}")
    check_regular(where)
    trial, rows = _read(where)
    return trial, _named(where, samples_of(rows, messages))


def _read(path: Path) -> tuple[LoggedTrial, Iterator[Row]]:
    # One of the two, since what each needs takes long to import.
    if path.suffix == ".jsonl":
        from cogrs.sdk.datalog_jsonl import read_json_lines

        return read_json_lines(path)
    from cogrs.sdk.datalog_parquet import read_parquet

    return read_parquet(path)


def _named(path: Path, samples: Iterator[Sample]) -> Iterator[Sample]:
    """Yield samples; errors begin with the file's path."""
    try:
        yield from samples
    except ValueError as error:
        text = str(error)
        raise ValueError(text if text.startswith(str(path)) else f"{path}: {text}") from error
