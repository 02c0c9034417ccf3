"""An orchestrator's statistics for Prometheus. Needs prometheus-client."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING

from cogrs.escape import escaped
from cogrs.orchestrator.engine.figures import TICK_BOUNDS
from cogrs.orchestrator.metrics_server import serve_app
from cogrs.orchestrator.service.stats import OrchestratorStats
from cogrs.prometheus import StatsCollector  # first: its error says what to install

# isort: split
from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from prometheus_client.core import Metric

__all__ = ["Metrics", "serve_metrics"]


class Metrics(StatsCollector[OrchestratorStats]):
    """Calls `stats()` of a `Server` or an `OrchestratorHandle` whenever Prometheus scrapes.

    It does not keep the server alive; a server that is gone has no metrics. A registry takes one
    server, since metrics of two would have the same names.
    """

    def _families(self, stats: OrchestratorStats | None) -> Iterable[Metric]:
        return _families(stats)


def _families(stats: OrchestratorStats | None) -> Iterator[Metric]:
    yield _labelled(
        GaugeMetricFamily("cogrs_trials", "Trials that are listed, by state.", labels=["state"]),
        {} if stats is None else stats.trials,
    )
    yield _labelled(
        GaugeMetricFamily(
            "cogrs_trials_awaited",
            "Parties that trials wait for: environment, or the class of an actor.",
            labels=["party"],
        ),
        {} if stats is None else stats.awaited,
    )
    yield _single(CounterMetricFamily, "trials_started", "Trials registered.", stats, "started")
    yield _labelled(
        CounterMetricFamily(
            "cogrs_trials_ended",
            "Trials that ended, by their environment or before it was done.",
            labels=["how"],
        ),
        {} if stats is None else {"concluded": stats.concluded, "cut": stats.cut},
    )
    yield _ticks(stats)
    yield _labelled(
        CounterMetricFamily(
            "cogrs_trials_dropped",
            "What ended trials dropped or made up, by what it was.",
            labels=["what"],
        ),
        {} if stats is None else stats.dropped,
    )
    for name, text in (
        ("log_waiting", "Samples that wait for data logs."),
        ("log_waiting_bytes", "Bytes of these samples."),
    ):
        yield _single(GaugeMetricFamily, f"trials_{name}", text, stats, name)
    text = "Samples that data logs did not get."
    yield _single(CounterMetricFamily, "trials_log_lost", text, stats, "log_lost")


def _single(
    family: type[CounterMetricFamily] | type[GaugeMetricFamily],
    name: str,
    text: str,
    stats: OrchestratorStats | None,
    field: str,
) -> Metric:
    value = None if stats is None else getattr(stats, field)
    return family(f"cogrs_{name}", text, value)


def _labelled(
    family: CounterMetricFamily | GaugeMetricFamily, values: Mapping[str, float]
) -> Metric:
    for label, value in values.items():
        family.add_metric([escaped(label)], value)
    return family


def _ticks(stats: OrchestratorStats | None) -> Metric:
    text = "Seconds from an observation set to the next."
    family = HistogramMetricFamily("cogrs_trials_tick_seconds", text)
    if stats is not None:
        bounds = [*map(str, TICK_BOUNDS), "+Inf"]
        counts = accumulate(stats.tick_buckets)
        buckets = list(zip(bounds, counts, strict=True))
        family.add_metric([], buckets, stats.tick_seconds)
    return family


@contextmanager
def serve_metrics(
    metrics: Metrics,
    host: str,
    port: int,
    *,
    insecure: bool = False,
    consent: str = "insecure=True",
) -> Iterator[int]:
    """Serve metrics to Prometheus over HTTP while the block runs, without TLS and tokens.

    Args:
        metrics: The metrics, not registered yet.
        host: Address to listen at: one of the loopback, unless `insecure`.
        port: Port; 0 takes a free one.
        insecure: Allow remote peers to read the metrics.
        consent: How the caller allows that, for the error.

    Yields:
        The port.

    Raises:
        OSError: The port is taken, or the address does not exist.
        TypeError: An argument has the wrong type.
        ValueError: The port is out of range, or remote peers reach the host.
    """
    registry = CollectorRegistry()
    metrics.register(registry)
    app = make_wsgi_app(registry)
    with serve_app(app, host, port, insecure=insecure, consent=consent) as bound:
        yield bound
