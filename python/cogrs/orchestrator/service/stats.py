"""Statistics of an orchestrator."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cogrs.orchestrator.engine.state import State

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cogrs.orchestrator.engine.orchestrator import Orchestrator
    from cogrs.orchestrator.links.factory import LinkFactory


@dataclass(frozen=True, kw_only=True)
class OrchestratorStats:
    """Statistics of an orchestrator since its start."""

    trials: Mapping[str, int]
    """Listed trials by state; all states have an entry."""
    awaited: Mapping[str, int]
    """Parties that trials wait for: `environment`, or the class of an actor."""
    started: int
    """Trials that were registered."""
    concluded: int
    """Trials that their environment ended."""
    cut: int
    """Trials that ended for another reason: a request, a limit, a failure."""
    ticks: int
    """Observation sets after the first of their trial."""
    tick_seconds: float
    """Sum of the seconds from each observation set to the next."""
    tick_buckets: tuple[int, ...]
    """Ticks by duration, one count for each bound of `TICK_BOUNDS`, and the rest."""
    dropped: Mapping[str, int]
    """Dropped rewards, messages and actions, and default actions, of ended trials."""
    log_waiting: int
    """Samples that wait for data logs."""
    log_waiting_bytes: int
    """Bytes of these samples."""
    log_lost: int
    """Samples that data logs did not get."""


def take_stats(orchestrator: Orchestrator, links: LinkFactory) -> OrchestratorStats:
    """Return the present statistics; to be called on the event loop."""
    states, awaited = Counter({state.name: 0 for state in State}), Counter[str]()
    for trial in orchestrator.trials():
        states[trial.state.name] += 1
        awaited.update(trial.awaited())
    metrics = orchestrator.metrics
    logs = logs_of(links)
    return OrchestratorStats(
        trials=dict(states),
        awaited=dict(awaited),
        started=metrics.started,
        concluded=metrics.concluded,
        cut=metrics.cut,
        ticks=sum(metrics.tick_buckets),
        tick_seconds=metrics.tick_seconds,
        tick_buckets=tuple(metrics.tick_buckets),
        dropped=dict(metrics.dropped),
        log_waiting=sum(each.waiting for each in logs),
        log_waiting_bytes=sum(each.waiting_bytes for each in logs),
        log_lost=sum(each.lost for each in logs),
    )


def logs_of(links: LinkFactory) -> list[Any]:
    """Return the logs that samples may wait for."""
    return [links.logs] if links.store is None else [links.logs, links.store]
