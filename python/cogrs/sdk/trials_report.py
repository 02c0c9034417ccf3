"""How an orchestrator and its trials fare, as WatchTrials reports it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cogrs.sdk.trial_state import TrialEnd, TrialState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cogrs.api import orchestrator_pb2 as pb


@dataclass(frozen=True, slots=True)
class TrialProgress:
    """How a trial that has not ended fares.

    Attributes:
        id: The trial's id.
        state: Its state.
        tick: Its latest tick; -1 before the first one.
        awaited: How many of each party it waits for, by `environment` or an actor's class.
        waited: Seconds for which it has waited.
    """

    id: str
    state: TrialState
    tick: int
    awaited: Mapping[str, int]
    waited: float


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialsReport:
    """How an orchestrator and its trials fare. Counts are those since the orchestrator's start.

    Attributes:
        trials: Those that have not ended, the oldest first; no more than 500.
        unlisted: How many further trials have not ended.
        ended: Trials that have ended since the last report, by id, the latest 1,000; with the
            first report, those that are still listed.
        started: Trials that were registered.
        concluded: Trials that their environment ended.
        cut: Trials that ended for another reason.
        ticks: Observation sets after the first of their trial.
        dropped: Dropped rewards, messages and actions, and default actions, by kind.
        log_waiting: Samples that wait for data logs.
        log_lost: Samples that data logs did not get.
    """

    trials: tuple[TrialProgress, ...]
    unlisted: int
    ended: Mapping[str, TrialEnd]
    started: int
    concluded: int
    cut: int
    ticks: int
    dropped: Mapping[str, int]
    log_waiting: int
    log_lost: int


def read_report(report: pb.TrialsReport, ended: Mapping[str, TrialEnd]) -> TrialsReport:
    """Return a report off the wire, with the trials that have ended meanwhile."""
    return TrialsReport(
        trials=tuple(
            TrialProgress(
                id=each.trial_id,
                state=TrialState(each.state),
                tick=each.tick_id,
                awaited=_counts(each.awaited),
                waited=each.waited / 1000,
            )
            for each in report.trials
        ),
        unlisted=report.unlisted,
        ended=ended,
        started=report.started,
        concluded=report.concluded,
        cut=report.cut,
        ticks=report.ticks,
        dropped=_counts(report.dropped),
        log_waiting=report.log_waiting,
        log_lost=report.log_lost,
    )


def _counts(counts: Iterable[pb.TrialsReport.Count]) -> dict[str, int]:
    return {each.name: each.count for each in counts}
