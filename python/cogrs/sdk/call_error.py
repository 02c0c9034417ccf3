"""What all services of this package do with a call."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import grpc

from cogrs._core import __version__
from cogrs.api import common_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

API_VERSION = "1.0.0-alpha6"

_LONGEST = 2000
"""Characters of an error: status texts travel in headers, which have a limit of 8 KiB."""


_logger = logging.getLogger("cogrs.sdk")


class CallError(Exception):
    """A call that is refused, or failed: its status, and a text for whoever called."""

    def __init__(self, code: grpc.StatusCode, text: str, brief: str = "") -> None:
        """Tell what is wrong.

        Args:
            code: The status.
            text: For whoever runs the trial.
            brief: For callers that may be anybody; "" takes the text.
        """
        super().__init__(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...")
        self.code = code
        self.brief = brief or str(self)


@asynccontextmanager
async def answering(context: Context, *, brief: bool = False) -> AsyncIterator[None]:
    """End a call with the status of the `CallError` that is raised inside.

    Args:
        context: Of the call.
        brief: Whether the caller may be anybody, who is not told what the failure says: that can
            have paths, and more.
    """
    try:
        yield
    except CallError as error:
        await context.abort(error.code, error.brief if brief else str(error))
    except grpc.aio.BaseError:
        raise
    except Exception as error:
        if not brief:
            raise  # gRPC tells its text, and logs it
        _logger.exception("a call failed")
        text = f"internal error: {type(error).__name__}; see the log there"
        await context.abort(grpc.StatusCode.UNKNOWN, text)


def metadata_of(context: Context, *keys: str) -> tuple[str, ...]:
    """Return the values of some metadata.

    Raises:
        CallError: Some are missing, or are not printable ASCII.
    """
    given = dict(context.invocation_metadata() or ())
    missing = [key for key in keys if not given.get(key)]
    if missing:
        text = f"metadata: expected {', '.join(keys)}; got none of {', '.join(missing)}"
        raise CallError(grpc.StatusCode.INVALID_ARGUMENT, text)
    values = tuple(str(given[key]) for key in keys)
    for key, value in zip(keys, values, strict=True):
        if not (value.isascii() and value.isprintable()):
            text = f"metadata: {key}: expected printable ASCII, got {value!r}"
            raise CallError(grpc.StatusCode.INVALID_ARGUMENT, text)
    return values


def versions() -> common_pb2.VersionInfo:
    """Return the versions of a service of this package."""
    named = {"cogrs": __version__, "cogment-api": API_VERSION, "grpc": grpc.__version__}
    return common_pb2.VersionInfo(
        versions=[
            common_pb2.VersionInfo.Version(name=name, version=version)
            for name, version in named.items()
        ]
    )
