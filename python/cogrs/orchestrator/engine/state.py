"""The states of a trial, the phases of its ticks, and the states of the components it calls."""

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
    """Refuse a change of state that the rules do not have, a mistake here: a RuntimeError."""
    if new not in _NEXT[old]:
        raise RuntimeError(f"a trial cannot go from {old.name} to {new.name}")


class Phase(enum.Enum):
    """The party that is to move in a trial."""

    STARTING = enum.auto()
    """Components start, clients join."""
    ACTORS = enum.auto()
    """Actors answer an observation."""
    ENVIRONMENT = enum.auto()
    """The environment answers actions."""
    ENDING = enum.auto()
    """The environment answers the last actions."""
    FINAL = enum.auto()
    """Actors take their final data, or have it."""


class RunState(enum.Enum):
    """State of a component that the orchestrator calls, in one trial."""

    IDLE = enum.auto()
    STARTING = enum.auto()
    STARTED = enum.auto()
    ENDING = enum.auto()
    LOST = enum.auto()
    OVER = enum.auto()
