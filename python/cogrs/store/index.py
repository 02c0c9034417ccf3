"""The index of a store: tables and queries that SQLite and PostgreSQL have in common.

Texts that many trials share (reasons, casts, parameters) are rows of a table of their own, so that
a filter on one of them looks at few rows, and then at an index of the trials.
"""

from __future__ import annotations

import hashlib
import json
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cogrs.store.record import TrialFilter, TrialRecord, moment_of, seconds_of
from cogrs.suggest import suggestion

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

VERSION = 1
"""Version of the tables; an index of a newer one is refused."""

_KNOWN_TEXTS = 10_000
FETCHED = 5_000
_TOGETHER = 500
"""Values of one query: SQLite had a limit of 999."""

_TABLES = """
CREATE TABLE IF NOT EXISTS cogrs_store (version INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS cogrs_texts (
    number {serial},
    kind TEXT NOT NULL,
    digest TEXT NOT NULL UNIQUE,
    content TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS cogrs_trials (
    number {serial},
    trial_id TEXT NOT NULL UNIQUE,
    started DOUBLE PRECISION NOT NULL,
    ended DOUBLE PRECISION,
    ticks BIGINT NOT NULL,
    best DOUBLE PRECISION,
    returns TEXT NOT NULL,
    actors BIGINT NOT NULL,
    reason BIGINT NOT NULL,
    params BIGINT NOT NULL,
    user_id TEXT NOT NULL,
    partial SMALLINT NOT NULL,
    people SMALLINT NOT NULL,
    file TEXT NOT NULL,
    size BIGINT NOT NULL,
    checksum BIGINT NOT NULL
);
CREATE INDEX IF NOT EXISTS cogrs_texts_kind ON cogrs_texts (kind);
CREATE INDEX IF NOT EXISTS cogrs_trials_started ON cogrs_trials (started);
CREATE INDEX IF NOT EXISTS cogrs_trials_best ON cogrs_trials (best);
CREATE INDEX IF NOT EXISTS cogrs_trials_actors ON cogrs_trials (actors, started);
CREATE INDEX IF NOT EXISTS cogrs_trials_reason ON cogrs_trials (reason, started);
CREATE INDEX IF NOT EXISTS cogrs_trials_user ON cogrs_trials (user_id, started);
CREATE INDEX IF NOT EXISTS cogrs_trials_partial ON cogrs_trials (started) WHERE partial = 1;
CREATE INDEX IF NOT EXISTS cogrs_trials_people ON cogrs_trials (started) WHERE people = 1
"""

_COLUMNS = (
    *("trial_id", "started", "ended", "ticks", "best", "returns", "actors", "reason", "params"),
    *("user_id", "partial", "people", "file", "size", "checksum"),
)


class TrialIndex:
    """The trials of a store. Any thread may call its methods; they wait for each other.

    Methods raise an OSError, or what `errors` lists, if the database cannot be reached or written.
    """

    errors: tuple[type[Exception], ...] = ()
    """Errors of the database's driver."""
    _mark = "?"
    _serial = "INTEGER PRIMARY KEY"

    def __init__(self, name: str) -> None:
        """Call this index by a name in errors."""
        self.name = name
        self._lock = threading.RLock()
        self._numbers: dict[tuple[str, str], int] = {}
        self._contents: dict[int, Any] = {}

    # -- what the two databases do differently --------------------------------------------------

    def _query(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """Run a statement, and return its cursor."""
        raise NotImplementedError

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Do all that is inside or nothing, and nobody else's writing meanwhile."""
        raise NotImplementedError
        yield

    def close(self) -> None:
        """Disconnect."""
        raise NotImplementedError

    def _stream(self, sql: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        raise NotImplementedError

    # -- tables ---------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Make the tables that are missing.

        Raises:
            ValueError: They are of a newer version.
        """
        with self._lock:
            if self._has_tables():
                self._check_version()
                return
            with self.transaction():
                for statement in _TABLES.format(serial=self._serial).split(";"):
                    self._query(statement)
                if not self._query("SELECT version FROM cogrs_store").fetchall():
                    self._query(f"INSERT INTO cogrs_store VALUES ({self._mark})", (VERSION,))
            self._check_version()

    def _has_tables(self) -> bool:
        raise NotImplementedError

    def _check_version(self) -> None:
        versions = [row[0] for row in self._query("SELECT version FROM cogrs_store").fetchall()]
        if not versions or max(versions) > VERSION:
            told = f"version {max(versions)}" if versions else "no version"
            raise ValueError(
                f"{self.name}: expected an index of version {VERSION} or older, got {told}: "
                "a newer cogrs reads it"
            )

    # -- writing --------------------------------------------------------------------------------

    def add(self, records: Sequence[TrialRecord]) -> list[TrialRecord]:
        """Add trials; return those that were not, as another file is listed under their id."""
        with self._lock, self.transaction():
            return [each for each in records if not self._insert(each) and not self.has(each)]

    def replace(self, record: TrialRecord) -> None:
        """Put a trial in the place of the one with its id."""
        with self._lock, self.transaction():
            self._delete([record.trial_id])
            self._insert(record)

    def remove(self, trial_ids: Sequence[str]) -> None:
        """Remove trials; those that are not there are left out."""
        with self._lock, self.transaction():
            self._delete(trial_ids)

    def _insert(self, record: TrialRecord) -> bool:
        """Insert a row; return False if its id is there."""
        marks = ", ".join([self._mark] * len(_COLUMNS))
        returns = list(record.returns.values())
        values = (
            record.trial_id,
            seconds_of(record.started),
            None if record.ended is None else seconds_of(record.ended),
            record.ticks,
            max(returns, default=None),
            json.dumps(returns),
            self._number("actors", json.dumps(dict(record.classes))),
            self._number("reason", record.end_reason.replace("\0", " ")),
            self._number("params", record.params),
            record.user.replace("\0", " "),
            int(record.partial),
            int(record.people),
            record.file,
            record.size,
            record.checksum,
        )
        made = self._query(
            f"INSERT INTO cogrs_trials ({', '.join(_COLUMNS)}) VALUES ({marks}) "
            "ON CONFLICT (trial_id) DO NOTHING",
            values,
        )
        return int(made.rowcount) > 0

    def _delete(self, trial_ids: Sequence[str]) -> None:
        for ids in _chunks(trial_ids):
            marks = ", ".join([self._mark] * len(ids))
            self._query(f"DELETE FROM cogrs_trials WHERE trial_id IN ({marks})", ids)

    def _number(self, kind: str, text: str) -> int:
        """Return the number of a shared text, which is added if it is new."""
        key = kind, text
        number = self._numbers.get(key)
        if number is None:
            digest = hashlib.sha256(f"{kind}:{text}".encode(errors="surrogatepass")).hexdigest()
            mark = self._mark
            self._query(
                f"INSERT INTO cogrs_texts (kind, digest, content) VALUES ({mark}, {mark}, {mark}) "
                "ON CONFLICT (digest) DO NOTHING",
                (kind, digest, text),
            )
            find = f"SELECT number FROM cogrs_texts WHERE digest = {mark}"
            number = int(self._query(find, (digest,)).fetchone()[0])
            if len(self._numbers) >= _KNOWN_TEXTS:
                self._numbers.clear()
            self._numbers[key] = number
        return number

    def _forget(self) -> None:
        """Forget what a transaction that was rolled back may have added."""
        self._numbers.clear()

    # -- reading --------------------------------------------------------------------------------

    def find(self, trial_id: str) -> TrialRecord:
        """Return a trial.

        Raises:
            ValueError: No trial has this id; the text has the nearest one.
        """
        with self._lock:
            where = f"WHERE trial_id = {self._mark}"
            row = self._query(
                f"SELECT {', '.join(_COLUMNS)} FROM cogrs_trials {where}", (trial_id,)
            )
            found = row.fetchone()
            if found is not None:
                return self._record(found)
            raise ValueError(
                f"trial_id: no trial {trial_id!r} in {self.name}; {self._nearest(trial_id)}"
            )

    def has(self, record: TrialRecord) -> bool:
        """Return whether a trial is listed with the same file and checksum."""
        sql = f"SELECT file, checksum FROM cogrs_trials WHERE trial_id = {self._mark}"
        with self._lock:
            row = self._query(sql, (record.trial_id,)).fetchone()
        return row is not None and (row[0], row[1]) == (record.file, record.checksum)

    def known(self, trial_ids: Iterable[str]) -> set[str]:
        """Return those of these ids that are in the index."""
        found: set[str] = set()
        with self._lock:
            for ids in _chunks(list(trial_ids)):
                marks = ", ".join([self._mark] * len(ids))
                rows = self._query(
                    f"SELECT trial_id FROM cogrs_trials WHERE trial_id IN ({marks})", ids
                )
                found |= {row[0] for row in rows.fetchall()}
        return found

    def select(self, wanted: TrialFilter) -> Iterator[TrialRecord]:
        """Yield the trials that fit a filter, by the time of their start."""
        with self._lock:
            where, values = self._where(wanted)
        columns = ", ".join(_COLUMNS)
        sql = f"SELECT {columns}, number FROM cogrs_trials {where} ORDER BY started"
        if wanted.limit is not None:
            newest = f"{sql} DESC, number DESC LIMIT {int(wanted.limit)}"
            sql = f"SELECT {columns}, number FROM ({newest}) AS newest ORDER BY started"
        sql += ", number"
        for row in self._stream(sql, values):
            yield self._record(row)

    def count(self) -> int:
        """Return how many trials there are."""
        with self._lock:
            return int(self._query("SELECT count(*) FROM cogrs_trials").fetchone()[0])

    def _where(self, wanted: TrialFilter) -> tuple[str, list[Any]]:
        mark = self._mark
        parts, values = [], []
        comparisons = {
            "started >=": None if wanted.since is None else seconds_of(wanted.since),
            "started <": None if wanted.until is None else seconds_of(wanted.until),
            "best >=": wanted.min_return,
            "user_id =": wanted.user,
        }
        for comparison, value in comparisons.items():
            if value is not None:
                parts.append(f"{comparison} {mark}")
                values.append(value)
        for name, flag in (("partial", wanted.partial), ("people", wanted.people)):
            if flag is not None:
                parts.append(f"{name} = {int(flag)}")
        if wanted.ended_by is not None:
            parts.append(self._among("reason", lambda text: str(wanted.ended_by) in text))
        if wanted.actor_class is not None:
            parts.append(
                self._among("actors", lambda text: wanted.actor_class in json.loads(text).values())
            )
        return (f"WHERE {' AND '.join(parts)}" if parts else ""), values

    def _among(self, kind: str, fits: Any) -> str:
        """Return the condition that a shared text is one of those that fit."""
        find = f"SELECT number, content FROM cogrs_texts WHERE kind = {self._mark}"
        numbers = [str(int(number)) for number, text in self._query(find, (kind,)) if fits(text)]
        return f"{kind} IN ({', '.join(numbers)})" if numbers else "1 = 0"

    def _record(self, row: Sequence[Any]) -> TrialRecord:
        classes = self._shared(row[6], parse=True)
        return TrialRecord(
            trial_id=row[0],
            ticks=row[3],
            returns=dict(zip(classes, json.loads(row[5]), strict=True)),
            classes=classes,
            end_reason=self._shared(row[7]),
            user=row[9],
            partial=bool(row[10]),
            people=bool(row[11]),
            started=moment_of(row[1]),
            ended=None if row[2] is None else moment_of(row[2]),
            file=row[12],
            size=row[13],
            checksum=row[14],
            params=self._shared(row[8]),
        )

    def _shared(self, number: int, *, parse: bool = False) -> Any:
        found = self._contents.get(number)
        if found is None:
            with self._lock:
                find = f"SELECT content FROM cogrs_texts WHERE number = {self._mark}"
                found = self._query(find, (number,)).fetchone()[0]
            found = json.loads(found) if parse else found
            if len(self._contents) >= _KNOWN_TEXTS:
                self._contents.clear()
            self._contents[number] = found
        return found

    def _nearest(self, trial_id: str) -> str:
        """Return "did you mean ...?" of the ids that begin alike, or how many trials there are."""
        begin = trial_id[:4]
        rows = self._query(
            f"SELECT trial_id FROM cogrs_trials WHERE trial_id >= {self._mark} "
            f"ORDER BY trial_id LIMIT {_TOGETHER}",
            (begin,),
        )
        hint = suggestion(trial_id, [row[0] for row in rows.fetchall()])
        return hint or f"it has {self.count()} trials: see cogrs data ls"


def _chunks(values: Sequence[str]) -> Iterator[Sequence[str]]:
    for at in range(0, len(values), _TOGETHER):
        yield values[at : at + _TOGETHER]
