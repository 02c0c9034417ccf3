"""Components that are reached by gRPC."""

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
from cogrs.orchestrator.links.entrance import LOG_TAKEN, TAKEN
from cogrs.orchestrator.message_decoding import SMALL, TooManyFieldsError, decode

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
    from cogrs.orchestrator.links.channels import Metadata, Route
    from cogrs.orchestrator.links.entrance import Entrance

T = TypeVar("T")


class RemoteError(Exception):
    """A call that failed: the name of its status, and what came with it."""

    def __init__(self, error: grpc.aio.AioRpcError) -> None:
        """Tell status and details."""
        self.status = error.code().name
        self.details = escaped(error.details() or "")
        if "execute_batch" in (error.debug_error_string() or ""):
            # What gRPC for asyncio says when the other side ends a stream that is written to.
            self.details = "the stream ended, for a reason that was lost"
        super().__init__(f"{self.status}: {self.details}" if self.details else self.status)


class UndecodableError(ValueError):
    """A component answered no message of the type that its call has, or a flood of fields."""


class _Fault(NamedTuple):
    """Stands for an answer that was not decoded."""

    why: str


def _decoded(answer: T | _Fault) -> T:
    if isinstance(answer, _Fault):
        raise UndecodableError(answer.why)
    return answer


def _bounded(channel: grpc.aio.Channel) -> grpc.aio.Channel:
    """Return what stubs take for a channel, and make calls by whose answers are bounded.

    What a decoder raises, gRPC for asyncio only logs: so faults are returned.
    """
    kinds = ("unary_unary", "unary_stream", "stream_unary", "stream_stream")
    calls = {kind: partial(_bound, getattr(channel, kind)) for kind in kinds}
    return cast("grpc.aio.Channel", SimpleNamespace(**calls))


def _bound(make: Callable[..., T], path: str, **given: Any) -> T:
    # The class method `FromString`, as generated code has it.
    kind = getattr(given["response_deserializer"], "__self__", None)
    if kind is not None:
        given["response_deserializer"] = _decoder(kind)
    return make(path, **given)


def _decoder(kind: type[Any]) -> Callable[[bytes], Any]:
    plainly = kind.FromString

    # Once for each message of a tick: no call more than is needed.
    def decode_or_tell(content: bytes) -> Any:
        try:
            return plainly(content) if len(content) <= SMALL else decode(kind, content)
        except TooManyFieldsError as error:
            return _Fault(f"its answer has too much in it: {error}")
        except DecodeError:
            return _Fault("its answer cannot be decoded")

    return decode_or_tell


def is_too_large(error: BaseException | None) -> bool:
    """Return whether a call failed since more was sent than its receiver takes."""
    return isinstance(error, RemoteError) and error.status == "RESOURCE_EXHAUSTED"


class _Calls:
    """Makes calls to one endpoint."""

    def __init__(self, route: Route) -> None:
        self._entrance = route.entrance
        self._shown = route.metadata

    def metadata(self, trial_id: str, actor_name: str | None = None) -> Metadata:
        """Return the metadata of a call."""
        trial = (*self._shown, ("trial-id", trial_id))
        return trial if actor_name is None else (*trial, ("actor-name", actor_name))

    async def answer(self, call: Callable[[], Awaitable[T]], taken: float = TAKEN) -> T:
        """Make a call with one answer."""
        place = await self._entrance.enter(taken)
        try:
            return _decoded(await call())
        except grpc.aio.AioRpcError as error:
            raise RemoteError(error) from error
        finally:
            place.leave()

    def answers(self, call: Callable[[], AsyncIterable[T]]) -> AsyncIterator[T]:
        """Make a call with a stream of answers, when the first one is asked for."""
        return _Answers(self._entrance, call)


class _Answers(Generic[T]):
    """What comes on a stream. One generator less than a generator would make it."""

    def __init__(self, entrance: Entrance, call: Callable[[], AsyncIterable[T]]) -> None:
        self._entrance = entrance
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
        place = await self._entrance.enter()
        try:
            self._answers = aiter(self._call())
            return _decoded(await anext(self._answers))
        finally:
            place.leave()


class RemoteEnvironment:
    """An `EnvironmentComponent` by gRPC."""

    def __init__(self, route: Route) -> None:
        """Call by this route."""
        self._calls = _Calls(route)
        self._stub = EnvironmentEndpointStub(_bounded(route.channel))

    async def on_start(self, trial_id: str, request: EnvStartRequest) -> EnvStartReply:
        """Call OnStart."""
        return await self._calls.answer(
            partial(self._stub.OnStart, request, metadata=self._calls.metadata(trial_id))
        )

    def on_action(
        self, trial_id: str, requests: AsyncIterator[EnvActionRequest]
    ) -> AsyncIterator[EnvActionReply]:
        """Open the stream of OnAction."""
        return self._calls.answers(
            partial(self._stub.OnAction, requests, metadata=self._calls.metadata(trial_id))
        )

    async def on_message(self, trial_id: str, request: EnvMessageRequest) -> EnvMessageReply:
        """Call OnMessage."""
        return await self._calls.answer(
            partial(self._stub.OnMessage, request, metadata=self._calls.metadata(trial_id))
        )

    async def on_end(self, trial_id: str, request: EnvActionRequest) -> EnvActionReply:
        """Call OnEnd."""
        return await self._calls.answer(
            partial(self._stub.OnEnd, request, metadata=self._calls.metadata(trial_id))
        )


class RemoteAgent:
    """An `AgentComponent` by gRPC."""

    def __init__(self, route: Route) -> None:
        """Call by this route."""
        self._calls = _Calls(route)
        self._stub = AgentEndpointStub(_bounded(route.channel))

    async def on_start(
        self, trial_id: str, actor_name: str, request: AgentStartRequest
    ) -> AgentStartReply:
        """Call OnStart."""
        return await self._calls.answer(
            partial(
                self._stub.OnStart, request, metadata=self._calls.metadata(trial_id, actor_name)
            )
        )

    def on_observation(
        self, trial_id: str, actor_name: str, requests: AsyncIterator[AgentObservationRequest]
    ) -> AsyncIterator[AgentActionReply]:
        """Open the stream of OnObservation."""
        metadata = self._calls.metadata(trial_id, actor_name)
        return self._calls.answers(partial(self._stub.OnObservation, requests, metadata=metadata))

    async def on_reward(
        self, trial_id: str, actor_name: str, request: AgentRewardRequest
    ) -> AgentRewardReply:
        """Call OnReward."""
        return await self._calls.answer(
            partial(
                self._stub.OnReward, request, metadata=self._calls.metadata(trial_id, actor_name)
            )
        )

    async def on_message(
        self, trial_id: str, actor_name: str, request: AgentMessageRequest
    ) -> AgentMessageReply:
        """Call OnMessage."""
        metadata = self._calls.metadata(trial_id, actor_name)
        return await self._calls.answer(partial(self._stub.OnMessage, request, metadata=metadata))

    async def on_end(
        self, trial_id: str, actor_name: str, request: AgentEndRequest
    ) -> AgentEndReply:
        """Call OnEnd."""
        return await self._calls.answer(
            partial(self._stub.OnEnd, request, metadata=self._calls.metadata(trial_id, actor_name))
        )


class RemoteHook:
    """A `HookComponent` by gRPC."""

    def __init__(self, route: Route) -> None:
        """Call by this route."""
        self._calls = _Calls(route)
        self._stub = TrialHooksStub(_bounded(route.channel))

    async def on_pre_trial(self, trial_id: str, context: PreTrialContext) -> PreTrialContext:
        """Call OnPreTrial."""
        return await self._calls.answer(
            partial(self._stub.OnPreTrial, context, metadata=self._calls.metadata(trial_id))
        )


class RemoteLog:
    """A `LogComponent` by gRPC."""

    def __init__(self, route: Route) -> None:
        """Call by this route."""
        self._calls = _Calls(route)
        self._stub = LogExporterStub(_bounded(route.channel))

    async def on_log_sample(
        self, trial_id: str, requests: AsyncIterator[LogExporterSampleRequest]
    ) -> LogExporterSampleReply:
        """Call OnLogSample."""
        call = partial(self._stub.OnLogSample, requests, metadata=self._calls.metadata(trial_id))
        return await self._calls.answer(call, LOG_TAKEN)
