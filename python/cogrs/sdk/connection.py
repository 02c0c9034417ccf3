"""Connections to an orchestrator: with TLS and a token, opened in the event loop that uses them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

import grpc
import grpc.aio

from cogrs.listen_address import is_loopback
from cogrs.sdk.endpoint import address_of
from cogrs.tls import ClientTls
from cogrs.tokens import bearer, cannot_be_pickled
from cogrs.validation import check_header, check_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Stub = TypeVar("Stub")

Metadata = tuple[tuple[str, str], ...]


class Connection(Generic[Stub]):
    """A channel and its stub, opened by the first call.

    It belongs to the event loop of that call. When that loop is closed, the next call opens a new
    channel in its own loop.
    """

    def __init__(
        self,
        endpoint: str,
        make_stub: Callable[[grpc.aio.Channel], Stub],
        options: Sequence[tuple[str, Any]],
        *,
        tls: ClientTls | None = None,
        token: str | None = None,
    ) -> None:
        """Read certificates and check the arguments, as `ClientActor`; nothing is connected yet."""
        self.endpoint = endpoint
        self._target = address_of(endpoint)
        self.metadata = metadata_of(self._target, tls, token)  # goes with every call
        self._credentials = None if tls is None else tls.credentials()
        self._options = [*options, *(() if tls is None else tls.options())]
        self._make_stub = make_stub
        self._channels: list[grpc.aio.Channel] = []
        self._stub: Stub | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.closed = False

    @property
    def stub(self) -> Stub:
        """The stub, for the running loop; a RuntimeError if closed, or used by another loop."""
        self._enter()
        self.check_open()
        return self._open() if self._stub is None else self._stub

    def check_open(self) -> None:
        """Raise a RuntimeError after `close`."""
        if self.closed:
            raise RuntimeError(f"{self.endpoint}: the connection was closed here")

    def renew(self, silent: Stub) -> None:
        """Open a new channel in place of one that is silent, unless that was done already.

        Calls on the old one notice by themselves.
        """
        if self._stub is silent and not self.closed:
            # Channels share connections, dead ones too, unless they are told not to.
            self._open(("grpc.use_local_subchannel_pool", 1))

    async def close(self) -> None:
        """Close the channel. Calls under way are cancelled, later ones raise RuntimeError."""
        self._enter()
        self.closed = True
        for channel in self._channels:
            await channel.close()

    def __reduce__(self) -> NoReturn:
        """Raise a TypeError: a connection, or an object that has one, cannot be pickled."""
        raise cannot_be_pickled(f"the connection to {self.endpoint}")

    def _enter(self) -> None:
        loop = asyncio.get_running_loop()
        if loop is self._loop:
            return
        if self._loop is not None and not self._loop.is_closed():
            raise RuntimeError(
                f"{self.endpoint}: another event loop uses this connection: "
                "create one for each event loop"
            )
        # A channel of a loop that is closed cannot be used or closed by another.
        self._loop, self._stub, self._channels = loop, None, []

    def _open(self, *options: tuple[str, Any]) -> Stub:
        options = (*self._options, *options)
        if self._credentials is None:
            channel = grpc.aio.insecure_channel(self._target, options=options)
        else:
            channel = grpc.aio.secure_channel(self._target, self._credentials, options=options)
        self._channels.append(channel)
        self._stub = self._make_stub(channel)
        return self._stub


def blocking_channel(
    target: str, options: Sequence[tuple[str, Any]], tls: ClientTls | None
) -> grpc.Channel:
    """Return a channel for calls without an event loop."""
    if tls is None:
        return grpc.insecure_channel(target, options=options)
    return grpc.secure_channel(target, tls.credentials(), options=[*options, *tls.options()])


def metadata_of(target: str, tls: ClientTls | None, token: str | None) -> Metadata:
    """Return the metadata of all calls to `host:port`; errors as of `ClientActor`."""
    check_kind("tls", tls, ClientTls | None, "a ClientTls or None")
    if token is None:
        return ()
    check_header("token", token, secret=True)
    if tls is None and not is_loopback(target.rpartition(":")[0]):
        raise ValueError(f"token: {target} is on another machine: expected tls too, got None")
    return (bearer(token),)
