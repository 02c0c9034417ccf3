"""A Prometheus collector of a server's `stats()`, and its listener. Needs prometheus-client."""

from __future__ import annotations

import weakref
from abc import abstractmethod
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar

from cogrs.metrics_server import serve_app

try:
    from prometheus_client import REGISTRY, CollectorRegistry, make_wsgi_app
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
    from collections.abc import Iterable, Iterator

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


@contextmanager
def serve_metrics(
    metrics: StatsCollector[Any],
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
