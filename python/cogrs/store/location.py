"""Where a store is: its folder of files, and its index."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from cogrs.validation import check_path, check_text

if TYPE_CHECKING:
    import os

POSTGRES = ("postgresql://", "postgres://")


class Location(NamedTuple):
    """Where a store is.

    Fields:
        folder: The folder of its files.
        postgres: URL of its index in PostgreSQL; "" for SQLite in the folder.
    """

    folder: Path
    postgres: str = ""


def locate(
    where: str | os.PathLike[str], files: str | os.PathLike[str] | None = None, name: str = "store"
) -> Location:
    """Return where a store is.

    Args:
        where: A folder, `file:FOLDER`, or `postgresql://...`.
        files: The folder of the files if `where` is of PostgreSQL, and only then.
        name: What errors call `where`.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The URL has another scheme or a host, or `files` is missing or too much.
    """
    if isinstance(where, str) and where.startswith(POSTGRES):
        check_text(name, where)
        if files is None:
            beside = without_secret(where)
            raise ValueError(
                f"{_files(name)}: expected the folder of files beside {beside}, got none"
            )
        return Location(check_path(_files(name), files), where)
    if files is not None:
        raise ValueError(f"{_files(name)}: expected only beside a postgresql:// URL, got {files}")
    folder = check_path(name, where)
    if isinstance(where, str):
        check_text(name, where)
        scheme, colon, _ = where.partition(":")
        if scheme == "file" and colon:
            folder = Path(_path_of(where, name))
        elif "://" in where:
            expected = "a folder, file:FOLDER or postgresql://HOST/DATABASE"
            raise ValueError(f"{name}: expected {expected}, got {without_secret(where)}")
    if str(folder) in ("", ".") and str(where) in ("", "file:"):
        raise ValueError(f"{name}: expected a folder, got {str(where)!r}")
    return Location(folder)


def _files(name: str) -> str:
    """Return what errors call `files`: its name in the section of `where`."""
    if name.startswith("--"):
        return f"{name}-files"
    section, dot, _ = name.rpartition(".")
    return f"{section}{dot}files"


def _path_of(url: str, name: str) -> str:
    if url.startswith("file://"):
        parts = urlsplit(url)
        if parts.netloc not in ("", "localhost"):
            raise ValueError(
                f"{name}: expected a folder of this machine, as file:FOLDER, got {url}"
            )
        return unquote(parts.path)
    return unquote(url.removeprefix("file:"))


def without_secret(url: str) -> str:
    """Return a URL without the password that it may have."""
    head, at, tail = url.rpartition("@")
    scheme, slashes, user = head.partition("://")
    return f"{scheme}{slashes}{user.partition(':')[0]}@{tail}" if at and slashes else url
