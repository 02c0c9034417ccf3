"""Figures of something that runs, for Prometheus.

Needs prometheus-client, which no other part of the package does.
"""

from __future__ import annotations

import weakref
from abc import abstractmethod
from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeVar

try:
    from prometheus_client import REGISTRY
    from prometheus_client.registry import Collector
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "prometheus_client":
        raise
    raise ImportError(
        "cogrs.replay.metrics and cogrs.orchestrator.metrics: each needs prometheus-client, which "
        "is not installed: pip install 'cogrs[metrics]'",
        name="prometheus_client",
    ) from error

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

Stats = TypeVar("Stats")
StatsOut = TypeVar("StatsOut", covariant=True)


class Source(Protocol[StatsOut]):
    """What has figures."""

    def stats(self) -> StatsOut:
        """Return the present ones; any thread may ask."""


class StatsCollector(Collector, Generic[Stats]):
    """Takes `stats()` of a server whenever Prometheus asks.

    The server is not kept alive by this, and once it is gone there are no more metrics of it. One
    registry has room for one server of a kind: their metrics have the same names.
    """

    def __init__(self, server: Source[Stats]) -> None:
        """Measure a server."""
        self._server = weakref.ref(server)
        self._registry: CollectorRegistry | None = None

    @abstractmethod
    def _families(self, stats: Stats | None) -> Iterable[Metric]:
        """Make metrics of figures; without figures they are empty."""

    def register(self, registry: CollectorRegistry | None = None) -> Self:
        """Add these metrics to a registry, by default to the one of prometheus-client.

        Raises:
            ValueError: Metrics of these names are in it already.
        """
        registry = REGISTRY if registry is None else registry
        registry.register(self)
        self._registry = registry
        return self

    def unregister(self) -> None:
        """Take the metrics out of the registry. Again, or before `register`: nothing."""
        registry, self._registry = self._registry, None
        if registry is not None:
            registry.unregister(self)

    def describe(self) -> Iterable[Metric]:
        """Name the metrics, by which a registry sees that it has them already."""
        return self._families(None)

    def collect(self) -> Iterable[Metric]:
        """Take the figures."""
        server = self._server()
        return () if server is None else self._families(server.stats())
