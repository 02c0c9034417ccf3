"""The state of a run, as its supervisor says it and drivers ask for it."""

from __future__ import annotations

from typing import NamedTuple

STARTING, RUNNING, ENDED, FAILED = "starting", "running", "ended", "failed"


class RunFailedError(RuntimeError):
    """A run has failed: a part was given up, or the supervisor has ended."""


class RunState(NamedTuple):
    """What a run does, and why it failed."""

    state: str = STARTING
    error: str = ""

    @property
    def is_over(self) -> bool:
        """Whether the run has ended or failed."""
        return self.state in (ENDED, FAILED)

    def check(self, run: str) -> None:
        """Raise a RunFailedError if the run of a name has failed."""
        if self.state == FAILED:
            raise RunFailedError(f"{run}: {self.error}")
