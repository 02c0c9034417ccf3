"""Parameters of a trial: put together, and checked before anything is started with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cogrs.api.common_pb2 import TrialActor, TrialParams
from cogrs.limits import MOST_ACTORS, MOST_NAME_BYTES, MOST_ROSTER_BYTES
from cogrs.orchestrator.engine.endpoint import Endpoint, parse_endpoint
from cogrs.orchestrator.engine.errors import InvalidError, short

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from cogrs.api.orchestrator_pb2 import TrialStartRequest

ENVIRONMENT = "env"
"""The name of the environment as a receiver or sender of messages and rewards."""


def merge_params(defaults: TrialParams, request: TrialStartRequest) -> TrialParams:
    """Return the parameters that a request asks for.

    They are its own, or else the defaults, with the request's config if that is set, even if it is
    empty.
    """
    params = TrialParams()
    params.CopyFrom(request.params if request.HasField("params") else defaults)
    if request.HasField("config"):
        params.trial_config.CopyFrom(request.config)
    return params


_ENTRY = 64
"""Bytes of memory that an actor in the list of all takes beside its name and class."""


def check_name(what: str, text: str) -> None:
    """Refuse a name or an id that has too many bytes, with an InvalidError."""
    # A character has up to 4 bytes; most names are too short for that to matter.
    if len(text) * 4 > MOST_NAME_BYTES and (size := len(text.encode())) > MOST_NAME_BYTES:
        raise InvalidError(
            f"{what}: expected at most {MOST_NAME_BYTES} bytes, got {size}: {short(text)}"
        )


def check_sizes(params: TrialParams) -> None:
    """Refuse more, or longer, parameters than a trial may have, with an InvalidError."""
    if len(params.actors) > MOST_ACTORS:
        raise InvalidError(f"actors: expected at most {MOST_ACTORS}, got {len(params.actors)}")
    check_name("environment: endpoint", params.environment.endpoint)
    check_name("environment: implementation", params.environment.implementation)
    agents = size = 0
    for index, actor in enumerate(params.actors):
        if actor.ByteSize() > MOST_NAME_BYTES:
            for what in ("name", "actor_class", "endpoint", "implementation"):
                check_name(f"actors[{index}]: {what}", getattr(actor, what))
        agents += actor.endpoint != "client"
        size += len(actor.name) + len(actor.actor_class) + _ENTRY
    if agents * size > MOST_ROSTER_BYTES:
        raise InvalidError(
            f"actors: expected at most {MOST_ROSTER_BYTES} bytes for the lists of actors that all "
            f"agents get, got {agents * size}"
        )


def check_params(
    params: TrialParams,
    classes: Collection[str] | None,
    check_endpoint: Callable[[str, Endpoint], None],
) -> None:
    """Refuse parameters, as the last hook returned them, with which no trial can run.

    `classes` are the declared actor classes; None allows any. `check_endpoint` refuses well-formed
    endpoints that cannot be reached. All refusals are InvalidErrors.
    """
    check_sizes(params)
    if not params.environment.endpoint:
        raise InvalidError("environment: expected an endpoint, got none")
    where = parse_endpoint("environment", params.environment.endpoint)
    check_endpoint("environment", where)
    if not params.actors:
        raise InvalidError("actors: expected at least one, got none")
    seen: set[str] = set()
    for actor in params.actors:
        _check_name(actor.name, seen)
        seen.add(actor.name)
        what = f"actor {short(actor.name)}"
        if classes is not None and actor.actor_class not in classes:
            known = ", ".join(sorted(classes))
            raise InvalidError(
                f"{what}: expected a class of {known}; got {short(actor.actor_class)}"
            )
        check_endpoint(what, parse_endpoint(what, actor.endpoint, client=True))


def _check_name(name: str, seen: set[str]) -> None:
    # Names travel as metadata: ASCII, and spaces at the ends would be cut off on the way.
    if not name or name != name.strip() or not (name.isascii() and name.isprintable()):
        raise InvalidError(f"actor name: expected printable ASCII, got {short(name)}")
    if name == ENVIRONMENT:
        raise InvalidError(f"actor name: {name!r} stands for the environment")
    if name in seen:
        raise InvalidError(f"actor name: duplicate {short(name)}")


def actors_in_trial(params: TrialParams) -> list[TrialActor]:
    """Return the list of actors that all parties of the trial are given, in order."""
    return [TrialActor(actor_class=actor.actor_class, name=actor.name) for actor in params.actors]
