"""Requests that are no messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Handler = grpc.RpcMethodHandler[Any, Any]
    Context = grpc.aio.ServicerContext[Any, Any]


class _Garbage(NamedTuple):
    """Stands for a request that could not be decoded."""

    reason: str


class DecodingInterceptor(grpc.aio.ServerInterceptor):
    """Refuses what cannot be decoded as a bad argument: gRPC takes it for an error of ours.

    Streams of requests are left alone; who reads them sees the error.
    """

    def __init__(self) -> None:
        """Know no method yet."""
        self._handlers: dict[str, Handler] = {}

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        """Return what handles a method."""
        method = handler_call_details.method
        if method not in self._handlers:
            handler = await continuation(handler_call_details)
            if handler is None:  # callers make up names: those are not kept
                return None
            self._handlers[method] = _guarded(handler)
        return self._handlers[method]


def _guarded(handler: Any) -> Handler:
    if handler.request_streaming or handler.request_deserializer is None:
        return handler  # type: ignore[no-any-return]

    def decode(content: bytes) -> Any:
        try:
            return handler.request_deserializer(content)
        except DecodeError as error:
            return _Garbage(str(error))

    answer = handler.unary_stream if handler.response_streaming else handler.unary_unary

    async def answer_or_refuse(request: Any, context: Context) -> Any:
        if isinstance(request, _Garbage):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"request: {request.reason}")
        return await answer(request, context)

    make: Any = (
        grpc.unary_stream_rpc_method_handler
        if handler.response_streaming
        else grpc.unary_unary_rpc_method_handler
    )
    guarded: Handler = make(answer_or_refuse, decode, handler.response_serializer)
    return guarded
