"""The state of a trial, and how it ends."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class TrialState(IntEnum):
    """The state of a trial; states come in this order."""

    UNKNOWN = 0
    INITIALIZING = 1
    PENDING = 2
    RUNNING = 3
    TERMINATING = 4
    ENDED = 5


@dataclass(frozen=True, slots=True)
class TrialEnd:
    """How a trial ends.

    Attributes:
        reason: Why, as in the orchestrator's log; "" where that is not known any more, and from
            orchestrators that do not give it.
        failed: Whether it failed: it could not start, an environment or actor raised or was lost,
            nothing was received for `max_inactivity`, or the orchestrator has a fault. Not
            failures: the environment's final update, `terminate_trial`, `max_steps`, and the end
            of the orchestrator. The first reason counts: an environment that raises in `end` after
            one of these is only logged.
    """

    reason: str = ""
    failed: bool = False
