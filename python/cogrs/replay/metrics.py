"""A replay server's figures for Prometheus.

Needs prometheus-client, which no other part of the package does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cogrs.prometheus import StatsCollector, serve_metrics  # its error says what to install

# isort: split
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client.core import Metric

    from cogrs.replay.stats import ServerStats

__all__ = ["Metrics", "serve_metrics"]


class _Figure(NamedTuple):
    """A metric of a single value; None leaves it empty."""

    name: str
    text: str
    value: Callable[[ServerStats], float | None]
    unit: str = ""


class _LimiterFigure(NamedTuple):
    """A counter of `LimiterStats`, by its name there."""

    name: str
    text: str
    attribute: str
    unit: str = ""


_COUNTERS = (
    _Figure("caches_received", "Caches that have arrived.", lambda s: s.received.caches),
    _Figure(
        "samples_received", "Samples in caches that have arrived.", lambda s: s.received.samples
    ),
    _Figure(
        "received_bytes",
        "Bytes of caches that have arrived.",
        lambda s: s.received.bytes,
        "bytes",
    ),
    _Figure("samples_given", "Samples in batches.", lambda s: s.samples_given),
    _Figure(
        "samples_discarded",
        "Samples that were replaced or dropped before they were given.",
        lambda s: s.samples_discarded,
    ),
    _Figure("episodes", "Episodes that clients have closed.", lambda s: s.total_episodes),
    _Figure("steps", "Steps of those episodes.", lambda s: s.total_steps),
    _Figure("messages_published", "Messages published.", lambda s: s.published),
    _Figure(
        "publications_dropped",
        "Published messages dropped because clients read too slowly.",
        lambda s: s.publications_dropped,
    ),
    _Figure("log_lines", "Log lines that have arrived.", lambda s: s.log_lines),
)

_GAUGES = (
    _Figure("caches", "Caches held.", lambda s: s.caches),
    _Figure("caches_limit", "Most caches that the server holds.", lambda s: s.n_caches),
    _Figure("samples_unused", "Samples held, not given yet.", lambda s: s.samples_unused),
    _Figure("weight_sum", "Sum of weights of the caches held.", lambda s: s.weight_sum),
    _Figure(
        "oldest_cache_age_seconds",
        "Age of the oldest cache that is held.",
        lambda s: s.oldest_age,
        "seconds",
    ),
    _Figure(
        "newest_cache_age_seconds",
        "Age of the newest cache that is held.",
        lambda s: s.newest_age,
        "seconds",
    ),
)

_OF_LIMITER = (
    _LimiterFigure("limiter_inserts", "Steps that the rate limiter has counted.", "inserts"),
    _LimiterFigure("limiter_samples", "Samples that it has counted.", "samples"),
    _LimiterFigure("limiter_removed", "Inserts evicted or used up; 0 of a server.", "removed"),
    _LimiterFigure(
        "limiter_sample_wait_seconds",
        "Time that batches have waited.",
        "sample_wait_seconds",
        "seconds",
    ),
    _LimiterFigure(
        "limiter_insert_wait_seconds",
        "Time that clients have waited to insert.",
        "insert_wait_seconds",
        "seconds",
    ),
)

# In the order of `Tally`.
_BY_CLIENT = (
    ("client_caches_received", "Caches that have arrived, by client.", ""),
    ("client_samples_received", "Samples in caches that have arrived, by client.", ""),
    ("client_received_bytes", "Bytes of caches that have arrived, by client.", "bytes"),
)


class Metrics(StatsCollector["ServerStats"]):
    """Takes `server.stats()` of a `ReplayMemoryServer` whenever Prometheus asks.

    The server is not kept alive by this, and once it is gone there are no more metrics of it. One
    registry has room for one server: their metrics have the same names.
    """

    def _families(self, stats: ServerStats | None) -> Iterable[Metric]:
        return _families(stats)


def _families(stats: ServerStats | None) -> Iterator[Metric]:
    """Yield the metrics; without figures they are empty."""
    for family, figures in ((CounterMetricFamily, _COUNTERS), (GaugeMetricFamily, _GAUGES)):
        for name, text, value_of, unit in figures:
            value = None if stats is None else value_of(stats)
            yield family(f"cogrs_replay_{name}", text, value, unit=unit)
    refused = CounterMetricFamily(
        "cogrs_replay_messages_refused", "Messages dropped, by reason.", labels=["reason"]
    )
    for reason, count in stats.refused.items() if stats is not None else ():
        refused.add_metric([reason], count)
    yield refused
    yield from _limiter_families(stats)
    rows = []
    if stats is not None:
        rows = [(f"{uuid:08x}", sent) for uuid, sent in stats.clients.items()]
        rows.append(("other", stats.other_clients))
    for at, (name, text, unit) in enumerate(_BY_CLIENT):
        by_client = CounterMetricFamily(f"cogrs_replay_{name}", text, labels=["client"], unit=unit)
        for client, sent in rows:
            by_client.add_metric([client], sent[at])
        yield by_client


def _limiter_families(stats: ServerStats | None) -> Iterator[Metric]:
    """Yield the metrics of the rate limiter, which are empty without one."""
    limiter = None if stats is None else stats.limiter
    for name, text, attribute, unit in _OF_LIMITER:
        value = None if limiter is None else getattr(limiter, attribute)
        yield CounterMetricFamily(f"cogrs_replay_{name}", text, value, unit=unit)
    ratio = None if limiter is None else limiter.samples_per_insert
    text = "Samples per insert that were reached."
    yield GaugeMetricFamily("cogrs_replay_limiter_samples_per_insert", text, ratio)
