"""The states of a trial, and the ways between them."""

from __future__ import annotations

import enum


class State(enum.IntEnum):
    """State of a trial; the numbers are those of the wire."""

    INITIALIZING = 1
    PENDING = 2
    RUNNING = 3
    TERMINATING = 4
    ENDED = 5


_NEXT = {
    State.INITIALIZING: {State.PENDING, State.TERMINATING},
    State.PENDING: {State.RUNNING, State.TERMINATING},
    State.RUNNING: {State.TERMINATING},
    State.TERMINATING: {State.ENDED},
    State.ENDED: set(),
}


def check_step(old: State, new: State) -> None:
    """Refuse a step that no trial takes.

    Raises:
        RuntimeError: There is no way from `old` to `new`; a mistake in the engine.
    """
    if new not in _NEXT[old]:
        raise RuntimeError(f"a trial cannot go from {old.name} to {new.name}")
