"""Components that are reached by gRPC: the methods of `component`, as calls of stubs."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self, TypeVar, cast

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from cogrs.api.agent_pb2_grpc import AgentEndpointStub
from cogrs.api.datalog_pb2_grpc import LogExporterStub
from cogrs.api.environment_pb2_grpc import EnvironmentEndpointStub
from cogrs.api.hooks_pb2_grpc import TrialHooksStub
from cogrs.escape import escaped
from cogrs.orchestrator.fields import SMALL, FloodError, decode
from cogrs.orchestrator.links.concurrency_limiter import ANSWER_SECONDS, LOG_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable

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
    from cogrs.orchestrator.links.channel_pool import Metadata, PooledChannel
    from cogrs.orchestrator.links.concurrency_limiter import ConcurrencyLimiter

T = TypeVar("T")


class RemoteError(Exception):
    """A call that failed: the name of its status, and its details."""

    def __init__(self, error: grpc.aio.AioRpcError) -> None:
        """Create the error of a failed call."""
        self.status = error.code().name
        self.details = escaped(error.details() or "")
        if "execute_batch" in (error.debug_error_string() or ""):
            # What gRPC for asyncio says when the other side ends a stream that is written to.
            self.details = "the stream ended, for a reason that was lost"
        super().__init__(f"{self.status}: {self.details}" if self.details else self.status)


class UndecodableError(ValueError):
    """A component's answer is not a message of the expected type, or has too many fields."""


class _Fault(NamedTuple):
    """Stands for an answer that was not decoded."""

    why: str


def _decoded(answer: T | _Fault) -> T:
    if isinstance(answer, _Fault):
        raise UndecodableError(answer.why)
    return answer


def _bounded(channel: grpc.aio.Channel) -> grpc.aio.Channel:
    """Return what stubs take for a channel, and whose answers have a bounded number of fields.

    gRPC for asyncio only logs an exception of a decoder: so faults are returned instead.
    """
    kinds = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")
    calls = {kind: partial(_bound, getattr(channel, kind)) for kind in kinds}
    return cast("grpc.aio.Channel", SimpleNamespace(**calls))


def _bound(make: Callable[..., T], path: str, **given: Any) -> T:
    # Generated code gives the class method `FromString`.
    kind = getattr(given["response_deserializer"], "__self__", None)
    if kind is not None:
        given["response_deserializer"] = _decoder(kind)
    return make(path, **given)


def _decoder(kind: type[Any]) -> Callable[[bytes], Any]:
    parse = kind.FromString

    # Called for each message of a tick, so it makes no call more than is needed.
    def decode_or_tell(content: bytes) -> Any:
        try:
            return parse(content) if len(content) <= SMALL else decode(kind, content)
        except FloodError as error:
            return _Fault(f"its answer has too much in it: {error}")
        except DecodeError:
            return _Fault("its answer cannot be decoded")

    return decode_or_tell


def is_too_large(error: BaseException | None) -> bool:
    """Return whether a call failed because its receiver does not take so large a message."""
    return isinstance(error, RemoteError) and error.status == "RESOURCE_EXHAUSTED"


class _Remote:
    """Makes calls to one endpoint; `whom` is the trial's id and, for agents, the actor's name."""

    def __init__(self, pooled: PooledChannel, stub: Callable[[grpc.aio.Channel], Any]) -> None:
        """Call on this channel."""
        self._limiter = pooled.limiter
        self._shown = pooled.metadata
        self._stub = stub(_bounded(pooled.channel))

    def _metadata(self, whom: tuple[str, ...]) -> Metadata:
        return (*self._shown, *zip(("trial-id", "actor-name"), whom, strict=False))

    async def _answer(
        self,
        method: Callable[..., Awaitable[T]],
        request: object,
        *whom: str,
        seconds: float = ANSWER_SECONDS,
    ) -> T:
        """Make a call with one answer."""
        permit = await self._limiter.acquire(seconds)
        try:
            return _decoded(await method(request, metadata=self._metadata(whom)))
        except grpc.aio.AioRpcError as error:
            raise RemoteError(error) from error
        finally:
            permit.release()

    def _answers(
        self, method: Callable[..., AsyncIterable[T]], requests: object, *whom: str
    ) -> AsyncIterator[T]:
        """Make a call with a stream of answers, when the first one is asked for."""
        call = partial(method, requests, metadata=self._metadata(whom))
        return _Answers(self._limiter, call)


class _Answers(Generic[T]):
    """The answers of a stream. A generator would be one generator more for each answer."""

    def __init__(self, limiter: ConcurrencyLimiter, call: Callable[[], AsyncIterable[T]]) -> None:
        self._limiter = limiter
        self._call = call
        self._answers: AsyncIterator[T] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        try:
            if self._answers is None:
                return await self._first()
            return _decoded(await anext(self._answers))
        except grpc.aio.AioRpcError as error:
            raise RemoteError(error) from error

    async def _first(self) -> T:
        permit = await self._limiter.acquire()
        try:
            self._answers = aiter(self._call())
            return _decoded(await anext(self._answers))
        finally:
            permit.release()


class RemoteEnvironment(_Remote):
    """An `EnvironmentComponent` by gRPC."""

    def __init__(self, pooled: PooledChannel) -> None:
        """Call on this channel."""
        super().__init__(pooled, EnvironmentEndpointStub)

    async def on_start(self, trial_id: str, request: EnvStartRequest) -> EnvStartReply:
        """Call OnStart."""
        return await self._answer(self._stub.OnStart, request, trial_id)

    def on_action(
        self, trial_id: str, requests: AsyncIterator[EnvActionRequest]
    ) -> AsyncIterator[EnvActionReply]:
        """Open the stream of OnAction."""
        return self._answers(self._stub.OnAction, requests, trial_id)

    async def on_message(self, trial_id: str, request: EnvMessageRequest) -> EnvMessageReply:
        """Call OnMessage."""
        return await self._answer(self._stub.OnMessage, request, trial_id)

    async def on_end(self, trial_id: str, request: EnvActionRequest) -> EnvActionReply:
        """Call OnEnd."""
        return await self._answer(self._stub.OnEnd, request, trial_id)


class RemoteAgent(_Remote):
    """An `AgentComponent` by gRPC."""

    def __init__(self, pooled: PooledChannel) -> None:
        """Call on this channel."""
        super().__init__(pooled, AgentEndpointStub)

    async def on_start(
        self, trial_id: str, actor_name: str, request: AgentStartRequest
    ) -> AgentStartReply:
        """Call OnStart."""
        return await self._answer(self._stub.OnStart, request, trial_id, actor_name)

    def on_observation(
        self, trial_id: str, actor_name: str, requests: AsyncIterator[AgentObservationRequest]
    ) -> AsyncIterator[AgentActionReply]:
        """Open the stream of OnObservation."""
        return self._answers(self._stub.OnObservation, requests, trial_id, actor_name)

    async def on_reward(
        self, trial_id: str, actor_name: str, request: AgentRewardRequest
    ) -> AgentRewardReply:
        """Call OnReward."""
        return await self._answer(self._stub.OnReward, request, trial_id, actor_name)

    async def on_message(
        self, trial_id: str, actor_name: str, request: AgentMessageRequest
    ) -> AgentMessageReply:
        """Call OnMessage."""
        return await self._answer(self._stub.OnMessage, request, trial_id, actor_name)

    async def on_end(
        self, trial_id: str, actor_name: str, request: AgentEndRequest
    ) -> AgentEndReply:
        """Call OnEnd."""
        return await self._answer(self._stub.OnEnd, request, trial_id, actor_name)


class RemoteHook(_Remote):
    """A `HookComponent` by gRPC."""

    def __init__(self, pooled: PooledChannel) -> None:
        """Call on this channel."""
        super().__init__(pooled, TrialHooksStub)

    async def on_pre_trial(self, trial_id: str, context: PreTrialContext) -> PreTrialContext:
        """Call OnPreTrial."""
        return await self._answer(self._stub.OnPreTrial, context, trial_id)


class RemoteLog(_Remote):
    """A `LogComponent` by gRPC."""

    def __init__(self, pooled: PooledChannel) -> None:
        """Call on this channel."""
        super().__init__(pooled, LogExporterStub)

    async def on_log_sample(
        self, trial_id: str, requests: AsyncIterator[LogExporterSampleRequest]
    ) -> LogExporterSampleReply:
        """Call OnLogSample."""
        method = self._stub.OnLogSample
        return await self._answer(method, requests, trial_id, seconds=LOG_SECONDS)
