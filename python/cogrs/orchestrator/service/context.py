"""What all services need of a call: its metadata, and a way to refuse it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import grpc

from cogrs.api.common_pb2 import VersionInfo
from cogrs.orchestrator.engine.errors import InvalidError, OrchestratorError
from cogrs.orchestrator.engine.log import logger
from cogrs.orchestrator.engine.params import check_name

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grpc.aio import ServicerContext

    Context = ServicerContext[Any, Any]

Service = TypeVar("Service")
Request = TypeVar("Request")
Reply = TypeVar("Reply")

API_VERSION = "1.0.0-alpha6"


def versions() -> VersionInfo:
    """Return the answer to Version."""
    import cogrs

    known = (
        ("orchestrator", cogrs.__version__),
        ("cogment-api", API_VERSION),
        ("grpc", grpc.__version__),
    )
    return VersionInfo(
        versions=[VersionInfo.Version(name=name, version=version) for name, version in known]
    )


def find_metadata(context: Context, key: str) -> str | None:
    """Return the metadata of a call under a key, if there is any.

    Raises:
        InvalidError: It is too long.
    """
    for name, value in context.invocation_metadata() or ():
        if name == key:
            text = value if isinstance(value, str) else value.decode(errors="backslashreplace")
            check_name(f"metadata: {key}", text)
            return text
    return None


def required_metadata(context: Context, key: str) -> str:
    """Return the metadata of a call under a key.

    Raises:
        InvalidError: There is none, or it is too long.
    """
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
    """Refuse a call when the engine does, and end it when something fails."""

    @functools.wraps(method)
    async def answer(service: Service, request: Request, context: Context) -> Reply:
        work = method(service, request, context)
        # Calls that watch are long. What is in the frames of a call that was aborted stays until
        # garbage is collected, for which it does not count by its size.
        del request
        try:
            return await work
        except OrchestratorError as error:
            refusal = error.with_traceback(None)
        except grpc.aio.BaseError:
            raise
        except Exception as error:
            # gRPC would tell its text, which may have paths, to whoever called.
            logger.exception("a call failed")
            text = f"internal error: {type(error).__name__}; see the orchestrator's log"
            await context.abort(grpc.StatusCode.UNKNOWN, text)
        await refuse(context, refusal)

    return answer
