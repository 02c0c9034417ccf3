"""Certificates and tokens of an orchestrator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from cogrs.access import Access
from cogrs.listen_address import check_listener, is_loopback
from cogrs.tls import ClientTls, ServerTls
from cogrs.tokens import (
    bearer,
    cannot_be_pickled,
    check_tokens,
    check_tokens_by_target,
    looks_secret,
)
from cogrs.validation import check_flag, check_kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_FOR_CLIENTS = "/cogment.ClientActor/"
_VERSION = "/cogment.TrialLifecycle/Version"
_SLOT_SECRETS = ("asked", "required")


@dataclass(frozen=True, kw_only=True, repr=False)
class Security:
    """Certificates and tokens.

    On the loopback nothing is required. To listen elsewhere, an orchestrator needs `tls`, and
    tokens or a `client_ca` in it; to connect elsewhere, `link_tls`; or `insecure`. Tokens are never
    shown, and an object with tokens cannot be pickled.
    """

    tls: ServerTls | None = None
    """Certificates of the orchestrator's ports."""
    link_tls: ClientTls | None = None
    """Certificates for connections to environments, agents, hooks and data logs, local ones too."""
    tokens: Sequence[str] = ()
    """Tokens that give all rights. A call carries one as `authorization: Bearer TOKEN`; if empty,
    every call has all rights. Health calls need no token."""
    client_tokens: Sequence[str] = ()
    """Tokens that only give the right to join trials and to play as the actor that was joined.
    Requires `tokens` too."""
    slot_secrets: Literal["asked", "required"] = "asked"
    """Whether the slot of a client is bound to a secret if the client asks for one when it joins,
    as those of `cogrs.sdk` do; or `"required"`: clients that do not ask are refused."""
    link_tokens: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Tokens sent to environments, agents, hooks and data logs, by the `host:port` of their
    endpoints, or by the host for all its ports."""
    insecure: bool = False
    """Allow remote peers without TLS and tokens."""

    def __post_init__(self) -> None:
        """Check all fields.

        Raises:
            TypeError: A field has the wrong type.
            ValueError: A token is invalid, or is in `tokens` and `client_tokens`; `client_tokens`
                without `tokens`; or `slot_secrets` has another value.
        """
        check_kind("tls", self.tls, ServerTls | None, "a ServerTls or None")
        check_kind("link_tls", self.link_tls, ClientTls | None, "a ClientTls or None")
        check_flag("insecure", self.insecure)
        for name in ("tokens", "client_tokens"):
            object.__setattr__(self, name, check_tokens(name, getattr(self, name)))
        by_target = check_tokens_by_target("link_tokens", self.link_tokens)
        object.__setattr__(self, "link_tokens", by_target)
        if self.client_tokens and not self.tokens:
            raise ValueError(
                "client_tokens: expected tokens too, for controllers: without them every call "
                "has all rights; got none"
            )
        for number, token in enumerate(self.client_tokens):
            if token in self.tokens:
                raise ValueError(
                    f"client_tokens[{number}]: expected a token that is not in tokens, which give "
                    "all rights; got one that is"
                )
        if self.slot_secrets not in _SLOT_SECRETS:
            expected = " or ".join(map(repr, _SLOT_SECRETS))
            got = self.slot_secrets
            # A secret may have been given in its place.
            told = repr(got) if isinstance(got, str) and not looks_secret(got) else "something else"
            raise ValueError(f"slot_secrets: expected {expected}, got {told}")

    def check_listen(self, host: str) -> None:
        """Refuse an address that remote peers reach, unless the orchestrator is secured.

        Raises:
            ValueError: TLS or tokens are missing for this address.
        """
        missing = []
        if self.tls is None:
            missing.append("tls")
        if not self.tokens and (self.tls is None or self.tls.client_ca is None):
            missing.append("tokens or tls.client_ca")
        check_listener("host", host, missing, insecure=self.insecure)

    def find_fault(self, target: str) -> str | None:
        """Return why a link to `host:port` is refused, or None."""
        if self.insecure or self.link_tls is not None:
            return None
        if is_loopback(target.rpartition(":")[0]):
            return None
        return "is on another machine: expected link_tls, or insecure=True; got neither"

    def link_metadata(self, target: str) -> tuple[tuple[str, str], ...]:
        """Return the metadata with the token for the component at `host:port`."""
        host = target.rpartition(":")[0]
        token = self.link_tokens.get(target) or self.link_tokens.get(host)
        return () if token is None else (bearer(token),)

    def access(self) -> Access:
        """Return the access rules of the services."""
        return Access(self.tokens, self.client_tokens, _clients_may)

    def __repr__(self) -> str:
        """Return the fields, without tokens."""
        tokens = ", ".join(
            f"{name}=<{len(given)} hidden>"
            for name in ("tokens", "client_tokens", "link_tokens")
            if (given := getattr(self, name))
        )
        return (
            f"Security(tls={self.tls!r}, link_tls={self.link_tls!r}, "
            f"{tokens + ', ' if tokens else ''}slot_secrets={self.slot_secrets!r}, "
            f"insecure={self.insecure})"
        )

    def __copy__(self) -> Security:
        """Return this object, which is immutable."""
        return self

    def __deepcopy__(self, _memo: dict[int, Any]) -> Security:
        """Return this object, which is immutable."""
        return self

    def __reduce_ex__(self, protocol: Any) -> str | tuple[Any, ...]:
        """Pickle an object without tokens; raise a TypeError for one that has any."""
        if self.tokens or self.link_tokens:
            raise cannot_be_pickled("a Security with tokens")
        return super().__reduce_ex__(protocol)


def _clients_may(method: str) -> bool:
    return method.startswith(_FOR_CLIENTS) or method == _VERSION
