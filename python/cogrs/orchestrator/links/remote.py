"""Components that are reached by gRPC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Self, TypeVar

import grpc
import grpc.aio

from cogrs.api.agent_pb2_grpc import AgentEndpointStub
from cogrs.api.datalog_pb2_grpc import LogExporterStub
from cogrs.api.environment_pb2_grpc import EnvironmentEndpointStub
from cogrs.api.hooks_pb2_grpc import TrialHooksStub

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Awaitable

    from cogrs.api.agent_pb2 import (
        AgentActionReply,
        AgentEndReply,
        AgentEndRequest,
        AgentMessageReply,
        AgentMessageRequest,
        AgentObservationRequest,
        AgentRewardReply,
        AgentRewardRequest,
        AgentStartReply,
        AgentStartRequest,
    )
    from cogrs.api.datalog_pb2 import LogExporterSampleReply, LogExporterSampleRequest
    from cogrs.api.environment_pb2 import (
        EnvActionReply,
        EnvActionRequest,
        EnvMessageReply,
        EnvMessageRequest,
        EnvStartReply,
        EnvStartRequest,
    )
    from cogrs.api.hooks_pb2 import PreTrialContext

T = TypeVar("T")


class RemoteError(Exception):
    """A call that failed: the name of its status, and what came with it."""

    def __init__(self, error: grpc.aio.AioRpcError) -> None:
        """Tell status and details."""
        self.status = error.code().name
        self.details = error.details() or ""
        super().__init__(f"{self.status}: {self.details}" if self.details else self.status)


async def _answer(call: Awaitable[T]) -> T:
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        raise RemoteError(error) from error


class _Answers(Generic[T]):
    """What comes on a stream. One generator less than a generator would make it."""

    def __init__(self, call: AsyncIterable[T]) -> None:
        self._answers = aiter(call)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        try:
            return await anext(self._answers)
        except grpc.aio.AioRpcError as error:
            raise RemoteError(error) from error


def _metadata(trial_id: str, actor_name: str | None = None) -> tuple[tuple[str, str], ...]:
    trial = ("trial-id", trial_id)
    return (trial,) if actor_name is None else (trial, ("actor-name", actor_name))


class RemoteEnvironment:
    """An `EnvironmentComponent` on a channel."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        """Call through this channel."""
        self._stub = EnvironmentEndpointStub(channel)

    async def on_start(self, trial_id: str, request: EnvStartRequest) -> EnvStartReply:
        """Call OnStart."""
        return await _answer(self._stub.OnStart(request, metadata=_metadata(trial_id)))

    def on_action(
        self, trial_id: str, requests: AsyncIterator[EnvActionRequest]
    ) -> AsyncIterator[EnvActionReply]:
        """Open the stream of OnAction."""
        return _Answers(self._stub.OnAction(requests, metadata=_metadata(trial_id)))

    async def on_message(self, trial_id: str, request: EnvMessageRequest) -> EnvMessageReply:
        """Call OnMessage."""
        return await _answer(self._stub.OnMessage(request, metadata=_metadata(trial_id)))

    async def on_end(self, trial_id: str, request: EnvActionRequest) -> EnvActionReply:
        """Call OnEnd."""
        return await _answer(self._stub.OnEnd(request, metadata=_metadata(trial_id)))


class RemoteAgent:
    """An `AgentComponent` on a channel."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        """Call through this channel."""
        self._stub = AgentEndpointStub(channel)

    async def on_start(
        self, trial_id: str, actor_name: str, request: AgentStartRequest
    ) -> AgentStartReply:
        """Call OnStart."""
        return await _answer(self._stub.OnStart(request, metadata=_metadata(trial_id, actor_name)))

    def on_observation(
        self, trial_id: str, actor_name: str, requests: AsyncIterator[AgentObservationRequest]
    ) -> AsyncIterator[AgentActionReply]:
        """Open the stream of OnObservation."""
        metadata = _metadata(trial_id, actor_name)
        return _Answers(self._stub.OnObservation(requests, metadata=metadata))

    async def on_reward(
        self, trial_id: str, actor_name: str, request: AgentRewardRequest
    ) -> AgentRewardReply:
        """Call OnReward."""
        return await _answer(self._stub.OnReward(request, metadata=_metadata(trial_id, actor_name)))

    async def on_message(
        self, trial_id: str, actor_name: str, request: AgentMessageRequest
    ) -> AgentMessageReply:
        """Call OnMessage."""
        metadata = _metadata(trial_id, actor_name)
        return await _answer(self._stub.OnMessage(request, metadata=metadata))

    async def on_end(
        self, trial_id: str, actor_name: str, request: AgentEndRequest
    ) -> AgentEndReply:
        """Call OnEnd."""
        return await _answer(self._stub.OnEnd(request, metadata=_metadata(trial_id, actor_name)))


class RemoteHook:
    """A `HookComponent` on a channel."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        """Call through this channel."""
        self._stub = TrialHooksStub(channel)

    async def on_pre_trial(self, trial_id: str, context: PreTrialContext) -> PreTrialContext:
        """Call OnPreTrial."""
        return await _answer(self._stub.OnPreTrial(context, metadata=_metadata(trial_id)))


class RemoteLog:
    """A `LogComponent` on a channel."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        """Call through this channel."""
        self._stub = LogExporterStub(channel)

    async def on_log_sample(
        self, trial_id: str, requests: AsyncIterator[LogExporterSampleRequest]
    ) -> LogExporterSampleReply:
        """Call OnLogSample."""
        return await _answer(self._stub.OnLogSample(requests, metadata=_metadata(trial_id)))
