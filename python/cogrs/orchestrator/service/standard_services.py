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


_TOO_LARGE = f"service: expected at most {MOST_NAME_BYTES} bytes, got more"

_AROUND = 8
"""Bytes at most of what stands before the name in a request."""


def _is_large(request: Any) -> bool:
    """Return whether a request has too much, in fields that are not known too."""
    return int(request.ByteSize()) > MOST_NAME_BYTES + _AROUND


def _make_servicer() -> health_aio.HealthServicer:
    from grpc_health.v1.health import aio

    class Bounded(aio.HealthServicer):
        """Lets so many watch at a time, and keeps no request but small ones.

        Nobody shows a token here, and the frames of a call that is aborted stay for long.
        """

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
                fault = f"{self._watching} calls watch, of at most {MOST_HEALTH_WATCHERS}"
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, fault)
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
