"""Reports of an orchestrator and its trials, for calls of WatchTrials that ask for them."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

from cogrs.api.orchestrator_pb2 import TrialProgress, TrialsReport, TrialState
from cogrs.limits import LEAST_REPORT_PERIOD, MOST_REPORTED_TRIALS
from cogrs.orchestrator.engine.errors import InvalidError
from cogrs.orchestrator.engine.state import State
from cogrs.orchestrator.service.stats import logs_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cogrs.orchestrator.engine.orchestrator import Orchestrator
    from cogrs.orchestrator.engine.trial_record import TrialRecord
    from cogrs.orchestrator.links.factory import LinkFactory


class Reporter:
    """Makes reports; calls that ask at about the same time share one."""

    def __init__(self, orchestrator: Orchestrator, links: LinkFactory) -> None:
        """Report on an orchestrator."""
        self._orchestrator = orchestrator
        self._links = links
        self._latest = TrialsReport()
        self._fresh_until = 0.0

    def take(self) -> TrialsReport:
        """Return a report that is at most half of the least period old; not to be changed."""
        now = asyncio.get_running_loop().time()
        if now >= self._fresh_until:
            self._latest = self._make()
            self._fresh_until = now + LEAST_REPORT_PERIOD / 2000
        return self._latest

    def _make(self) -> TrialsReport:
        # Without `take_stats`, which looks at ended trials too, of which there may be many.
        metrics, logs = self._orchestrator.metrics, logs_of(self._links)
        dropped = Counter(metrics.dropped)
        there = [trial for trial in self._orchestrator.trials() if trial.state is not State.ENDED]
        for trial in there:
            if trial.counts:
                dropped.update(trial.counts)
        listed = list(islice(there, MOST_REPORTED_TRIALS))
        return TrialsReport(
            trials=[_progress(trial, trial.context.clock.now()) for trial in listed],
            unlisted=len(there) - len(listed),
            started=metrics.started,
            concluded=metrics.concluded,
            cut=metrics.cut,
            ticks=sum(metrics.tick_buckets),
            dropped=_counts(dropped),
            log_waiting=sum(log.waiting for log in logs),
            log_lost=sum(log.lost for log in logs),
        )


class ReportSchedule:
    """When a call is due for a report; it is woken then."""

    def __init__(self, period: int, wake: Callable[[], None]) -> None:
        """Create a schedule that begins at once; `period` is in milliseconds, 0 for no reports.

        Raises:
            InvalidError: The period is too short.
        """
        if 0 < period < LEAST_REPORT_PERIOD:
            raise InvalidError(
                f"report_period: expected 0, or at least {LEAST_REPORT_PERIOD} ms, got {period}"
            )
        self._period = period / 1000
        self._wake = wake
        self._due = period > 0
        self._timer: asyncio.TimerHandle | None = None

    def is_due(self) -> bool:
        """Return whether a report is due, which the call then has to send."""
        if not self._due:
            return False
        self._due = False
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._period, self._fall_due)
        return True

    def _fall_due(self) -> None:
        self._due = True
        self._wake()

    def stop(self) -> None:
        """Wake the call no more."""
        if self._timer is not None:
            self._timer.cancel()


def _progress(trial: TrialRecord, now: float) -> TrialProgress:
    # This takes most of the time of a report: a class less, or a look-up, is a tenth of it.
    awaited: dict[str, int] = {}
    for party in trial.awaited():
        awaited[party] = awaited.get(party, 0) + 1
    return TrialProgress(
        trial_id=trial.id,
        state=TrialState.ValueType(trial.state),  # its numbers are those of the wire
        tick_id=trial.tick,
        awaited=_counts(awaited),
        waited=max(int(1000 * (now - trial.since)), 0),
    )


def _counts(counts: Mapping[str, int]) -> list[TrialsReport.Count]:
    return [TrialsReport.Count(name=name, count=count) for name, count in counts.items()]
