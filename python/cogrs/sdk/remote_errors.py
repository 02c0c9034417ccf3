"""Errors of calls to an orchestrator: gRPC's own, with a text of one line."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import grpc
import grpc.aio

from cogrs.escape import escaped

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterator

_Reply = TypeVar("_Reply")

_RETRY = 0.1
"""Seconds between two attempts of a call."""

_HINTS = {
    "WRONG_VERSION_NUMBER": "it seems to serve without TLS: leave tls= out.",
    "CERTIFICATE_VERIFY_FAILED": "its certificate is not signed by an authority in tls= (ca).",
    "Hostname Verification Check failed": "its certificate has another name (server_name of tls=).",
    "Socket closed": "it hung up: does it require TLS, or a certificate of the client (tls=)?",
}
"""Hints, by gRPC's texts about a connection that failed."""

_NO_CONNECTION = "failed to connect"
"""gRPC's text, in lower case, about a connection that was never made."""

_LOST = ("socket closed", "stream removed", "connection reset", "broken pipe", "ping timeout")
"""gRPC's texts about a connection that was lost."""

_ANY_HINT = "is it started, is this its port, and do both sides agree on TLS?"


class RemoteCallError(grpc.aio.AioRpcError):
    """A call that was refused or failed: gRPC's error, whose text is one line.

    `code()` and `details()` say what was wrong.
    """

    def __init__(self, endpoint: str, error: grpc.aio.AioRpcError | grpc.Call) -> None:
        """Copy an error of gRPC, raised by a call to `endpoint`."""
        details = escaped(" ".join((error.details() or "").split()))
        super().__init__(error.code(), grpc.aio.Metadata(), grpc.aio.Metadata(), details=details)
        self.endpoint = endpoint

    def __str__(self) -> str:
        """Return the endpoint, the status and the details, in one line."""
        refused = self.code() is grpc.StatusCode.UNAUTHENTICATED
        hint = ": give one of the orchestrator's tokens as token=" if refused else ""
        return f"{self.endpoint}: {self.code().name}: {self.details()}{hint}"

    def __repr__(self) -> str:
        """Return the text with the name of the class."""
        return f"{type(self).__name__}({str(self)!r})"


class UnreachableError(RemoteCallError, ConnectionError):
    """No orchestrator can be reached there, or the connection to it was lost."""

    def __str__(self) -> str:
        """Return the endpoint, and a hint."""
        details = self.details() or ""
        if _NO_CONNECTION not in details.lower():
            return f"{self.endpoint}: the connection to the orchestrator was lost: {details}"
        hint = next((hint for sign, hint in _HINTS.items() if sign in details), _ANY_HINT)
        return f"no orchestrator answers at {self.endpoint}: {hint} {details}"


@contextmanager
def raising_remote_errors(endpoint: str) -> Iterator[None]:
    """Raise errors of gRPC inside as `RemoteCallError`, or `UnreachableError`."""
    try:
        yield
    except RemoteCallError:
        raise
    except grpc.aio.UsageError as error:
        raise RuntimeError(f"{endpoint}: the connection was closed here: {error}") from error
    except grpc.RpcError as error:
        if not isinstance(error, grpc.aio.AioRpcError | grpc.Call):
            raise  # of no call that was made
        kind = UnreachableError if _is_unreachable(error) else RemoteCallError
        raise kind(endpoint, error) from error


def _is_unreachable(error: grpc.aio.AioRpcError | grpc.Call) -> bool:
    # Orchestrators say UNAVAILABLE too, of a hook that is away and when they stop.
    details = (error.details() or "").lower()
    unavailable = error.code() is grpc.StatusCode.UNAVAILABLE
    return unavailable and any(sign in details for sign in (_NO_CONNECTION, *_LOST))


async def call_until_accepted(
    attempt: Callable[[float], Awaitable[_Reply]],
    refusals: Collection[grpc.StatusCode],
    patience: float,
) -> _Reply:
    """Return the result of a call, made again while it is refused with one of these codes.

    Args:
        attempt: Makes the call; it gets the seconds that are left, > 0.
        refusals: The codes after which it is made again.
        patience: Seconds for all attempts; after them the last error is raised.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + patience
    while True:
        try:
            return await attempt(max(until - loop.time(), _RETRY))
        except grpc.aio.AioRpcError as error:
            if error.code() not in refusals or loop.time() >= until:
                raise
        await asyncio.sleep(_RETRY)
