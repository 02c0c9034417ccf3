"""Who may use an orchestrator, and whom it trusts."""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from cogrs.argument import check_kind
from cogrs.listener import check_listener, is_loopback
from cogrs.tls import ClientTls, ServerTls

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    Handler = grpc.RpcMethodHandler[Any, Any] | None

_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_SHORTEST = 16
_HEALTH = "/grpc.health.v1.Health/"


@dataclass(frozen=True, kw_only=True)
class Security:
    """Certificates and tokens.

    Nothing is needed where only this machine can be reached. To listen elsewhere, an orchestrator
    needs `tls`, and tokens or a `client_ca` in it; to connect elsewhere, `link_tls`. `insecure`
    does without.
    """

    tls: ServerTls | None = None
    """For its own ports."""
    link_tls: ClientTls | None = None
    """For all connections to environments, agents, hooks and data logs, on this machine too."""
    tokens: Sequence[str] = ()
    """Clients and controllers are to show one of these as `authorization: Bearer TOKEN`; empty
    asks for none. Health is told to everybody."""
    insecure: bool = False
    """Use other machines without what they should have."""

    def __post_init__(self) -> None:
        """Refuse what is no token.

        Raises:
            TypeError: Something is of another type; a string instead of several.
            ValueError: A token has other characters than headers allow, or is too short.
        """
        check_kind("tls", self.tls, ServerTls | None, "a ServerTls or None")
        check_kind("link_tls", self.link_tls, ClientTls | None, "a ClientTls or None")
        check_kind("insecure", self.insecure, bool, "True or False")
        if isinstance(self.tokens, (str, bytes)):
            raise TypeError("tokens: expected a sequence of strings, got one string")
        check_kind("tokens", self.tokens, Iterable, "a sequence of strings")
        object.__setattr__(self, "tokens", tuple(self.tokens))
        for number, token in enumerate(self.tokens):
            if not isinstance(token, str) or not _TOKEN.fullmatch(token) or len(token) < _SHORTEST:
                # What came is a secret, or was meant as one.
                raise ValueError(
                    f"tokens[{number}]: expected at least {_SHORTEST} characters of A-Z a-z 0-9 "
                    f"-._~+/, got something else"
                )

    def check_listen(self, host: str) -> None:
        """Refuse to let in anybody from anywhere.

        Raises:
            ValueError: Something is missing for this address.
        """
        missing = []
        if self.tls is None:
            missing.append("tls")
        if not self.tokens and (self.tls is None or self.tls.client_ca is None):
            missing.append("tokens or tls.client_ca")
        check_listener("host", host, missing, insecure=self.insecure)

    def find_fault(self, target: str) -> str | None:
        """Return why `host:port` is not to be connected to, or None."""
        if self.insecure or self.link_tls is not None:
            return None
        if is_loopback(target.rpartition(":")[0]):
            return None
        return "is on another machine: expected link_tls, or insecure=True; got neither"

    def interceptors(self) -> list[grpc.aio.ServerInterceptor]:
        """Return what a server needs to ask for tokens."""
        return [TokenInterceptor(self.tokens)] if self.tokens else []


class TokenInterceptor(grpc.aio.ServerInterceptor):
    """Lets calls through that show a token."""

    def __init__(self, tokens: Sequence[str]) -> None:
        """Know the tokens."""
        self._known = [f"Bearer {token}".encode() for token in tokens]
        # Of all kinds of calls this one is answered before the client sends anything.
        self._refusal: Handler = grpc.stream_stream_rpc_method_handler(_refuse)

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        """Refuse a call, or let it go on."""
        if handler_call_details.method.startswith(_HEALTH) or self._knows(handler_call_details):
            return await continuation(handler_call_details)
        return self._refusal

    def _knows(self, call: grpc.HandlerCallDetails) -> bool:
        shown = dict(call.invocation_metadata or ()).get("authorization", "")
        given = shown.encode() if isinstance(shown, str) else shown
        # All are compared, so that the time tells nothing.
        return sum(hmac.compare_digest(given, known) for known in self._known) > 0


async def _refuse(_requests: Any, context: grpc.aio.ServicerContext[Any, Any]) -> None:
    await context.abort(
        grpc.StatusCode.UNAUTHENTICATED,
        "metadata: expected 'authorization: Bearer TOKEN' with a token that is known here",
    )
