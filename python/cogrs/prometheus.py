"""A Prometheus collector of a server's `stats()`. Needs prometheus-client."""

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
        "cogrs.replay.metrics and cogrs.orchestrator.metrics need prometheus-client, which "
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
    """A server with statistics."""

    def stats(self) -> StatsOut:
        """Return the present statistics; any thread may call this."""


class StatsCollector(Collector, Generic[Stats]):
    """Calls `stats()` of a server whenever Prometheus scrapes.

    It does not keep the server alive; a server that is gone has no metrics. A registry takes one
    server of a kind, since metrics of two would have the same names.
    """

    def __init__(self, server: Source[Stats]) -> None:
        self._server = weakref.ref(server)
        self._registry: CollectorRegistry | None = None

    @abstractmethod
    def _families(self, stats: Stats | None) -> Iterable[Metric]:
        """Return the metrics of statistics; without statistics they are empty."""

    def register(self, registry: CollectorRegistry | None = None) -> Self:
        """Add the collector to a registry, by default to that of prometheus-client.

        ValueError if the registry has metrics of these names.
        """
        registry = REGISTRY if registry is None else registry
        registry.register(self)
        self._registry = registry
        return self

    def unregister(self) -> None:
        """Remove the collector from its registry. Again, or before `register`: nothing."""
        registry, self._registry = self._registry, None
        if registry is not None:
            registry.unregister(self)

    def describe(self) -> Iterable[Metric]:
        """Return empty metrics, by whose names a registry finds duplicates."""
        return self._families(None)

    def collect(self) -> Iterable[Metric]:
        """Return the present metrics."""
        server = self._server()
        return () if server is None else self._families(server.stats())
