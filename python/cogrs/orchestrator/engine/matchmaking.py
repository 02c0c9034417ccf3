"""Which slot a client that joins is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cogrs.orchestrator.engine.client_slot import ClientSlot
from cogrs.orchestrator.engine.errors import InvalidError, NotFoundError, PreconditionError, short
from cogrs.orchestrator.engine.state import State

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cogrs.orchestrator.engine.actor import Actor
    from cogrs.orchestrator.engine.slot_secret import Caller
    from cogrs.orchestrator.engine.trial_record import TrialRecord

_LONGEST = 500
"""Characters of a reason in an error, which travels in a header."""


def find_actor(trial: TrialRecord, name: str) -> Actor:
    """Return the actor with this name.

    Raises:
        PreconditionError: The trial has no actors yet, or ended without any.
        NotFoundError: None of its actors has this name.
    """
    if not trial.actors:
        raise PreconditionError(
            f"trial {trial.id!r} is {trial.state.name}: it has no actors{_why(trial)}"
        )
    if (actor := trial.index.find(name)) is not None:
        return actor
    raise NotFoundError(f"trial {trial.id!r} has no actor {short(name)}")


def find_slot(trial: TrialRecord, name: str) -> ClientSlot:
    """Return the slot with this name, free or taken.

    Raises:
        PreconditionError, NotFoundError: As `find_actor`.
        InvalidError: The actor is an agent.
    """
    actor = find_actor(trial, name)
    if not isinstance(actor, ClientSlot):
        raise InvalidError(f"actor {name!r} is not a client: an endpoint serves it")
    return actor


def match_by_name(trial: TrialRecord, name: str, caller: Caller) -> ClientSlot:
    """Return the slot with this name, if it is free or its client may return.

    A client that shows the slot's secret may also join again before it has opened a stream: it may
    have left as soon as it had joined, of which nothing tells.

    Raises:
        PreconditionError: It is taken, or the trial does not take clients any more.
        NotFoundError, InvalidError: As `find_slot`.
    """
    slot = find_slot(trial, name)
    if not trial.over:
        if slot.returnable or (slot.awaits_stream and slot.secret.is_shown_by(caller)):
            return slot
        if slot.ready:
            raise PreconditionError(
                f"trial {trial.id!r} is {trial.state.name}: actor {name!r} is taken"
            )
    _check_joinable(trial)
    return slot


def match_by_class(trial: TrialRecord, actor_class: str) -> ClientSlot:
    """Return the first free slot of this class.

    Raises:
        PreconditionError: All are taken, or the trial does not take clients.
        InvalidError: No actor of this class is a client.
    """
    if trial.actors:
        _check_class(trial, actor_class)
    _check_joinable(trial)
    if (slot := trial.index.find_free(actor_class)) is not None:
        return slot
    raise PreconditionError(f"no slot of class {short(actor_class)} of trial {trial.id!r} is free")


def match_in_any(
    trials: Iterable[TrialRecord], *, name: str | None = None, actor_class: str | None = None
) -> tuple[TrialRecord, ClientSlot]:
    """Return the first free slot of a name or class, in the oldest trial that has one.

    Raises:
        PreconditionError: No trial has one.
    """
    for trial in trials:
        if trial.state is State.PENDING:
            index = trial.index
            slot = index.find_free(actor_class or "") if name is None else index.find(name)
            if isinstance(slot, ClientSlot) and not slot.ready:
                return trial, slot
    raise PreconditionError(f"no trial has a free slot for {short(name or actor_class)}")


def _check_class(trial: TrialRecord, actor_class: str) -> None:
    actors = [actor for actor in trial.actors if actor.actor_class == actor_class]
    if not actors:
        raise InvalidError(f"trial {trial.id!r} has no actor of class {short(actor_class)}")
    if not any(isinstance(actor, ClientSlot) for actor in actors):
        raise InvalidError(
            f"no actor of class {short(actor_class)} of trial {trial.id!r} is a client"
        )


def _check_joinable(trial: TrialRecord) -> None:
    if trial.state is not State.PENDING:
        raise PreconditionError(
            f"trial {trial.id!r} is {trial.state.name}: it does not take clients{_why(trial)}"
        )


def _why(trial: TrialRecord) -> str:
    return f"; reason: {trial.public_reason[:_LONGEST]}" if trial.public_reason else ""
