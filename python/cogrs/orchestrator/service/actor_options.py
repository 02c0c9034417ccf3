"""Reads the section `actor_options` of a `cogment.yaml`."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from cogrs.orchestrator.engine.actor_options import ActorOptions
from cogrs.shown import shown

if TYPE_CHECKING:
    from cogrs.api.common_pb2 import TrialParams
    from cogrs.orchestrator.service.user_types import UserTypes

_SELECTORS = ("name", "actor_class")
_OPTIONS = tuple(field.name for field in fields(ActorOptions))


def read_options(
    content: Mapping[str, Any], params: TrialParams, types: UserTypes
) -> tuple[dict[str, ActorOptions], dict[str, ActorOptions]]:
    """Return the options by name, and those by class.

    Raises:
        ValueError: The section is invalid; the text says where.
        OSError: A file with types cannot be read.
    """
    found: dict[str, dict[str, ActorOptions]] = {each: {} for each in _SELECTORS}
    section = content.get("actor_options")
    if not isinstance(section, list | None):
        raise ValueError(f"actor_options: expected a list, got {type(section).__name__}")
    for index, entry in enumerate(section or ()):
        where = f"actor_options[{index}]"
        by, key = _selector(where, entry)
        if key in found[by]:
            raise ValueError(f"{where}: duplicate {by} {shown(key)}")
        actor_class = key if by == "actor_class" else _class_of(key, params)
        found[by][key] = _options(where, entry, actor_class, content, types)
    return found["name"], found["actor_class"]


def _selector(where: str, entry: Any) -> tuple[str, str]:
    if not isinstance(entry, Mapping):
        raise ValueError(f"{where}: expected a section, got {type(entry).__name__}")
    given = [each for each in _SELECTORS if entry.get(each)]
    if len(given) != 1 or not isinstance(entry[given[0]], str):
        raise ValueError(f"{where}: expected either a name or an actor_class")
    unknown = [each for each in entry if each not in (*_SELECTORS, *_OPTIONS)]
    if unknown:
        raise ValueError(f"{where}.{str(unknown[0])[:64]}: expected one of {', '.join(_OPTIONS)}")
    return given[0], entry[given[0]]


def _class_of(name: str, params: TrialParams) -> str | None:
    return next((actor.actor_class for actor in params.actors if actor.name == name), None)


def _options(
    where: str,
    entry: Mapping[str, Any],
    actor_class: str | None,
    content: Mapping[str, Any],
    types: UserTypes,
) -> ActorOptions:
    given = {name: entry[name] for name in _OPTIONS if entry.get(name) is not None}
    if "default_action" in given:
        action = given["default_action"]
        place = f"{where}.default_action"
        given["default_action"] = (
            _decoded(place, action)
            if isinstance(action, str)
            else _encoded(place, action, actor_class, content, types)
        )
    try:
        return ActorOptions(**given)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{where}.{error}") from error


def _decoded(where: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{where}: expected base64, got {shown(text)}") from error


def _encoded(
    where: str, action: Any, actor_class: str | None, content: Mapping[str, Any], types: UserTypes
) -> bytes:
    if not isinstance(action, Mapping):
        kind = type(action).__name__
        raise ValueError(f"{where}: expected a section or base64, got {kind}")
    space = None
    for known in content.get("actor_classes") or ():
        declared = known.get("action")
        if known["id"] == actor_class and isinstance(declared, Mapping):
            space = declared.get("space")
    return types.encode(
        where, f"actor_classes, class {shown(actor_class)}, action.space", space, action
    )
