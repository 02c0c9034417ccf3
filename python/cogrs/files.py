"""Reads files of users and peers up to a limit, and replaces files as a whole."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO


def read_bounded(path: Path, most: int) -> bytes:
    """Return the content of a file or a pipe, of at most `most` bytes.

    Raises:
        OSError: It cannot be read.
        ValueError: It has more bytes, or is a pipe without a writer.
    """
    with os.fdopen(_opened(path), "rb") as file:
        # Only opening must not wait for a writer.
        os.set_blocking(file.fileno(), True)
        content = file.read(most + 1)
        # An empty configuration would let everybody in.
        if not content and stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
            raise ValueError(f"{path}: expected a file, or a pipe with a writer")
    return _checked(path, content, most)


def read_regular(path: Path, most: int) -> bytes:
    """Return the content of a regular file of at most `most` bytes.

    For files that another file names, where a pipe would hang and a device never end.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not a regular file, or has more bytes.
    """
    descriptor = _opened(path)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError(f"{path}: expected a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(most + 1)
    finally:
        os.close(descriptor)
    return _checked(path, content, most)


def check_regular(path: Path) -> None:
    """Refuse a pipe or a device, which may hang, with a ValueError; OSError if it is missing."""
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise ValueError(f"{path}: expected a regular file")


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Give a file to write, which takes the place of another on leaving, or not at all.

    Raises:
        OSError: It cannot be written.
    """
    import tempfile  # for those who write

    descriptor, aside = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(aside).replace(path)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))


def _checked(path: Path, content: bytes, most: int) -> bytes:
    if len(content) > most:
        raise ValueError(f"{path}: expected at most {most} bytes, got more")
    return content
