"""The standard gRPC services, health and reflection, if their packages are installed."""

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
    """The health service of all ports, if `grpcio-health-checking` is installed."""

    def __init__(self) -> None:
        """Create the services of no port."""
        self._servicers: list[health_aio.HealthServicer] = []

    async def add(self, server: grpc.aio.Server, services: Sequence[str]) -> None:
        """Report that a server and its services are serving."""
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
        """Report that nothing is serving any more."""
        for servicer in self._servicers:
            await servicer.enter_graceful_shutdown()


_TOO_LARGE = f"service: expected at most {MOST_NAME_BYTES} bytes, got more"

_AROUND = 8
"""Maximum bytes before the name in a request."""


def _is_large(request: Any) -> bool:
    """Return whether a request is too large, unknown fields included."""
    return int(request.ByteSize()) > MOST_NAME_BYTES + _AROUND


def _make_servicer() -> health_aio.HealthServicer:
    from grpc_health.v1.health import aio

    class Bounded(aio.HealthServicer):
        """Bounds watchers and requests, since calls need no token and aborted frames stay."""

        def __init__(self) -> None:
            super().__init__()
            self._watching = 0

        async def Check(self, request: Any, context: Any) -> Any:  # noqa: N802
            if _is_large(request):
                del request
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, _TOO_LARGE)
            return await super().Check(request, context)

        async def Watch(self, request: Any, context: Any) -> None:  # noqa: N802
            if _is_large(request):
                del request
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, _TOO_LARGE)
            if self._watching >= MOST_HEALTH_WATCHERS:
                fault = f"expected at most {MOST_HEALTH_WATCHERS} calls of Watch, got one more"
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, fault)
            self._watching += 1
            try:
                await super().Watch(request, context)
            finally:
                self._watching -= 1

    return Bounded()


def add_reflection(server: grpc.aio.Server, services: Sequence[str]) -> None:
    """Add the reflection service, if `grpcio-reflection` is installed."""
    try:
        from grpc_reflection.v1alpha import reflection
    except ImportError:
        return
    # `cogrs.api` has a descriptor pool of its own.
    names = (*services, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server, pool=DESCRIPTOR.pool)
