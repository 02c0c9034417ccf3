"""Health and reflection: services that are there when their packages are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cogrs.api.common_pb2 import DESCRIPTOR

if TYPE_CHECKING:
    from collections.abc import Sequence

    import grpc.aio
    from grpc_health.v1.health import aio as health_aio


class Health:
    """Tells whether a server serves, if `grpcio-health-checking` is installed."""

    def __init__(self) -> None:
        """Tell nothing yet."""
        self._servicers: list[health_aio.HealthServicer] = []

    async def add(self, server: grpc.aio.Server, services: Sequence[str]) -> None:
        """Tell that these services of a server, and the server itself, serve."""
        try:
            from grpc_health.v1 import health, health_pb2, health_pb2_grpc
        except ImportError:
            return
        servicer = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
        for service in ("", *services):
            await servicer.set(service, health_pb2.HealthCheckResponse.SERVING)
        self._servicers.append(servicer)

    async def stop(self) -> None:
        """Tell that nothing is served any more."""
        for servicer in self._servicers:
            await servicer.enter_graceful_shutdown()


def add_reflection(server: grpc.aio.Server, services: Sequence[str]) -> None:
    """Describe services to tools, if `grpcio-reflection` is installed."""
    try:
        from grpc_reflection.v1alpha import reflection
    except ImportError:
        return
    # What `cogrs.api` describes is in a pool of its own.
    names = (*services, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server, pool=DESCRIPTOR.pool)
