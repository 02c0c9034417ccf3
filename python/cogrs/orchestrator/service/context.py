"""What services share about a call: its metadata, and how it is refused."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import grpc

from cogrs.api.versions import version_info
from cogrs.orchestrator.engine.errors import InvalidError, OrchestratorError
from cogrs.orchestrator.engine.log import logger
from cogrs.orchestrator.engine.params import check_name

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grpc.aio import ServicerContext

    from cogrs.api.common_pb2 import VersionInfo

    Context = ServicerContext[Any, Any]

Service = TypeVar("Service")
Request = TypeVar("Request")
Reply = TypeVar("Reply")


async def answer_version(service: object, request: object, context: Context) -> VersionInfo:
    """Answer a call of Version."""
    del service, request, context
    from cogrs._core import __version__

    return version_info("orchestrator", __version__)


def find_metadata(context: Context, key: str) -> str | None:
    """Return the metadata of a call under a key, or None; refuse a value that is too long."""
    for name, value in context.invocation_metadata() or ():
        if name == key:
            text = value if isinstance(value, str) else value.decode(errors="backslashreplace")
            check_name(f"metadata: {key}", text)
            return text
    return None


def required_metadata(context: Context, key: str) -> str:
    """Return the metadata of a call under a key; refuse a call without it."""
    value = find_metadata(context, key)
    if value is None:
        raise InvalidError(f"metadata: expected {key!r}, got none")
    return value


async def refuse(context: Context, error: OrchestratorError) -> NoReturn:
    """End a call with the status of an error."""
    await context.abort(grpc.StatusCode[error.status], str(error))


def abort_on_error(
    method: Callable[[Service, Request, Context], Awaitable[Reply]],
) -> Callable[[Service, Request, Context], Awaitable[Reply]]:
    """Decorate a method: errors of the engine, and any other, end the call with a status."""

    @functools.wraps(method)
    async def answer(service: Service, request: Request, context: Context) -> Reply:
        work = method(service, request, context)
        # The frames of an aborted call keep their variables until the next garbage collection,
        # and calls that watch are long.
        del request
        try:
            return await work
        except OrchestratorError as error:
            refusal = error.with_traceback(None)
        except grpc.aio.BaseError:
            raise
        except Exception as error:
            # gRPC would send its text, which may have paths, to the caller.
            logger.exception("a call failed")
            text = f"internal error: {type(error).__name__}; see the orchestrator's log"
            await context.abort(grpc.StatusCode.UNKNOWN, text)
        await refuse(context, refusal)

    return answer
