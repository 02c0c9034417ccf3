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

    status: ClassVar[str]
    """Name of the gRPC status code."""

    def __init_subclass__(cls, *, status: str) -> None:
        """Set the status of a kind of error."""
        cls.status = status


class NotFoundError(OrchestratorError, status="NOT_FOUND"):
    """No such trial, or no such actor in it."""


class InvalidError(OrchestratorError, status="INVALID_ARGUMENT"):
    """The request is wrong in any state of the trial."""


class DeniedError(OrchestratorError, status="PERMISSION_DENIED"):
    """The caller lacks the right, or the configuration does not allow this."""


class PreconditionError(OrchestratorError, status="FAILED_PRECONDITION"):
    """The trial or the actor is not in a state for this."""


class AlreadyExistsError(OrchestratorError, status="ALREADY_EXISTS"):
    """The actor has a stream already."""


class LateError(OrchestratorError, status="DEADLINE_EXCEEDED"):
    """The actor was not heard from in time."""


class ExhaustedError(OrchestratorError, status="RESOURCE_EXHAUSTED"):
    """The reader is too slow for what it asked for."""


class AbortedError(OrchestratorError, status="ABORTED"):
    """Something that the request depends on refused it."""


class UnavailableError(OrchestratorError, status="UNAVAILABLE"):
    """Something that the request depends on cannot be reached, or the orchestrator stops."""
