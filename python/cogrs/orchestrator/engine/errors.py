"""The errors that callers of the orchestrator get, each with the name of its gRPC status."""

from __future__ import annotations

from typing import ClassVar

_LONGEST = 100


def short(value: object) -> str:
    """Return the `repr` of something that a peer sent, cut to 100 characters."""
    if isinstance(value, (str, bytes)):
        value = value[: _LONGEST + 1]
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


class OrchestratorError(Exception):
    """A request that is refused; the text is sent to its caller."""

    status: ClassVar[str] = "UNKNOWN"
    """Name of the gRPC status code."""


class NotFoundError(OrchestratorError):
    """No such trial, or no such actor in it."""

    status = "NOT_FOUND"


class InvalidError(OrchestratorError):
    """The request is wrong in any state of the trial."""

    status = "INVALID_ARGUMENT"


class DeniedError(OrchestratorError):
    """The caller lacks the right, or the configuration does not allow this."""

    status = "PERMISSION_DENIED"


class PreconditionError(OrchestratorError):
    """The trial or the actor is not in a state for this."""

    status = "FAILED_PRECONDITION"


class AlreadyExistsError(OrchestratorError):
    """The actor has a stream already."""

    status = "ALREADY_EXISTS"


class LateError(OrchestratorError):
    """The actor was not heard from in time."""

    status = "DEADLINE_EXCEEDED"


class ExhaustedError(OrchestratorError):
    """The reader is too slow for what it asked for."""

    status = "RESOURCE_EXHAUSTED"


class AbortedError(OrchestratorError):
    """Something that the request depends on refused it."""

    status = "ABORTED"


class UnavailableError(OrchestratorError):
    """Something that the request depends on cannot be reached, or the orchestrator stops."""

    status = "UNAVAILABLE"
