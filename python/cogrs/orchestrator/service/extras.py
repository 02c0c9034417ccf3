"""Health and reflection: services that are there when their packages are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from cogrs.api.common_pb2 import DESCRIPTOR
from cogrs.limits import MOST_HEALTH_WATCHERS, MOST_NAME_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grpc_health.v1.health import aio as health_aio


class Health:
    """Tells whether a server serves, if `grpcio-health-checking` is installed."""

    def __init__(self) -> None:
        """Tell nothing yet."""
        self._servicers: list[health_aio.HealthServicer] = []

    async def add(self, server: grpc.aio.Server, services: Sequence[str]) -> None:
        """Tell that these services of a server, and the server itself, serve."""
        try:
            from grpc_health.v1 import health_pb2, health_pb2_grpc
        except ImportError:
            return
        servicer = _make_servicer()
        health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
        for service in ("", *services):
            await servicer.set(service, health_pb2.HealthCheckResponse.SERVING)
        self._servicers.append(servicer)

    async def stop(self) -> None:
        """Tell that nothing is served any more."""
        for servicer in self._servicers:
            await servicer.enter_graceful_shutdown()


def _make_servicer() -> health_aio.HealthServicer:
    from grpc_health.v1.health import aio

    class Bounded(aio.HealthServicer):
        """Lets so many watch at a time."""

        def __init__(self) -> None:
            super().__init__()
            self._watching = 0

        async def Watch(self, request: Any, context: Any) -> None:  # noqa: N802
            fault = ""
            if len(request.service) > MOST_NAME_BYTES:
                code = grpc.StatusCode.INVALID_ARGUMENT
                fault = f"service: expected at most {MOST_NAME_BYTES} bytes, got more"
            elif self._watching >= MOST_HEALTH_WATCHERS:
                code = grpc.StatusCode.RESOURCE_EXHAUSTED
                fault = f"{self._watching} calls watch, of at most {MOST_HEALTH_WATCHERS}"
            if fault:
                await context.abort(code, fault)
            self._watching += 1
            try:
                await super().Watch(request, context)
            finally:
                self._watching -= 1

    return Bounded()


def add_reflection(server: grpc.aio.Server, services: Sequence[str]) -> None:
    """Describe services to tools, if `grpcio-reflection` is installed."""
    try:
        from grpc_reflection.v1alpha import reflection
    except ImportError:
        return
    # What `cogrs.api` describes is in a pool of its own.
    names = (*services, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server, pool=DESCRIPTOR.pool)
