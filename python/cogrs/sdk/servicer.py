"""The gRPC services of what is served: they read metadata, call the hosts, and set statuses.

Hosts know nothing of gRPC: their methods are those that an orchestrator calls on components in its
own process. A servicer passes a call on to its host and turns a `CallError` into a status.

Replies of a stream are written, not yielded: gRPC leaves the generator of a call that is cancelled
to the garbage collector.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import grpc

from cogrs._core import __version__
from cogrs.api.agent_pb2_grpc import AgentEndpointServicer
from cogrs.api.datalog_pb2_grpc import LogExporterServicer
from cogrs.api.environment_pb2_grpc import EnvironmentEndpointServicer
from cogrs.api.hooks_pb2_grpc import TrialHooksServicer
from cogrs.api.versions import version_info
from cogrs.sdk.call_error import CallError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from cogrs.api import datalog_pb2

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

_CANCELLATION = 0.2
"""Seconds in which the task of a call that was cut off is cancelled."""

_TRIAL, _ACTOR = ("trial-id",), ("trial-id", "actor-name")
"""The metadata that tells which component a call is for."""

_logger = logging.getLogger("cogrs.sdk")


class _Servicer:
    def __init__(self, host: Any, brief: bool = False) -> None:
        """Call this host; tell callers briefly what failed where they may be anybody."""
        self._host, self._brief = host, brief

    async def Version(self, request: Any, context: Context) -> Any:
        """Return the versions of a service of this package."""
        return version_info("cogrs", __version__)


def _unary(method: str, keys: tuple[str, ...]) -> Any:
    """Return the handler of a call with one request, which a method of the host answers."""

    async def handle(self: _Servicer, request: Any, context: Context) -> Any:
        async with _answering(context, brief=self._brief):
            return await getattr(self._host, method)(*_metadata_of(context, keys), request)

    return handle


def _stream(method: str, keys: tuple[str, ...]) -> Any:
    """Return the handler of a call with a reply to each of its requests."""

    async def handle(self: _Servicer, requests: AsyncIterator[Any], context: Context) -> None:
        async with _answering(context, brief=self._brief):
            replies = getattr(self._host, method)(*_metadata_of(context, keys), requests)
            # Closed here, and not whenever it is collected, however the call ends.
            async with aclosing(replies):
                async for reply in replies:
                    await context.write(reply)

    return handle


class EnvironmentServicer(_Servicer, EnvironmentEndpointServicer):
    """The service `EnvironmentEndpoint`."""

    OnStart = _unary("on_start", _TRIAL)
    OnAction = _stream("on_action", _TRIAL)
    OnMessage = _unary("on_message", _TRIAL)
    OnEnd = _unary("on_end", _TRIAL)


class AgentServicer(_Servicer, AgentEndpointServicer):
    """The service `AgentEndpoint`."""

    OnStart = _unary("on_start", _ACTOR)
    OnObservation = _stream("on_observation", _ACTOR)
    OnReward = _unary("on_reward", _ACTOR)
    OnMessage = _unary("on_message", _ACTOR)
    OnEnd = _unary("on_end", _ACTOR)


class HookServicer(_Servicer, TrialHooksServicer):
    """The service `TrialHooks`."""

    OnPreTrial = _unary("on_pre_trial", _TRIAL)


class DatalogServicer(_Servicer, LogExporterServicer):
    """The service `LogExporter`."""

    async def OnLogSample(
        self, requests: AsyncIterator[datalog_pb2.LogExporterSampleRequest], context: Context
    ) -> Any:
        """Keep what happens in a trial."""
        async with _answering(context, brief=self._brief):
            return await self._host.on_log_sample(*_metadata_of(context, _TRIAL), _whole(requests))


async def _whole(
    requests: AsyncIterator[datalog_pb2.LogExporterSampleRequest],
) -> AsyncIterator[datalog_pb2.LogExporterSampleRequest]:
    """Yield requests; gRPC ends those of a call that is cut off as if there were no more."""
    reason = ""
    async for request in requests:
        reason = request.sample.end_reason
        yield request
    if not reason:  # cut off; or from an orchestrator that tells no reasons
        await asyncio.sleep(_CANCELLATION)


@asynccontextmanager
async def _answering(context: Context, *, brief: bool) -> AsyncIterator[None]:
    """End a call with the status of the `CallError` that is raised inside.

    `brief`: the caller may be anybody, and is not told the text, in which there can be paths.
    """
    try:
        yield
    except CallError as error:
        await context.abort(error.code, error.brief if brief else str(error))
    except grpc.aio.BaseError:
        raise
    except Exception as error:
        if not brief:
            raise  # gRPC tells its text, and logs it
        _logger.exception("a call failed")
        text = f"internal error: {type(error).__name__}; see the log there"
        await context.abort(grpc.StatusCode.UNKNOWN, text)


def _metadata_of(context: Context, keys: tuple[str, ...]) -> tuple[str, ...]:
    """Return metadata of a call; a CallError if some are missing, or not printable ASCII."""
    given = dict(context.invocation_metadata() or ())
    missing = [key for key in keys if not given.get(key)]
    if missing:
        text = f"metadata: expected {', '.join(keys)}; missing: {', '.join(missing)}"
        raise CallError(grpc.StatusCode.INVALID_ARGUMENT, text)
    values = tuple(str(given[key]) for key in keys)
    for key, value in zip(keys, values, strict=True):
        if not (value.isascii() and value.isprintable()):
            text = f"metadata: {key}: expected printable ASCII, got {value!r}"
            raise CallError(grpc.StatusCode.INVALID_ARGUMENT, text)
    return values
