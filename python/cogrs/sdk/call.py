"""What all services of this package do with a call."""

from __future__ import annotations

import inspect
import logging
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar

import grpc

from cogrs._core import __version__
from cogrs.api import common_pb2

if TYPE_CHECKING:
    from collections.abc import Mapping

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

Factory = TypeVar("Factory")

API_VERSION = "1.0.0-alpha6"

_logger = logging.getLogger("cogrs.sdk")


async def metadata_of(context: Context, *keys: str) -> tuple[str, ...]:
    """Return the values of some metadata; a call without them is refused."""
    given = dict(context.invocation_metadata() or ())
    missing = [key for key in keys if not given.get(key)]
    if missing:
        await context.abort(
            grpc.StatusCode.INVALID_ARGUMENT, f"missing metadata: {', '.join(missing)}"
        )
    return tuple(str(given[key]) for key in keys)


async def implementation_of(
    context: Context, implementations: Mapping[str, Factory], name: str
) -> Factory:
    """Return the implementation of a name; "" stands for the first."""
    if not name:
        return next(iter(implementations.values()))
    if name not in implementations:
        known = ", ".join(implementations)
        await context.abort(
            grpc.StatusCode.NOT_FOUND, f"no implementation {name!r} here: there is {known}"
        )
    return implementations[name]


async def settled(value: Any) -> Any:
    """Wait for a value if it has to be waited for: methods of users may be plain or async."""
    return await value if inspect.isawaitable(value) else value


async def abort_for(context: Context, what: str, error: Exception) -> NoReturn:
    """Tell the caller, and the log, that a user's code failed."""
    _logger.error("%s failed", what, exc_info=error)
    text = f"{what} failed: {type(error).__name__}: {error}"
    await context.abort(grpc.StatusCode.UNKNOWN, text)
    raise AssertionError("abort raises")


def versions() -> common_pb2.VersionInfo:
    """Tell the versions of a service of this package."""
    named = {"cogrs": __version__, "cogment-api": API_VERSION, "grpc": grpc.__version__}
    return common_pb2.VersionInfo(
        versions=[
            common_pb2.VersionInfo.Version(name=name, version=version)
            for name, version in named.items()
        ]
    )
