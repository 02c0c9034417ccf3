"""An orchestrator's statistics for Prometheus. Needs prometheus-client."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

from cogrs.escape import escaped
from cogrs.orchestrator.engine.metrics import TICK_BOUNDS
from cogrs.orchestrator.service.stats import OrchestratorStats
from cogrs.prometheus import StatsCollector, serve_metrics  # its error says what to install

# isort: split
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client.core import Metric

__all__ = ["Metrics", "serve_metrics"]


_FAMILIES: tuple[tuple[Any, str, str, str, Callable[[OrchestratorStats], Any]], ...] = (
    (GaugeMetricFamily, "trials", "Listed trials, by state.", "state", lambda of: of.trials),
    (
        GaugeMetricFamily,
        "trials_awaited",
        "Parties that trials wait for: environment, or the class of an actor.",
        "party",
        lambda of: of.awaited,
    ),
    (CounterMetricFamily, "trials_started", "Trials registered.", "", lambda of: of.started),
    (
        CounterMetricFamily,
        "trials_ended",
        "Ended trials: concluded by the environment, or cut for another reason.",
        "how",
        lambda of: {"concluded": of.concluded, "cut": of.cut},
    ),
    (
        CounterMetricFamily,
        "trials_dropped",
        "Dropped rewards, messages and actions, and default actions, of ended trials.",
        "what",
        lambda of: of.dropped,
    ),
    (
        GaugeMetricFamily,
        "trials_log_waiting",
        "Samples that wait for data logs.",
        "",
        lambda of: of.log_waiting,
    ),
    (
        GaugeMetricFamily,
        "trials_log_waiting_bytes",
        "Bytes of these samples.",
        "",
        lambda of: of.log_waiting_bytes,
    ),
    (
        CounterMetricFamily,
        "trials_log_lost",
        "Samples that data logs did not get.",
        "",
        lambda of: of.log_lost,
    ),
)
"""Type, name, text and label ("" if there is one value) of each family, and its value or values."""


class Metrics(StatsCollector[OrchestratorStats]):
    """Calls `stats()` of a `Server` or an `OrchestratorHandle` whenever Prometheus scrapes.

    It does not keep the server alive; a server that is gone has no metrics. A registry takes one
    server, since metrics of two would have the same names.
    """

    def _families(self, stats: OrchestratorStats | None) -> Iterator[Metric]:
        for kind, name, text, label, value in _FAMILIES:
            found = None if stats is None else value(stats)
            if not label:
                yield kind(f"cogrs_{name}", text, found)
                continue
            family = kind(f"cogrs_{name}", text, labels=[label])
            for key, number in (found or {}).items():
                family.add_metric([escaped(key)], number)
            yield family
        yield _ticks(stats)


def _ticks(stats: OrchestratorStats | None) -> Metric:
    text = "Seconds from an observation set to the next."
    family = HistogramMetricFamily("cogrs_trials_tick_seconds", text)
    if stats is not None:
        bounds = [*map(str, TICK_BOUNDS), "+Inf"]
        counts = accumulate(stats.tick_buckets)
        family.add_metric([], list(zip(bounds, counts, strict=True)), stats.tick_seconds)
    return family
