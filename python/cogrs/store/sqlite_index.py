"""The index of a store in SQLite: a file in its folder, which several processes may use."""

from __future__ import annotations

import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from cogrs.store.index import FETCHED, TrialIndex

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

NAME = "index.sqlite"
"""The file's name in the folder of a store."""


class SqliteIndex(TrialIndex):
    """Trials in a file of SQLite."""

    errors = (sqlite3.Error,)

    def __init__(self, path: Path, *, create: bool = False, patience: float = 10.0) -> None:
        """Open an index.

        Args:
            path: The file.
            create: Create it if it is missing.
            patience: Seconds to wait for another process that writes.

        Raises:
            OSError: It is missing, or cannot be read; with `create`, it cannot be written.
            ValueError: It is not an index of trials, or of a newer version.
        """
        super().__init__(str(path))
        self.read_only = False
        self._path, self._patience = path, patience
        if not create and not path.exists():
            raise FileNotFoundError(
                f"{path.parent}: expected a store of trials, got no {path.name}"
            )
        self._mode = "rwc" if create else "rw"
        try:
            try:
                self._connect(write=True)
            except sqlite3.OperationalError as error:
                if create or _is_busy(error):
                    raise
                self._connect_read_only()
        except sqlite3.OperationalError as error:
            raise OSError(f"{path}: {error}") from error
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{path}: expected an index of trials: {error}") from error

    def _connect(self, *, write: bool) -> None:
        self._connection = self._connected()
        try:
            self._begin(write=write)
        except BaseException:
            self._connection.close()
            raise

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{self._path.absolute().as_uri()}?mode={self._mode}",
            timeout=self._patience,
            isolation_level=None,
            check_same_thread=False,
            uri=True,
        )
        try:
            connection.execute("PRAGMA journal_mode").fetchone()  # reads the file's header
        except BaseException:
            connection.close()
            raise
        return connection

    def _begin(self, *, write: bool) -> None:
        if write:
            self._query("PRAGMA journal_mode = WAL")
            # A commit survives the end of the process, and not every loss of power.
            self._query("PRAGMA synchronous = NORMAL")
            self._query("BEGIN IMMEDIATE")
            self._query("ROLLBACK")
        self._query("PRAGMA cache_size = -65536")
        if write:
            self.prepare()
        else:
            self._check_version()

    def _connect_read_only(self) -> None:
        """Connect to a file that cannot be written, or whose folder cannot."""
        self.read_only = True
        for self._mode in ("ro", "ro&immutable=1"):
            try:
                self._connect(write=False)
                return
            except sqlite3.OperationalError:
                if self._mode != "ro":
                    raise

    def _query(self, sql: str, values: Sequence[Any] = ()) -> Any:
        return self._connection.execute(sql, values)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Do all that is inside or nothing, and nobody else's writing meanwhile."""
        with self._lock:
            if self._connection.in_transaction:
                yield
                return
            self._query("BEGIN IMMEDIATE")
            try:
                yield
                self._query("COMMIT")
            except BaseException:
                self._forget()
                if self._connection.in_transaction:
                    self._query("ROLLBACK")
                raise

    def _stream(self, sql: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        # On a connection of its own: a query that is being read would keep this one at the state
        # of its beginning, where it can neither write nor see what others wrote.
        with closing(self._connected()) as connection:
            cursor = connection.execute(sql, values)
            while rows := cursor.fetchmany(FETCHED):
                yield from rows

    def _has_tables(self) -> bool:
        found = self._query("SELECT name FROM sqlite_master WHERE name = 'cogrs_store'").fetchall()
        return bool(found)

    def close(self) -> None:
        """Disconnect."""
        with self._lock:
            self._connection.close()


def _is_busy(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
    )
