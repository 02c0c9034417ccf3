"""Logs a server's rates now and then: caches, bytes and samples per second.

The line is logged by a worker that finds it due: no thread of its own, and nothing that holds the
server.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from cogrs.replay.stats import ServerStats

_logger = logging.getLogger("cogrs.replay.server")


class StatsReporter:
    """Logs the rates since the line before. Any worker may call `tick`; none waits for another."""

    def __init__(self, period: float | None) -> None:
        """Log every so many seconds; never if None."""
        self._period = float("inf") if period is None else period
        self._lock = threading.Lock()
        self._before: ServerStats | None = None
        # The first line needs something to compare with, which is taken at once.
        self._due = float("inf") if period is None else 0.0

    def tick(self, stats: Callable[[], ServerStats]) -> None:
        """Log the rates when that is due; to be called often."""
        if time.monotonic() < self._due or not self._lock.acquire(blocking=False):
            return
        try:
            now = time.monotonic()
            if now >= self._due:
                self._due = now + self._period
                self._report(stats)
        finally:
            self._lock.release()

    def _report(self, stats: Callable[[], ServerStats]) -> None:
        if not _logger.isEnabledFor(logging.INFO):
            self._before = None
            return
        before, self._before = self._before, stats()
        if before is not None:
            _logger.info("%s", line(before, self._before))


def line(before: ServerStats, now: ServerStats) -> str:
    """Return the rates between two moments as text."""
    seconds = max(now.taken_at - before.taken_at, 1e-9)
    caches, samples, nbytes = (
        (new - old) / seconds for new, old in zip(now.received, before.received, strict=True)
    )
    given = (now.samples_given - before.samples_given) / seconds
    clients = sum(before.clients.get(uuid) != tally for uuid, tally in now.clients.items())
    refused = now.total_refused - before.total_refused
    return (
        f"{caches:,.1f} caches/s, {nbytes / 1e6:,.2f} MB/s, {samples:,.0f} samples/s received, "
        f"{given:,.0f} samples/s given, {clients} clients, {refused} refused in {seconds:.1f} s; "
        f"{now.caches} of {now.n_caches} caches held"
    )
