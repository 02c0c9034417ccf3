"""Files of somebody else's, which are read up to a limit."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def read_bounded(path: Path, most: int) -> bytes:
    """Return what is in a file, or comes out of a pipe.

    Args:
        path: The file.
        most: Bytes that it may have.

    Raises:
        OSError: It cannot be read.
        ValueError: It has more bytes.
    """
    with path.open("rb") as file:
        content = file.read(most + 1)
    return _checked(path, content, most)


def read_regular(path: Path, most: int) -> bytes:
    """Return what is in a file that another file names: a pipe would hang, a device never end.

    Args:
        path: The file.
        most: Bytes that it may have.

    Raises:
        OSError: It cannot be read.
        ValueError: It is not a regular file, or has more bytes.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(path, flags)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError(f"{path}: expected a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            content = file.read(most + 1)
    finally:
        os.close(descriptor)
    return _checked(path, content, most)


def _checked(path: Path, content: bytes, most: int) -> bytes:
    if len(content) > most:
        raise ValueError(f"{path}: expected at most {most} bytes, got more")
    return content
