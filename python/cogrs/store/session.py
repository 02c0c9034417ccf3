"""The folder of one writer of a store: its files, its journals, and a lock for as long as it lives.

The system releases the lock when the process ends, however it ends. So a folder that still has its
lock file, with nobody holding the lock, is of a writer that was killed: see `recovery.py`.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import time
from contextlib import suppress
from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TRIALS = "trials"
"""The folder of all sessions in a store."""
SUFFIX, PART, REMOVED = ".parquet", ".part", ".removed"

_LOCK, _JOURNALS = "lock", "journal"
_CHUNK = 1_000
"""Files per folder."""
_SAFE = re.compile(r"[\w-][\w.-]{0,199}", re.ASCII)


_held: WeakSet[Session] = WeakSet()
"""Sessions whose lock this process holds."""


def _release_in_child() -> None:
    """Close what a fork copied: a child that lives longer would hold its parent's locks."""
    for session in tuple(_held):
        session.disown()


os.register_at_fork(after_in_child=_release_in_child)


class Session:
    """The folder of one writer."""

    def __init__(self, folder: Path, lock: int) -> None:
        """Use a folder whose lock file is held."""
        self.folder = folder
        self._lock = lock
        _held.add(self)
        self._placed = 0
        self._journals = 0
        self._free: list[Path] = []

    @classmethod
    def begin(cls, store: Path) -> Session:
        """Make the folder of a new writer.

        Raises:
            OSError: It cannot be made.
        """
        name = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.urandom(4).hex()}"
        folder = store / TRIALS / name
        (folder / _JOURNALS).mkdir(parents=True)
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        fcntl.flock(lock, fcntl.LOCK_EX)
        return cls(folder, lock)

    @classmethod
    def take_over(cls, folder: Path) -> Session | None:
        """Return the session of a writer that was killed; None if it lives, or ended well."""
        with suppress(OSError):
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # Another process may have taken it in, and removed the file, a moment ago.
                if os.path.exists(folder / _LOCK):
                    return cls(folder, lock)
            except OSError:
                pass
            os.close(lock)
        return None

    def place(self, trial_id: str) -> Path:
        """Return where the file of the next trial goes, in a folder that exists.

        Raises:
            OSError: The folder cannot be made.
            RuntimeError: The session was begun before a fork, by the parent.
            ValueError: The id cannot be the name of a file, or a trial of this id is there.
        """
        if self._lock < 0:
            raise RuntimeError(
                f"{self.folder}: a store that was opened before a fork cannot be written in the "
                "child; open it there"
            )
        check_file_name(trial_id)
        chunk = self.folder / f"{self._placed // _CHUNK:06}"
        if self._placed % _CHUNK == 0 or not chunk.exists():
            chunk.mkdir(exist_ok=True)
        self._placed += 1
        path = chunk / f"{trial_id}{SUFFIX}"
        if path.exists():
            raise ValueError(f"trial id: expected a new one, got {trial_id!r}, which is stored")
        return path

    def new_journal(self) -> Path:
        """Return the path of an empty journal."""
        with suppress(IndexError):
            return self._free.pop()
        self._journals += 1
        return self.folder / _JOURNALS / f"{self._journals:08}"

    def free_journal(self, path: Path) -> None:
        """Take back a journal whose trial is stored, or given up."""
        try:
            # Not removed: a file system may take ten times as long to create files while others
            # are removed.
            os.truncate(path, 0)
        except OSError:
            path.unlink(missing_ok=True)
        else:
            self._free.append(path)

    def journals(self) -> list[Path]:
        """Return the journals that are there, the oldest first."""
        with suppress(FileNotFoundError):
            return sorted((self.folder / _JOURNALS).iterdir())
        return []

    def told_committed(self) -> int:
        """Return the number of the first chunk that may have files without a row."""
        with suppress(OSError, ValueError):
            return int(os.pread(self._lock, 32, 0) or b"0")
        return 0

    def tell_committed(self, path: Path) -> None:
        """Note that all files up to this one have their rows, so that nobody looks again."""
        os.pwrite(self._lock, path.parent.name.encode(), 0)

    def continue_after(self, chunks: int) -> None:
        """Place files in another chunk than any that is there."""
        self._placed = chunks * _CHUNK

    def disown(self) -> None:
        """Close the lock file, without releasing the lock of the process that holds it."""
        _held.discard(self)
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)

    def end(self, *, keep: bool = False) -> None:
        """Release the lock; with `keep` leave the folder to recovery."""
        if self._lock < 0:
            return  # of the parent, which still writes
        if not keep:
            shutil.rmtree(self.folder / _JOURNALS, ignore_errors=True)
            with suppress(OSError):
                (self.folder / _LOCK).unlink()
            with suppress(OSError):
                self.folder.rmdir()  # which only works if it is empty
        self.disown()


def check_file_name(trial_id: str) -> None:
    """Raise a ValueError for an id that cannot be the name of a file."""
    if not _SAFE.fullmatch(trial_id):
        expected = "at most 200 letters, digits, '-', '_', '.'"
        raise ValueError(f"trial id: expected {expected}; got {trial_id[:200]!r}")


def sessions(store: Path) -> list[Path]:
    """Return the folders of all writers, the oldest first."""
    try:
        return sorted(each for each in (store / TRIALS).iterdir() if each.is_dir())
    except FileNotFoundError:
        return []


def unfinished(store: Path) -> list[Path]:
    """Return the folders of writers that live, or were killed."""
    return [each for each in sessions(store) if is_unfinished(each)]


def is_unfinished(session: Path) -> bool:
    """Return whether the writer of a folder lives, or was killed."""
    return (session / _LOCK).exists()


def files_of(session: Path, first: int = 0) -> Iterator[Path]:
    """Yield the files of a session, from a chunk on, those that were left incomplete included."""
    for chunk in sorted(session.iterdir()):
        if chunk.name.isdigit() and int(chunk.name) >= first:
            yield from sorted(chunk.iterdir())
