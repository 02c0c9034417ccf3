"""An orchestrator's figures for Prometheus.

Needs prometheus-client, which no other part of the package does.
"""

from __future__ import annotations

from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING

from cogrs.escape import escaped
from cogrs.orchestrator.engine.metrics import TICK_BOUNDS
from cogrs.orchestrator.metrics_server import serve_app
from cogrs.orchestrator.service.stats import OrchestratorStats
from cogrs.prometheus import Exposition  # before prometheus-client: it tells of what is missing

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


class Metrics(Exposition[OrchestratorStats]):
    """Takes `stats()` of a `Server` or an `OrchestratorHandle` whenever Prometheus asks.

    The server is not kept alive by this, and once it is gone there are no more metrics of it. One
    registry has room for one server: their metrics have the same names.
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
    """Answer Prometheus over HTTP while the block runs.

    Metrics have neither TLS nor tokens: whoever reaches the address may read them.

    Args:
        metrics: What is asked for; in no registry so far.
        host: Address to listen at: one of the loopback, unless `insecure`.
        port: Port; 0 takes one that is free.
        insecure: Let other machines read metrics.
        consent: What an error says to agree by, where that is not `insecure`.

    Yields:
        The port.

    Raises:
        OSError: The port is taken, or there is no such address.
        TypeError: An argument has the wrong type.
        ValueError: The port is out of range, or other machines reach the host.
    """
    registry = CollectorRegistry()
    metrics.register(registry)
    app = make_wsgi_app(registry)
    with serve_app(app, host, port, insecure=insecure, consent=consent) as bound:
        yield bound
