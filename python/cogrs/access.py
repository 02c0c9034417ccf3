"""Which rights a call has, by the token that it shows."""

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
    """Tokens of those who have all rights, and of those who have some."""

    def __init__(
        self,
        tokens: Iterable[str],
        few: Iterable[str] = (),
        few_may: Callable[[str], bool] = lambda _method: False,
    ) -> None:
        """Take the tokens.

        Args:
            tokens: Whoever shows one of these may call everything; empty: everybody may.
            few: Whoever shows one of these may call some methods.
            few_may: Which ones, by `/service/method`.
        """
        self._all, self._few = TokenSet(tokens), TokenSet(few)
        self._few_may = few_may

    def has_all(self, metadata: Metadata) -> bool:
        """Return whether a call has all rights."""
        return not self._all or self._all.shown_in(metadata)

    def find_fault(self, method: str, metadata: Metadata) -> tuple[grpc.StatusCode, str] | None:
        """Return why a call is refused, or None. Health is told to everybody."""
        known, few = self.has_all(metadata), self._few.shown_in(metadata)
        if known or method.startswith(_HEALTH) or (few and self._few_may(method)):
            return None
        if few:
            what = (
                f"{method!r} is for controllers: expected one of tokens, got one of client_tokens"
            )
            return grpc.StatusCode.PERMISSION_DENIED, f"authorization: {what}"
        what = "expected 'authorization: Bearer TOKEN' with a token that is known here"
        return grpc.StatusCode.UNAUTHENTICATED, f"metadata: {what}"

    def interceptors(self) -> list[grpc.aio.ServerInterceptor]:
        """Return what a server needs to ask for tokens."""
        return [_TokenInterceptor(self)] if self._all else []


class _TokenInterceptor(grpc.aio.ServerInterceptor):
    """Lets calls through that have the right to what they ask for."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        """Refuse a call, or let it go on."""
        method, metadata = handler_call_details.method, handler_call_details.invocation_metadata
        fault = self._access.find_fault(method, metadata)
        return await continuation(handler_call_details) if fault is None else _refusal(*fault)


def _refusal(code: grpc.StatusCode, text: str) -> Handler:
    async def refuse(_requests: Any, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        await context.abort(code, text)

    # Of all kinds of calls this one is answered before the client sends anything.
    return grpc.stream_stream_rpc_method_handler(refuse)
