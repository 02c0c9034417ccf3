"""What an orchestrator is told at its start: by Python, or by a `cogment.yaml`."""

from __future__ import annotations

import base64
import copy
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from cogrs.api.common_pb2 import TrialParams
from cogrs.api.json_message import fill_message
from cogrs.files import read_bounded
from cogrs.limits import CONFIG_BYTES
from cogrs.orchestrator.engine.actor_options import ActorOptions
from cogrs.orchestrator.engine.endpoint import parse_endpoint
from cogrs.orchestrator.engine.errors import InvalidError
from cogrs.orchestrator.engine.trial_log_recorder import sample_fields
from cogrs.orchestrator.service.options import read_options
from cogrs.orchestrator.service.security import Security
from cogrs.orchestrator.service.security_config import NAMES, read_security
from cogrs.orchestrator.service.user_types import UserTypes
from cogrs.shown import shown
from cogrs.validation import check_kind, check_named, check_text
from cogrs.yaml_document import check_document, parse_yaml

_KNOWN = {
    "": (
        *("import", "trial", "environment", "datalog", "actor_classes", "trial_params"),
        *("actor_options", "security"),
    ),
    "import": ("proto", "descriptor_set"),
    "trial": ("config_type", "pre_hooks", "accept_params"),
    "environment": ("config_type",),
    "datalog": ("type", "url", "fields"),
    "datalog.fields": ("exclude",),
    "security": NAMES,
}
"""What is read of a `cogment.yaml`, by section."""


@dataclass(kw_only=True)
class Config:
    """What runs by default, and who else is to be asked and told."""

    params: TrialParams = field(default_factory=TrialParams)
    """Parameters of a trial about which nothing else is said."""
    hooks: tuple[str, ...] = ()
    """Endpoints of pre-trial hooks, in the order in which they are asked."""
    classes: frozenset[str] | None = None
    """Declared actor classes; None allows any."""
    actor_options: Mapping[str, ActorOptions] = field(default_factory=dict)
    """What is done about actors that are late or gone, by their names."""
    class_options: Mapping[str, ActorOptions] = field(default_factory=dict)
    """The same by their classes, where nothing is said by name."""
    log_url: str = ""
    """Endpoint of the data log; empty if there is none."""
    log_exclude: tuple[str, ...] = ()
    """Fields of samples that the data log is not told."""
    accept_params: bool = False
    """Whether a caller that starts a trial may give its parameters, and so choose the endpoints
    that the orchestrator connects to and the local components that take part."""
    security: Security | None = None
    """Certificates and tokens, unless `serve` is given others."""

    def __post_init__(self) -> None:
        """Refuse what cannot be meant.

        Raises:
            TypeError: Something is of another type.
            ValueError: An endpoint is none, or a field or class does not exist.
        """
        check_kind("params", self.params, TrialParams, "TrialParams")
        for where in ("hooks", "log_exclude"):
            _check_strings(where, getattr(self, where))
        if self.classes is not None:
            _check_strings("classes", self.classes)
        check_text("log_url", self.log_url)
        check_kind("accept_params", self.accept_params, bool, "True or False")
        check_kind("security", self.security, Security | None, "a Security or None")
        for where in ("actor_options", "class_options"):
            check_named(where, getattr(self, where))
            for name, options in getattr(self, where).items():
                if not isinstance(options, ActorOptions):
                    kind = type(options).__name__
                    raise TypeError(f"{where}[{name!r}]: expected ActorOptions, got {kind}")
        unknown = sorted(set(self.class_options) - (self.classes or set(self.class_options)))
        if unknown:
            known = ", ".join(sorted(self.classes or ()))
            raise ValueError(f"class_options: expected classes of {known}; got {unknown[0]!r}")
        _check_endpoints("trial.pre_hooks", self.hooks)
        _check_endpoints("datalog.url", (self.log_url,) if self.log_url else ())
        unknown = sorted(set(self.log_exclude) - set(sample_fields()))
        if unknown:
            known = ", ".join(sample_fields())
            raise ValueError(
                f"datalog.fields.exclude: expected some of {known}; got {unknown[0]!r}"
            )


def _check_strings(what: str, given: Any) -> None:
    check_kind(what, given, Collection, "several strings")
    if isinstance(given, str):
        raise TypeError(f"{what}: expected several strings, got one")
    for each in given:
        check_kind(what, each, str, "several strings")


def _check_endpoints(what: str, endpoints: tuple[str, ...]) -> None:
    for endpoint in endpoints:
        try:
            parse_endpoint(what, endpoint)
        except InvalidError as error:
            raise ValueError(str(error)) from error


def read_config(source: Config | str | os.PathLike[str] | Mapping[str, Any] | None) -> Config:
    """Return a configuration, wherever it is.

    Args:
        source: A `Config`, the path of a `cogment.yaml`, what such a file says, or None for
            nothing in particular.

    Raises:
        OSError: The file cannot be read.
        TypeError: None of these.
        ValueError: Says what is wrong, and where.
    """
    if source is None:
        return Config()
    if isinstance(source, Config):
        return source
    if isinstance(source, Mapping):
        check_document(source)
        return _parse(source, Path())
    if not isinstance(source, (str, os.PathLike)):
        kind = type(source).__name__
        raise TypeError(f"config: expected a path, a mapping or a Config, got {kind}")
    path = Path(source)
    try:
        content = parse_yaml(read_bounded(path, CONFIG_BYTES).decode())
        return _parse({} if content is None else content, path.parent)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _parse(content: Any, root: Path) -> Config:
    _check_spelling(content)
    log, trial = _section(content, "datalog"), _section(content, "trial")
    kind = log.get("type", "none")
    if kind not in ("none", "grpc"):
        raise ValueError(f"datalog.type: expected 'grpc' or 'none', got {shown(kind)}")
    url = _optional_string("datalog.url", log, "url")
    if kind == "grpc" and not url:
        raise ValueError("datalog.url: expected an endpoint, got none")
    classes = _classes(content.get("actor_classes"))
    imports = _section(content, "import")
    types = UserTypes(
        root,
        _strings("import.proto", imports.get("proto")),
        _optional_string("import.descriptor_set", imports, "descriptor_set"),
    )
    params = _params(content, classes, types)
    by_name, by_class = read_options(content, params, types)
    return Config(
        params=params,
        actor_options=by_name,
        class_options=by_class,
        hooks=_strings("trial.pre_hooks", trial.get("pre_hooks")),
        accept_params=_flag("trial.accept_params", trial.get("accept_params")),
        security=_security(content, root),
        classes=None if classes is None else frozenset(classes),
        log_url=url or "" if kind == "grpc" else "",
        log_exclude=_strings("datalog.fields.exclude", _section(log, "fields").get("exclude")),
    )


def _security(content: Any, root: Path) -> Security | None:
    section = _section(content, "security")
    if not section:
        return None
    return Security(**read_security(section, root, lambda name: f"security.{name}"))


def _section(content: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(content, Mapping):
        raise ValueError(f"expected sections, got {type(content).__name__}")
    section = content.get(name)
    if section is None:
        return {}
    if not isinstance(section, Mapping):
        raise ValueError(f"{name}: expected a section, got {type(section).__name__}")
    return section


def _check_spelling(content: Any) -> None:
    """Refuse names that are almost those of what is read; others are for other programs."""
    for where, known in _KNOWN.items():
        section = content
        for part in filter(None, where.split(".")):
            section = _section(section, part)
        for name in section if isinstance(section, Mapping) else ():
            if name not in known and (like := get_close_matches(str(name)[:64], known, 1, 0.8)):
                place = f"{where}.{str(name)[:64]}" if where else str(name)[:64]
                raise ValueError(f"{place}: there is no such name: did you mean {like[0]!r}?")


def _optional_string(name: str, section: Mapping[str, Any], key: str) -> str | None:
    value = section.get(key)
    if not isinstance(value, str | None):
        raise ValueError(f"{name}: expected a string, got {shown(value)}")
    return value


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool | None):
        raise ValueError(f"{name}: expected true or false, got {shown(value)}")
    return bool(value)


def _strings(name: str, value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{name}: expected a list of strings, got {shown(value)}")
    return tuple(value)


def _classes(value: Any) -> dict[str, str | None] | None:
    """Return the types of the configs of all classes."""
    if value is None:
        return None
    named = isinstance(value, (list, tuple)) and all(
        isinstance(item, Mapping) and isinstance(item.get("id"), str) for item in value
    )
    if not named:
        raise ValueError("actor_classes: expected a list of sections that have an id")
    classes: dict[str, str | None] = {}
    for index, item in enumerate(value):
        if item["id"] in classes:
            raise ValueError(f"actor_classes[{index}].id: {shown(item['id'])} is there twice")
        where = f"actor_classes[{index}].config_type"
        classes[item["id"]] = _optional_string(where, item, "config_type")
    return classes


def _params(
    content: Mapping[str, Any], classes: Mapping[str, str | None] | None, types: UserTypes
) -> TrialParams:
    section = copy.deepcopy(dict(_section(content, "trial_params")))
    if not isinstance(section.get("actors"), list | tuple | None):
        kind = type(section["actors"]).__name__
        raise ValueError(f"trial_params.actors: expected a list, got {kind}")
    for owner, key, where, declared, type_name in _configs(content, section, classes or {}):
        encoded = types.encode(f"trial_params.{where}", declared, type_name, owner[key])
        owner[key] = {"content": base64.b64encode(encoded).decode()}
    try:
        return fill_message(TrialParams(), section)
    except ValueError as error:
        raise ValueError(f"trial_params: {error}") from error


def _configs(
    content: Mapping[str, Any], section: dict[str, Any], classes: Mapping[str, str | None]
) -> Iterator[tuple[dict[str, Any], str, str, str, str | None]]:
    """Yield the configs that are there: in what, as what, which they are, and their types."""
    trial, environment = _section(content, "trial"), _section(content, "environment")
    if section.get("trial_config") is not None:
        kind = _optional_string("trial.config_type", trial, "config_type")
        yield section, "trial_config", "trial_config", "trial.config_type", kind
    if dict(_section(section, "environment")).get("config") is not None:
        declared = "environment.config_type"
        kind = _optional_string(declared, environment, "config_type")
        yield section["environment"], "config", "environment.config", declared, kind
    for index, actor in enumerate(section.get("actors") or ()):
        if isinstance(actor, Mapping) and actor.get("config") is not None:
            name = actor.get("actor_class")
            declared = f"actor_classes, class {shown(name)}, config_type"
            where = f"actors[{index}].config"
            yield section["actors"][index], "config", where, declared, classes.get(str(name))
