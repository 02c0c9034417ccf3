"""Writes the rows of trials to the index, on a thread of its own: a database may be gone."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from cogrs.store.index import TrialIndex
    from cogrs.store.record import TrialRecord

_log = logging.getLogger("cogrs.store")

_TOGETHER = 1_000
"""Rows of one transaction."""
_WAITING = 200_000
"""Rows that wait for a database that is gone; more are left to the next recovery."""
_PAUSE = 0.5
"""Seconds before another try."""


class RowCommitter:
    """Writes rows in batches, in their order, until it works."""

    def __init__(
        self,
        index: TrialIndex,
        committed: Callable[[list[TrialRecord]], None],
        refused: Callable[[list[TrialRecord]], None],
        pause: float = 0.1,
    ) -> None:
        """Start the thread.

        Args:
            index: Where rows go.
            committed: Called on the thread with the rows that were written.
            refused: Called likewise, with those whose ids another trial has.
            pause: Seconds in which rows come together.
        """
        self._index = index
        self._committed = committed
        self._refused = refused
        self._pause = pause
        self._rows: list[TrialRecord] = []
        self._changed = threading.Condition()
        self._stopping = False
        self.dropped = 0
        """Rows that were left to the next recovery."""
        self._thread = threading.Thread(target=self._run, name="cogrs-store-index", daemon=True)
        self._thread.start()

    def put(self, record: TrialRecord) -> None:
        """Write a row soon."""
        with self._changed:
            if len(self._rows) >= _WAITING:
                self.dropped += 1
            else:
                self._rows.append(record)
                self._changed.notify()

    def close(self, timeout: float) -> bool:
        """Write the rest, for at most so many seconds; return whether all rows are written."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        self._thread.join(timeout)
        return not self._thread.is_alive() and not self._rows and not self.dropped

    def _run(self) -> None:
        outages: tuple[type[Exception], ...] = (OSError, *self._index.errors)
        broken = False
        while True:
            with self._changed:
                while not self._rows and not self._stopping:
                    self._changed.wait()
                rows = self._rows[:_TOGETHER]
            if not rows:
                return
            try:
                refused = self._index.add(rows)
            except outages as error:
                if not broken:
                    _log.error("%s: cannot be written, trials wait: %s", self._index.name, error)
                broken = True
                if self._stopping:
                    return
                self._sleep(_PAUSE)
                continue
            except Exception:  # of a value that no row can hold: other rows go on
                refused = self._add_apart(rows)
            if broken:
                _log.warning("%s: can be written again", self._index.name)
                broken = False
            with self._changed:
                del self._rows[: len(rows)]
            self._committed(rows)
            self._refused(refused)
            if len(rows) < _TOGETHER:
                self._sleep(self._pause)

    def _add_apart(self, rows: list[TrialRecord]) -> list[TrialRecord]:
        """Write rows one by one, without those that cannot be written; return those refused."""
        refused: list[TrialRecord] = []
        for row in rows:
            try:
                refused += self._index.add([row])
            except Exception:
                self.dropped += 1
                _log.exception("trial %s: its row cannot be written", row.trial_id)
        return refused

    def _sleep(self, seconds: float) -> None:
        """Sleep, but not while there is no time left."""
        until = time.monotonic() + seconds
        with self._changed:
            while not self._stopping and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)
