"""Components that are reached by gRPC: the methods of `component`, as calls of stubs."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Self, TypeVar, cast

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from cogrs.api.agent_pb2_grpc import AgentEndpointStub
from cogrs.api.datalog_pb2_grpc import LogExporterStub
from cogrs.api.environment_pb2_grpc import EnvironmentEndpointStub
from cogrs.api.hooks_pb2_grpc import TrialHooksStub
from cogrs.escape import escaped
from cogrs.orchestrator.links.concurrency_limiter import (
    ANSWER_SECONDS,
    LOG_SECONDS,
    ConcurrencyLimiter,
)
from cogrs.orchestrator.message_decoding import SMALL, TooManyFieldsError, decode

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Sequence

    from cogrs.orchestrator.links.channel_pool import Metadata, PooledChannel

T = TypeVar("T")


class RemoteError(Exception):
    """A call that failed: the name of its status, and its details."""

    def __init__(self, error: grpc.aio.AioRpcError) -> None:
        """Create the error of a failed call."""
        self.status = error.code().name
        self.details = escaped(error.details() or "")
        if "execute_batch" in (error.debug_error_string() or ""):
            # What gRPC for asyncio says when the other side ends a stream that is written to.
            self.details = "the stream ended, and gRPC lost the reason"
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
        except TooManyFieldsError as error:
            return _Fault(f"its answer is too large: {error}")
        except DecodeError:
            return _Fault("its answer cannot be decoded")

    return decode_or_tell


def is_too_large(error: BaseException | None) -> bool:
    """Return whether a call failed because its receiver does not take so large a message."""
    return isinstance(error, RemoteError) and error.status == "RESOURCE_EXHAUSTED"


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


class _Remote:
    """Makes calls to one endpoint, by the methods of a table."""

    def __init__(self, pooled: PooledChannel) -> None:
        self._limiter = pooled.limiter
        self._shown = pooled.metadata
        self._stub = self._stub_type(_bounded(pooled.channel))

    _stub_type: ClassVar[type[Any]]

    def _metadata(self, whom: Sequence[str]) -> Metadata:
        return (*self._shown, *zip(("trial-id", "actor-name"), whom, strict=False))


def _answer(name: str, seconds: float = ANSWER_SECONDS) -> Callable[..., Coroutine[Any, Any, Any]]:
    """Return the method that makes the call of this name, which has one answer."""

    async def call(self: _Remote, *whom_and_request: Any) -> Any:
        *whom, request = whom_and_request
        permit = await self._limiter.acquire(seconds)
        try:
            method = getattr(self._stub, name)
            return _decoded(await method(request, metadata=self._metadata(whom)))
        except grpc.aio.AioRpcError as error:
            raise RemoteError(error) from error
        finally:
            permit.release()

    return call


def _answers(name: str) -> Callable[..., AsyncIterator[Any]]:
    """Return the method that opens the stream of this name, when its first answer is asked for."""

    def call(self: _Remote, *whom_and_requests: Any) -> AsyncIterator[Any]:
        *whom, requests = whom_and_requests
        method = getattr(self._stub, name)
        return _Answers(self._limiter, partial(method, requests, metadata=self._metadata(whom)))

    return call


class RemoteEnvironment(_Remote):
    """An `EnvironmentComponent` by gRPC."""

    _stub_type = EnvironmentEndpointStub
    on_start = _answer("OnStart")
    on_action = _answers("OnAction")
    on_message = _answer("OnMessage")
    on_end = _answer("OnEnd")


class RemoteAgent(_Remote):
    """An `AgentComponent` by gRPC."""

    _stub_type = AgentEndpointStub
    on_start = _answer("OnStart")
    on_observation = _answers("OnObservation")
    on_reward = _answer("OnReward")
    on_message = _answer("OnMessage")
    on_end = _answer("OnEnd")


class RemoteHook(_Remote):
    """A `HookComponent` by gRPC."""

    _stub_type = TrialHooksStub
    on_pre_trial = _answer("OnPreTrial")


class RemoteLog(_Remote):
    """A `LogComponent` by gRPC."""

    _stub_type = LogExporterStub
    on_log_sample = _answer("OnLogSample", LOG_SECONDS)
