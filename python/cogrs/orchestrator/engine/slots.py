"""Which slot a client that joins is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cogrs.orchestrator.engine.client import ClientActor
from cogrs.orchestrator.engine.errors import InvalidError, NotFoundError, PreconditionError, short
from cogrs.orchestrator.engine.state import State

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cogrs.orchestrator.engine.actor import Actor
    from cogrs.orchestrator.engine.trial import Trial

_LONGEST = 500
"""Characters of a reason in an error, which travels in a header."""


def actor_named(trial: Trial, name: str) -> Actor:
    """Return an actor.

    Raises:
        PreconditionError: The trial has no actors yet, or ended without any.
        NotFoundError: It has none of this name.
    """
    if not trial.actors:
        raise PreconditionError(
            f"trial {trial.id!r} is {trial.state.name}: it has no actors{_why(trial)}"
        )
    if (actor := trial.roster.find(name)) is not None:
        return actor
    raise NotFoundError(f"trial {trial.id!r} has no actor {short(name)}")


def client_named(trial: Trial, name: str) -> ClientActor:
    """Return a client actor.

    Raises:
        PreconditionError: As `actor_named`.
        NotFoundError: As `actor_named`.
        InvalidError: The actor is an agent.
    """
    actor = actor_named(trial, name)
    if not isinstance(actor, ClientActor):
        raise InvalidError(f"actor {name!r} is no client: an endpoint serves it")
    return actor


def slot_by_name(trial: Trial, name: str) -> ClientActor:
    """Return the slot of this name, if it is free or its client may return.

    Raises:
        PreconditionError: It is taken, or the trial does not take clients any more.
        NotFoundError: As `actor_named`.
        InvalidError: As `client_named`.
    """
    actor = client_named(trial, name)
    if actor.returnable and not trial.over:
        return actor
    _check_joinable(trial)
    if actor.ready:
        raise PreconditionError(f"actor {name!r} of trial {trial.id!r} is taken")
    return actor


def slot_by_class(trial: Trial, actor_class: str) -> ClientActor:
    """Return the first free slot of this class.

    Raises:
        PreconditionError: There is none, or the trial does not take clients.
        InvalidError: No actor of this class is a client.
    """
    if trial.actors:
        _check_class(trial, actor_class)
    _check_joinable(trial)
    if (actor := trial.roster.find_vacant(actor_class)) is not None:
        return actor
    raise PreconditionError(f"no slot of class {short(actor_class)} of trial {trial.id!r} is free")


def slot_anywhere(
    trials: Iterable[Trial], *, name: str | None = None, actor_class: str | None = None
) -> tuple[Trial, ClientActor]:
    """Return the first slot that fits, in the oldest trial that has one.

    Raises:
        PreconditionError: None fits.
    """
    for trial in trials:
        if trial.state is State.PENDING:
            roster = trial.roster
            actor = roster.find_vacant(actor_class or "") if name is None else roster.find(name)
            if isinstance(actor, ClientActor) and not actor.ready:
                return trial, actor
    raise PreconditionError(f"no trial has a free slot for {short(name or actor_class)}")


def _check_class(trial: Trial, actor_class: str) -> None:
    actors = [actor for actor in trial.actors if actor.actor_class == actor_class]
    if not actors:
        raise InvalidError(f"trial {trial.id!r} has no actor of class {short(actor_class)}")
    if not any(isinstance(actor, ClientActor) for actor in actors):
        raise InvalidError(
            f"no actor of class {short(actor_class)} of trial {trial.id!r} is a client"
        )


def _check_joinable(trial: Trial) -> None:
    if trial.state is not State.PENDING:
        raise PreconditionError(
            f"trial {trial.id!r} is {trial.state.name}: it takes no clients{_why(trial)}"
        )


def _why(trial: Trial) -> str:
    return f"; reason: {trial.told_reason[:_LONGEST]}" if trial.told_reason else ""
