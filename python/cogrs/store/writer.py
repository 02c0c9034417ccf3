"""Writes the trials of an orchestrator into a store, on a thread of its own.

| what happens | when |
|---|---|
| a sample comes | it is put into a queue; nothing waits |
| each `FLUSH` seconds | what came of trials that have not ended goes to their journals |
| a trial ends | its file is written, from the journal and the queue; then its row, with others |
| nothing can be written | samples wait, up to a limit; more are dropped and counted |
| the process is killed | `recovery.py` finds journals, and files without a row |

No trial waits for it. A trial of which samples were dropped is partial.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from cogrs.limits import STORE_BACKLOG_BYTES
from cogrs.store.journal import FLUSH, OpenTrial, warm_up
from cogrs.store.recovery import recover_all
from cogrs.store.row_committer import RowCommitter
from cogrs.store.session import Session
from cogrs.store.store_index import open_index

if TYPE_CHECKING:
    from collections.abc import Callable

    from cogrs.api.common_pb2 import TrialParams
    from cogrs.api.datalog_pb2 import DatalogSample
    from cogrs.store.location import Location
    from cogrs.store.record import TrialRecord

_log = logging.getLogger("cogrs.store")

_LOOK = 0.05
"""Seconds between two looks at the queue. A wake-up per sample would cost more than the sample."""
_OVERHEAD = 512
"""Bytes that are counted for a sample beside those of its message."""


START_PATIENCE = 10.0
"""Seconds in which the database of an index has to be there, when an orchestrator starts."""
_START_PAUSE = 0.2


async def open_writer(location: Location, patience: float = START_PATIENCE) -> StoreWriter:
    """Open a store, on a thread, as trials of killed orchestrators may be taken in first.

    Args:
        location: Where it is.
        patience: Seconds to wait for the database of its index, which may be restarting.

    Raises:
        ConnectionError: The database was not there in this time.
        ImportError, OSError, ValueError: As `StoreWriter`.
    """
    until = time.monotonic() + patience
    told = False
    while True:
        try:
            return await asyncio.to_thread(StoreWriter, location)
        except ConnectionError as error:
            left = until - time.monotonic()
            if left <= 0:
                raise
            if not told:
                _log.warning("cannot be reached, tried again for %.0f s: %s", left, error)
            told = True
        await asyncio.sleep(min(_START_PAUSE, left))


class TrialWriter:
    """Takes the samples of one trial; its methods return at once and raise nothing."""

    def __init__(self, writer: StoreWriter, trial: OpenTrial) -> None:
        """Take samples for a trial."""
        self._writer = writer
        self._trial = trial
        self._stopped = False

    def sample(self, sample: DatalogSample) -> None:
        """Take a sample."""
        if self._stopped:
            self._writer.lose(1)
        elif not self._writer.put(self._trial, sample):
            # A log with a hole would be taken for what happened.
            self._stopped = True
            self._trial.whole = False
            self._writer.lose(1)
            _log.warning(
                "trial %s: its log stops: too many samples wait for the store", self._trial.trial_id
            )

    def close(self) -> None:
        """Write the trial: it has ended."""
        self._writer.end(self._trial)


class StoreWriter:
    """A store that an orchestrator writes to."""

    def __init__(
        self, location: Location, *, backlog_bytes: int = STORE_BACKLOG_BYTES, flush: float = FLUSH
    ) -> None:
        """Open a store, which is created if it is missing, and take in what others left.

        Args:
            location: Where it is.
            backlog_bytes: Bytes of samples that wait to be written; more are dropped.
            flush: Seconds between two writes to the journals.

        Raises:
            ConnectionError: The database of its index cannot be reached now.
            ImportError: pyarrow is not installed, or psycopg for an index in PostgreSQL.
            OSError: It cannot be written.
            ValueError: Its index is of a newer version.
        """
        warm_up()
        self._folder = location.folder
        self._index = open_index(location, create=True)
        try:
            recover_all(self._folder, self._index)
            self._session = Session.begin(self._folder)
        except BaseException:
            self._index.close()
            raise
        self._backlog_bytes = backlog_bytes
        self._flush_every = flush
        self._lock = threading.Lock()
        self.waiting = 0
        """Samples that wait to be written to a journal or a file."""
        self.waiting_bytes = 0
        """Bytes of these samples."""
        self.lost = 0
        """Samples that were not written."""
        self._queue: deque[tuple[OpenTrial, bytes | None]] = deque()
        self._open: dict[int, OpenTrial] = {}
        self._ended: deque[OpenTrial] = deque()
        self._stored: dict[str, OpenTrial] = {}
        self._broken = False
        self._flushed = time.monotonic()
        self._until: float | None = None
        self._closed: Callable[[], object] = bool
        self._wake = threading.Event()
        self._rows = RowCommitter(self._index, self._committed, self._refused)
        self._thread = threading.Thread(target=self._run, name="cogrs-store", daemon=True)
        self._thread.start()

    # -- called by trials -----------------------------------------------------------------------

    def begin(self, trial_id: str, params: TrialParams, spaces: str) -> TrialWriter:
        """Return what takes the samples of a trial that runs now."""
        return TrialWriter(self, OpenTrial(trial_id, params, spaces, time.time()))

    def put(self, trial: OpenTrial, sample: DatalogSample) -> bool:
        """Take a sample; return False if there is no room for it."""
        content = sample.SerializeToString()
        size = len(content) + _OVERHEAD
        with self._lock:
            if self.waiting_bytes + size > self._backlog_bytes or self._until is not None:
                return False
            self.waiting += 1
            self.waiting_bytes += size
            # Under the lock, so that nothing comes after the thread's last look.
            self._queue.append((trial, content))
        return True

    def lose(self, samples: int) -> None:
        """Count samples that are not written."""
        with self._lock:
            self.lost += samples

    def end(self, trial: OpenTrial) -> None:
        """Write a trial that has ended."""
        trial.ended = time.time()
        self._queue.append((trial, None))

    # -- the end --------------------------------------------------------------------------------

    def begin_close(self, timeout: float, closed: Callable[[], object] = bool) -> None:
        """Write the rest, for at most so many seconds; what is left then goes to journals.

        `closed` is called on the store's thread when that is done; only the first call counts.
        """
        with self._lock:
            if self._until is None:
                self._closed = closed
                self._until = time.monotonic() + timeout
        self._wake.set()

    def close(self, timeout: float = 10.0) -> None:
        """Write the rest, and close the store."""
        self.begin_close(timeout)
        self._thread.join(timeout + 1.0)

    # -- the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        while self._until is None:
            self._wake.wait(_LOOK)
            self._work()
        # Trials whose end did not come are stored as far as they are known.
        self._drain()
        for trial in self._open.values():
            trial.ended = trial.ended or time.time()
        self._ended.extend(self._open.values())
        self._open.clear()
        while self._ended and not self._is_late():
            self._work()
            if self._broken:
                break
        self._finish()

    def _finish(self) -> None:
        until = self._until or 0.0
        for trial in self._ended:
            self._journal(trial)
        left = sum(len(trial.samples) for trial in self._ended)
        if left:
            self.lose(left)
            _log.error("%s: %d samples could not be written", self._folder, left)
        written = self._rows.close(max(until - time.monotonic(), 0.5))
        self._session.end(keep=bool(self._ended) or not written)
        self._index.close()
        with suppress(RuntimeError):  # the event loop that waits for it may have ended
            self._closed()

    def _work(self) -> None:
        """Take what came, and write it: trials that have ended to files, others to journals."""
        self._drain()
        # Journals first: files of many trials take long, and what waits is not safe yet.
        if self._is_due():
            self._flush()
        while self._ended and not self._is_late():
            if not self._store(self._ended[0]):
                break
            self._ended.popleft()
            if self._is_due():
                self._drain()
                self._flush()

    def _drain(self) -> None:
        while self._queue:
            trial, sample = self._queue.popleft()
            if sample is None:
                self._open.pop(id(trial), None)
                self._ended.append(trial)
            else:
                trial.samples.append(sample)
                self._open[id(trial)] = trial

    def _is_late(self) -> bool:
        return self._until is not None and time.monotonic() >= self._until

    def _is_due(self) -> bool:
        return time.monotonic() - self._flushed >= self._flush_every

    def _flush(self) -> None:
        self._flushed = time.monotonic()
        for trial in (*self._open.values(), *self._ended):
            if trial.samples and not self._journal(trial):
                break

    def _journal(self, trial: OpenTrial) -> bool:
        """Write what came of a trial to its journal; return whether that went well."""
        written = self._sizes(trial)
        try:
            trial.flush(self._session)
        except OSError as error:
            self._report(error)
            return False
        except Exception:  # of a sample that no journal can hold: other trials go on
            _log.exception("trial %s: samples cannot be stored", trial.trial_id)
            trial.whole = False
            trial.samples.clear()
            self.lose(written[0])
        self._release(*written)
        return True

    def _store(self, trial: OpenTrial) -> bool:
        """Write the file of a trial; return whether it is done with."""
        if not trial.samples and not trial.journaled:
            return True
        written = self._sizes(trial)
        try:
            record = trial.store(self._session, self._folder)
        except OSError as error:
            self._report(error)
            return False
        except Exception:  # of values that no file can hold: other trials go on
            _log.exception("trial %s: it cannot be stored", trial.trial_id)
            self.lose(len(trial.samples) + trial.journaled)
            self._release(*written)
            trial.forget(self._session)
            return True
        if self._broken:
            _log.warning("%s: can be written again", self._folder)
            self._broken = False
        trial.samples.clear()
        self._release(*written)
        if trial.journaled:
            with self._lock:
                self._stored[record.trial_id] = trial
        self._rows.put(record)
        return True

    def _committed(self, records: list[TrialRecord]) -> None:
        """Remove the journals of trials whose rows are written."""
        for record in records:
            with self._lock:
                trial = self._stored.pop(record.trial_id, None)
            if trial is not None:
                trial.forget(self._session)
        if records and not self._rows.dropped:
            self._session.tell_committed(self._folder / records[-1].file)

    def _refused(self, records: list[TrialRecord]) -> None:
        """Remove the files of trials whose ids others have: the first one stays."""
        for record in records:
            (self._folder / record.file).unlink(missing_ok=True)
            self.lose(record.ticks + 1)
            _log.error("trial %s: not stored: another trial has its id", record.trial_id)

    def _sizes(self, trial: OpenTrial) -> tuple[int, int]:
        count = len(trial.samples)
        return count, sum(map(len, trial.samples)) + count * _OVERHEAD

    def _release(self, samples: int, size: int) -> None:
        with self._lock:
            self.waiting -= samples
            self.waiting_bytes -= size

    def _report(self, error: OSError) -> None:
        if not self._broken:
            _log.error("%s: cannot be written, samples wait: %s", self._folder, error)
        self._broken = True
