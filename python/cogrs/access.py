"""The rights of a call, by its token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from cogrs.tokens import TokenSet

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    Handler = grpc.RpcMethodHandler[Any, Any] | None
    Metadata = Iterable[tuple[str, str | bytes]] | None

_HEALTH = "/grpc.health.v1.Health/"


class Access:
    """Tokens with all rights, and tokens with the right to call some methods."""

    def __init__(
        self,
        tokens: Iterable[str],
        limited: Iterable[str] = (),
        limited_may: Callable[[str], bool] = lambda _method: False,
    ) -> None:
        """Create the access rules of a server.

        Args:
            tokens: Tokens that give the right to call everything; if empty, every call has it.
            limited: Tokens that give the right to call some methods.
            limited_may: Whether such a token may call `/service/method`.
        """
        self._all, self._limited = TokenSet(tokens), TokenSet(limited)
        self._limited_may = limited_may

    def has_all(self, metadata: Metadata) -> bool:
        """Return whether a call has all rights."""
        return not self._all or self._all.shown_in(metadata)

    def find_fault(self, method: str, metadata: Metadata) -> tuple[grpc.StatusCode, str] | None:
        """Return why a call is refused, or None. Health calls need no token."""
        known, limited = self.has_all(metadata), self._limited.shown_in(metadata)
        if known or method.startswith(_HEALTH) or (limited and self._limited_may(method)):
            return None
        if limited:
            text = "is for controllers: expected one of tokens, got one of client_tokens"
            return grpc.StatusCode.PERMISSION_DENIED, f"authorization: {method!r} {text}"
        text = "metadata: expected 'authorization: Bearer TOKEN' with a token of this server"
        return grpc.StatusCode.UNAUTHENTICATED, text

    def interceptors(self) -> list[grpc.aio.ServerInterceptor]:
        """Return the interceptors of a server that checks tokens."""
        return [_TokenInterceptor(self)] if self._all else []


class _TokenInterceptor(grpc.aio.ServerInterceptor):
    """Refuses calls without the right to their method."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        """Refuse a call, or pass it on."""
        method, metadata = handler_call_details.method, handler_call_details.invocation_metadata
        fault = self._access.find_fault(method, metadata)
        return await continuation(handler_call_details) if fault is None else _refusal(*fault)


def _refusal(code: grpc.StatusCode, text: str) -> Handler:
    async def refuse(_requests: Any, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        await context.abort(code, text)

    # A handler of this kind can refuse before the client sends anything.
    return grpc.stream_stream_rpc_method_handler(refuse)
