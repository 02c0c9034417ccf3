"""Whose move it is in a trial, and for whom it therefore waits."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from cogrs.orchestrator.engine.state import State

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cogrs.orchestrator.engine.actor import Actor
    from cogrs.orchestrator.engine.gathering import Gathering

ENVIRONMENT = "environment"
"""What `awaited` calls the environment."""


class Phase(enum.Enum):
    """Whose move it is."""

    STARTING = enum.auto()
    """Components start, clients join."""
    ACTORS = enum.auto()
    """Actors have an observation to answer."""
    ENVIRONMENT = enum.auto()
    """The environment has actions to answer."""
    ENDING = enum.auto()
    """The environment has its last actions."""
    FINAL = enum.auto()
    """Actors take their final data, or have it."""


def awaited(
    state: State, phase: Phase, actors: Sequence[Actor], gathering: Gathering | None, *, seen: bool
) -> list[str]:
    """Return what a trial waits for: `environment`, and the classes of actors.

    Args:
        state: Of the trial.
        phase: Of the trial.
        actors: Of the trial.
        gathering: The actions that there are, once there may be any.
        seen: Whether there are observations.
    """
    if state is State.PENDING:
        absent = (actor for actor in actors if not (actor.ready or actor.gone))
        return [ENVIRONMENT] * (not seen) + _classes(absent)
    if phase is Phase.ACTORS and gathering is not None:
        return _classes(actor for actor in actors if gathering.owes(actor.index))
    if phase is Phase.FINAL:
        late = (actor for actor in actors if not actor.done)
        return _classes(late if state is State.TERMINATING else ())
    return [ENVIRONMENT] * (phase in (Phase.ENVIRONMENT, Phase.ENDING))


def _classes(actors: Iterable[Actor]) -> list[str]:
    return [actor.actor_class for actor in actors]
