"""An interceptor that receives, bounds and decodes requests before a service sees them."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from cogrs.limits import LARGE, RECEIVE_TIMEOUT
from cogrs.orchestrator.message_decoding import TooManyFieldsError, decode_in_slices
from cogrs.orchestrator.service.throttle import PeerLimit, PeerThrottle

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from cogrs.orchestrator.service.throttle import Throttle

    Handler = grpc.RpcMethodHandler[Any, Any]
    Context = grpc.aio.ServicerContext[Any, Any]


class DecodingInterceptor(grpc.aio.ServerInterceptor):
    """Receives single requests itself, since gRPC only bounds the size of a message.

    Requests that cannot be decoded are refused as invalid arguments; gRPC would report an internal
    error. Requests of streams are decoded when they are read, and the reader sees the error.
    """

    def __init__(self, throttle: Throttle) -> None:
        """Create an interceptor that decodes large requests in turns."""
        self._handlers: dict[str, Handler] = {}
        self._limit = PeerLimit()
        self._throttle = throttle
        self._streams = PeerThrottle()

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        """Return the handler of a method."""
        method = handler_call_details.method
        if method not in self._handlers:
            handler = await continuation(handler_call_details)
            if handler is None:  # callers may make up names, which are not kept
                return None
            self._handlers[method] = self._guarded(handler)
        return self._handlers[method]

    def _guarded(self, handler: Any) -> Handler:
        # The class method `FromString`, as generated code has it.
        kind = getattr(handler.request_deserializer, "__self__", None)
        if kind is None:
            return handler  # type: ignore[no-any-return]
        if handler.request_streaming:
            return self._guarded_stream(kind, handler)
        answer = handler.unary_stream if handler.response_streaming else handler.unary_unary

        # For gRPC it is a stream of requests, so that it is read only when there is room.
        async def receive_and_answer(_requests: Any, context: Context) -> Any:
            # No variable holds the request, since the frames of an aborted call stay for long.
            return await answer(await self._take(kind, context), context)

        make: Any = (
            grpc.stream_stream_rpc_method_handler
            if handler.response_streaming
            else grpc.stream_unary_rpc_method_handler
        )
        guarded: Handler = make(receive_and_answer, None, handler.response_serializer)
        return guarded

    def _guarded_stream(self, kind: type[Any], handler: Any) -> Handler:
        answer = handler.stream_stream

        async def write_answers(requests: Any, context: Context) -> None:
            await answer(_Requests(kind, requests, context.peer(), self._streams), context)

        async def yield_answers(requests: Any, context: Context) -> Any:
            decoded = _Requests(kind, requests, context.peer(), self._streams)
            async for reply in answer(decoded, context):
                yield reply

        # Services have methods of both kinds, which gRPC distinguishes.
        wrapper: Any = yield_answers if inspect.isasyncgenfunction(answer) else write_answers
        guarded: Handler = handler._replace(request_deserializer=None, stream_stream=wrapper)
        return guarded

    async def _take(self, kind: type[Any], context: Context) -> Any:
        code = grpc.StatusCode.INVALID_ARGUMENT
        try:
            async with self._limit.place(context.peer()):
                return await self._receive(kind, context)
        except TimeoutError:
            code = grpc.StatusCode.DEADLINE_EXCEEDED
            fault = f"expected a message within {RECEIVE_TIMEOUT:g} s, got none"
        except (DecodeError, TooManyFieldsError) as error:
            fault = str(error)
        await context.abort(code, f"request: {fault}")
        return None

    async def _receive(self, kind: type[Any], context: Context) -> Any:
        async with asyncio.timeout(RECEIVE_TIMEOUT):
            # The iterator of requests would keep the last one.
            content = await context.read()
        if content is grpc.aio.EOF:
            raise DecodeError("expected a message, got none")
        async with self._throttle.turn(large=len(content) > LARGE, size=len(content)):
            return await decode_in_slices(kind, content)


class _Requests:
    """The requests of a stream, decoded when they are read."""

    def __init__(self, kind: type[Any], requests: Any, peer: str, throttle: PeerThrottle) -> None:
        self._kind = kind
        self._requests = requests
        self._peer = peer
        self._throttle = throttle

    def __aiter__(self) -> _Requests:
        # Not before, since Python warns of an iterator of gRPC that is never read.
        self._requests = aiter(self._requests)
        return self

    async def __anext__(self) -> Any:
        content = await anext(self._requests)
        if len(content) <= LARGE:
            return self._kind.FromString(content)
        async with self._throttle.turn(self._peer, len(content)):
            return await decode_in_slices(self._kind, content)
