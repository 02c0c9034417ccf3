"""The index of a store in PostgreSQL, for several orchestrators; needs psycopg."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from cogrs.optional_dependency import import_optional
from cogrs.store.index import FETCHED, TrialIndex
from cogrs.store.location import without_secret

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_LOCK = 0x636F677273
"""Key of the lock under which tables are made and trials are changed: "cogrs"."""
_UNREACHABLE = ("08", "57P")
"""Beginnings of the codes of lost connections, and of servers that start or stop."""
_LASTING = ("does not exist", "no pg_hba.conf entry")
_ALIVE = {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3}


class PostgresIndex(TrialIndex):
    """Trials in a database; a connection that was lost is made anew by the next call."""

    _mark = "%s"
    _serial = "BIGSERIAL PRIMARY KEY"

    def __init__(self, url: str, *, patience: float = 10.0) -> None:
        """Connect.

        Args:
            url: `postgresql://USER:PASSWORD@HOST:PORT/DATABASE`.
            patience: Seconds to wait for the server, and for other writers.

        Raises:
            ImportError: psycopg is not installed.
            ConnectionError: The server cannot be reached now: it may be starting.
            OSError: It refuses the connection.
            ValueError: The URL is invalid, or the tables are of a newer version.
        """
        super().__init__(without_secret(url))
        self._driver = import_optional(
            "psycopg", "an index in PostgreSQL needs psycopg", "'cogrs[postgres]'"
        )
        self.errors = (self._driver.Error, OSError)
        self._url = url
        self._patience = max(1, round(patience))
        self._connection: Any = None
        try:
            with ExitStack() as undo:
                undo.callback(self.close)
                self.prepare()
                undo.pop_all()
        except self._driver.ProgrammingError as error:
            raise ValueError(f"{self.name}: {_text(error)}") from error
        except self._driver.Error as error:
            kind = ConnectionError if _may_pass(error) else OSError
            raise kind(f"{self.name}: {_text(error)}") from error

    def _connected(self) -> Any:
        if self._connection is None or self._connection.closed:
            self._forget()
            milliseconds = 1000 * self._patience
            self._connection = self._driver.connect(
                self._url,
                autocommit=True,
                connect_timeout=max(2, self._patience),
                options=f"-c lock_timeout={milliseconds} -c statement_timeout=0",
                tcp_user_timeout=milliseconds,
                **_ALIVE,
            )
        return self._connection

    def _query(self, sql: str, values: Sequence[Any] = ()) -> Any:
        connection = self._connected()
        try:
            return connection.execute(sql, values)
        except self._driver.OperationalError:
            # The connection may be broken; the next call makes another.
            if not _is_refusal(connection):
                with suppress(self._driver.Error):
                    connection.close()
            raise

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Do all that is inside or nothing, and nobody else's writing meanwhile."""
        with self._lock:
            connection = self._connected()
            if connection.info.transaction_status != self._driver.pq.TransactionStatus.IDLE:
                yield
                return
            try:
                with connection.transaction():
                    self._query("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
                    yield
            except BaseException:
                self._forget()
                raise

    def _stream(self, sql: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        # A cursor of the server's, on a connection of its own: other calls go on meanwhile.
        with (
            self._driver.connect(self._url, connect_timeout=max(2, self._patience)) as connection,
            connection.cursor(name=f"cogrs_{uuid4().hex}") as cursor,
        ):
            cursor.itersize = FETCHED
            cursor.execute(sql, values)
            yield from cursor

    def _has_tables(self) -> bool:
        found = self._query("SELECT to_regclass('cogrs_store')").fetchone()
        return found is not None and found[0] is not None

    def close(self) -> None:
        """Disconnect."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()


def _is_refusal(connection: Any) -> bool:
    """Return whether the server answered, so that the connection is sound."""
    return not connection.broken


def _may_pass(error: Any) -> bool:
    """Return whether a server that starts, stops or is not reached yet may be the cause.

    Drivers get no error code for a connection that was not made, and servers translate their texts:
    what is not known to last may pass.
    """
    if error.sqlstate is not None:
        return bool(error.sqlstate.startswith(_UNREACHABLE))
    connection = error.pgconn
    if connection is not None and (connection.used_password or connection.needs_password):
        return False
    text = str(error)
    return not any(each in text for each in _LASTING)


def _text(error: Exception) -> str:
    return " ".join(str(error).split())
