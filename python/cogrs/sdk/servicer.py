"""The gRPC services of what is served: they read metadata, and ask the hosts."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

from cogrs.api.agent_pb2_grpc import AgentEndpointServicer
from cogrs.api.datalog_pb2_grpc import LogExporterServicer
from cogrs.api.environment_pb2_grpc import EnvironmentEndpointServicer
from cogrs.api.hooks_pb2_grpc import TrialHooksServicer
from cogrs.sdk.call_error import answering, metadata_of, versions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from cogrs.api import agent_pb2, common_pb2, datalog_pb2, environment_pb2, hooks_pb2
    from cogrs.sdk.agent_host import AgentHost
    from cogrs.sdk.call_error import Context
    from cogrs.sdk.datalog_host import DatalogHost
    from cogrs.sdk.environment_host import EnvironmentHost
    from cogrs.sdk.hook import HookHost

_CANCELLATION = 0.2
"""Seconds in which the task of a call that was cut off is cancelled."""


class EnvironmentServicer(EnvironmentEndpointServicer):
    """The service `EnvironmentEndpoint`."""

    def __init__(self, host: EnvironmentHost, brief: bool = False) -> None:
        """Ask this host; tell callers briefly what failed where they may be anybody."""
        self._host, self._brief = host, brief

    async def OnStart(
        self, request: environment_pb2.EnvStartRequest, context: Context
    ) -> environment_pb2.EnvStartReply:
        """Start an environment for a trial."""
        async with answering(context, brief=self._brief):
            return await self._host.on_start(_trial(context), request)

    async def OnAction(  # type: ignore[override]
        self, requests: AsyncIterator[environment_pb2.EnvActionRequest], context: Context
    ) -> None:
        """Step the environment of a trial for each set of actions."""
        async with answering(context, brief=self._brief):
            replies = self._host.on_action(_trial(context), requests)
            # Closed here, and not whenever it is collected, however the call ends.
            async with aclosing(replies):
                async for reply in replies:
                    await context.write(reply)

    async def OnMessage(
        self, request: environment_pb2.EnvMessageRequest, context: Context
    ) -> environment_pb2.EnvMessageReply:
        """Give the environment of a trial what was sent to it."""
        async with answering(context, brief=self._brief):
            return await self._host.on_message(_trial(context), request)

    async def OnEnd(
        self, request: environment_pb2.EnvActionRequest, context: Context
    ) -> environment_pb2.EnvActionReply:
        """End the environment of a trial."""
        async with answering(context, brief=self._brief):
            return await self._host.on_end(_trial(context), request)

    async def Version(
        self, request: common_pb2.VersionRequest, context: Context
    ) -> common_pb2.VersionInfo:
        """Tell versions."""
        return versions()


class AgentServicer(AgentEndpointServicer):
    """The service `AgentEndpoint`."""

    def __init__(self, host: AgentHost, brief: bool = False) -> None:
        """Ask this host; tell callers briefly what failed where they may be anybody."""
        self._host, self._brief = host, brief

    async def OnStart(
        self, request: agent_pb2.AgentStartRequest, context: Context
    ) -> agent_pb2.AgentStartReply:
        """Start an agent for an actor."""
        async with answering(context, brief=self._brief):
            return await self._host.on_start(*_actor(context), request)

    async def OnObservation(  # type: ignore[override]
        self, requests: AsyncIterator[agent_pb2.AgentObservationRequest], context: Context
    ) -> None:
        """Have an agent act on each observation."""
        async with answering(context, brief=self._brief):
            replies = self._host.on_observation(*_actor(context), requests)
            async with aclosing(replies):
                async for reply in replies:
                    await context.write(reply)

    async def OnReward(
        self, request: agent_pb2.AgentRewardRequest, context: Context
    ) -> agent_pb2.AgentRewardReply:
        """Give an agent a reward."""
        async with answering(context, brief=self._brief):
            return await self._host.on_reward(*_actor(context), request)

    async def OnMessage(
        self, request: agent_pb2.AgentMessageRequest, context: Context
    ) -> agent_pb2.AgentMessageReply:
        """Give an agent what was sent to it."""
        async with answering(context, brief=self._brief):
            return await self._host.on_message(*_actor(context), request)

    async def OnEnd(
        self, request: agent_pb2.AgentEndRequest, context: Context
    ) -> agent_pb2.AgentEndReply:
        """End an agent."""
        async with answering(context, brief=self._brief):
            return await self._host.on_end(*_actor(context), request)

    async def Version(
        self, request: common_pb2.VersionRequest, context: Context
    ) -> common_pb2.VersionInfo:
        """Tell versions."""
        return versions()


class HookServicer(TrialHooksServicer):
    """The service `TrialHooks`."""

    def __init__(self, host: HookHost, brief: bool = False) -> None:
        """Ask this host; tell callers briefly what failed where they may be anybody."""
        self._host, self._brief = host, brief

    async def OnPreTrial(
        self, request: hooks_pb2.PreTrialContext, context: Context
    ) -> hooks_pb2.PreTrialContext:
        """Set the parameters of a trial."""
        async with answering(context, brief=self._brief):
            return await self._host.on_pre_trial(_trial(context), request)

    async def Version(
        self, request: common_pb2.VersionRequest, context: Context
    ) -> common_pb2.VersionInfo:
        """Tell versions."""
        return versions()


class DatalogServicer(LogExporterServicer):
    """The service `LogExporter`."""

    def __init__(self, host: DatalogHost, brief: bool = False) -> None:
        """Ask this host; tell callers briefly what failed where they may be anybody."""
        self._host, self._brief = host, brief

    async def OnLogSample(
        self,
        requests: AsyncIterator[datalog_pb2.LogExporterSampleRequest],
        context: Context,
    ) -> datalog_pb2.LogExporterSampleReply:
        """Keep what happens in a trial."""
        async with answering(context, brief=self._brief):
            return await self._host.on_log_sample(_trial(context), _whole(requests))

    async def Version(
        self, request: common_pb2.VersionRequest, context: Context
    ) -> common_pb2.VersionInfo:
        """Tell versions."""
        return versions()


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


def _trial(context: Context) -> str:
    (trial_id,) = metadata_of(context, "trial-id")
    return trial_id


def _actor(context: Context) -> tuple[str, str]:
    trial_id, name = metadata_of(context, "trial-id", "actor-name")
    return trial_id, name
