"""Files of trials: written aside, then renamed, and known by their size and checksum."""

from __future__ import annotations

import os
import zlib
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from cogrs.log_schema import log_schema
from cogrs.optional_dependency import import_optional
from cogrs.store.session import PART

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from cogrs.store.record import TrialRecord

_OPTIONS: dict[str, Any] = {
    # Files are small and many: statistics, and dictionaries of values that differ, cost more than
    # they save.
    "use_dictionary": [
        *("trial_id", "actor", "actor_class", "observation.kind", "action.kind"),
        *("rewards.list.element.sources.list.element.sender", "user_id", "end_reason"),
    ],
    "compression": "snappy",
    "write_statistics": False,
}
_CHUNK = 1 << 20


def parquet() -> Any:
    """Return `pyarrow.parquet`.

    Raises:
        ImportError: It is not installed.
    """
    return import_optional("pyarrow.parquet", "a store of trials needs pyarrow", "'cogrs[parquet]'")


def write_file(path: Path, pieces: Iterable[bytes]) -> tuple[int, int]:
    """Write a file piece by piece, which gets its name when it is complete.

    Returns:
        Its size in bytes, and its checksum.

    Raises:
        OSError: It cannot be written; nothing is left.
    """
    with _replacing(path) as file:
        for each in pieces:
            file.write(each)
    return file.size, file.checksum


def write_tables(
    path: Path, metadata: dict[bytes, bytes], tables: Iterable[Any]
) -> tuple[int, int]:
    """Write tables of a trial's rows to a file likewise."""
    arrow = parquet()
    pyarrow = import_optional("pyarrow", "a store of trials needs pyarrow", "'cogrs[parquet]'")
    schema = log_schema().with_metadata(metadata)
    with (
        _replacing(path) as file,
        # Parquet writes dozens of small pieces.
        pyarrow.BufferedOutputStream(pyarrow.PythonFile(file, mode="w"), _CHUNK) as stream,
        arrow.ParquetWriter(stream, schema, **_OPTIONS) as writer,
    ):
        for table in tables:
            writer.write_table(table)
    return file.size, file.checksum


def copy_file(source: Path, path: Path) -> tuple[int, int]:
    """Copy a file likewise."""
    with source.open("rb") as old:
        return write_file(path, iter(lambda: old.read(_CHUNK), b""))


@contextmanager
def _replacing(path: Path) -> Iterator[_CheckedFile]:
    """Give a file that is written inside its name, or remove it after an error."""
    part = path.with_name(path.name + PART)
    try:
        with _CheckedFile(part) as file:
            yield file
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise


def measure(path: Path) -> tuple[int, int]:
    """Return a file's size in bytes, and its checksum."""
    size = checksum = 0
    with path.open("rb") as file:
        for data in iter(lambda: file.read(_CHUNK), b""):
            size += len(data)
            checksum = zlib.crc32(data, checksum)
    return size, checksum


def check_unchanged(path: Path, record: TrialRecord) -> None:
    """Refuse a file that is not the one that was stored.

    Raises:
        OSError: It cannot be read.
        ValueError: It was changed.
    """
    try:
        size, checksum = measure(path)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{path}: the file of trial {record.trial_id} is missing"
        ) from error
    if (size, checksum) != (record.size, record.checksum):
        expected = f"{record.size} bytes of checksum {record.checksum:08x}"
        raise ValueError(
            f"{path}: changed since trial {record.trial_id} was stored: expected {expected}, "
            f"got {size} bytes of checksum {checksum:08x}"
        )


class _CheckedFile:
    """A new file that computes the checksum of what is written."""

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
        self._file = os.open(path, flags, 0o666)
        self.size = 0
        self.checksum = 0
        self.closed = False

    def __enter__(self) -> _CheckedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, data: Any) -> int:
        """Write bytes."""
        view = memoryview(data).cast("B")
        self.checksum = zlib.crc32(view, self.checksum)
        self.size += len(view)
        while view:
            view = view[os.write(self._file, view) :]
        return len(data)

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            self.closed = True
            os.close(self._file)

    def flush(self) -> None:
        """Do nothing: there is no buffer."""

    def writable(self) -> bool:
        """Return True."""
        return True

    def readable(self) -> bool:
        """Return False."""
        return False

    def seekable(self) -> bool:
        """Return False."""
        return False
