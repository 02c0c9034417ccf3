"""Why a trial does not run, in a sentence for people.

An orchestrator's reasons quote failures: paths, addresses, texts of exceptions. They are for
operators, who read them in the console and in the log; a person can do nothing with them, and a
stranger with a link should not see them.
"""

from __future__ import annotations

import re
from typing import Final

import grpc

from cogrs.escape import escaped

PLAYER_LEFT: Final = "The player left. The trial is over."
PLAYER_AWAY: Final = "The player did not come back in time. The trial is over."
LAST: Final = "This was the last trial."
"""Follows the reason of the last trial."""

_FAILED: Final = "The trial was stopped by a failure. Its operators can see the cause."
_LOST: Final = "The connection to the game was lost."
_NO_TRIAL: Final = "Waiting for a trial to begin."

_ENDS: Final = (
    (r"environment: final update", "The game is over."),
    (r"max_steps: (\d+) steps are done", r"The game is over: it has at most \1 steps."),
    (r"max_inactivity: .*", "The trial was stopped, because nothing happened for too long."),
    (r"TerminateTrial was called", "The trial was ended by an operator."),
    (r"the orchestrator stops", "The trial was ended, because its server stops."),
)
"""Reasons that quote nothing, and what people read instead."""


class PublicError(ValueError):
    """An error whose whole text people may read."""


def end_text(reason: str) -> str:
    """Return what people read of the reason that an orchestrator gives for a trial's end."""
    for pattern, text in _ENDS:
        if (found := re.fullmatch(pattern, reason)) is not None:
            return found.expand(text)
    return _FAILED


def error_text(error: BaseException) -> str:
    """Return what people read of an error that ended a trial."""
    if isinstance(error, PublicError):
        return escaped(str(error))[:200]
    lost = isinstance(error, grpc.aio.AioRpcError | ConnectionError)
    return _LOST if lost else _FAILED


def wait_text(error: grpc.aio.AioRpcError) -> str:
    """Return what people read while there is no trial to join."""
    lost = error.code() is grpc.StatusCode.UNAVAILABLE
    return f"{_LOST} Trying again." if lost else _NO_TRIAL


def whole_text(error: BaseException) -> str:
    """Return an error as operators read it, in one line."""
    details = error.details() if isinstance(error, grpc.aio.AioRpcError) else str(error)
    return escaped(details or type(error).__name__)[:1000]
