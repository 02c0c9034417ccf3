"""The configuration of an orchestrator, in Python or as a `cogment.yaml`."""

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
from cogrs.orchestrator.service.actor_options import read_options
from cogrs.orchestrator.service.security import Security
from cogrs.orchestrator.service.security_config import NAMES, read_security
from cogrs.orchestrator.service.user_types import UserTypes
from cogrs.shown import shown
from cogrs.store.location import Location, locate
from cogrs.validation import check_flag, check_kind, check_named, check_text
from cogrs.yaml_document import check_document, parse_yaml

_KNOWN = {
    "": (
        *("import", "trial", "environment", "datalog", "actor_classes", "trial_params"),
        *("actor_options", "security"),
    ),
    "import": ("proto", "descriptor_set"),
    "trial": ("config_type", "pre_hooks", "accept_params"),
    "environment": ("config_type",),
    "datalog": ("type", "url", "files", "fields"),
    "datalog.fields": ("exclude",),
    "security": NAMES,
}
"""The keys of each section of a `cogment.yaml` that are read; others are ignored."""


@dataclass(kw_only=True)
class Config:
    """The default parameters of trials, and the hooks and data log that they use."""

    params: TrialParams = field(default_factory=TrialParams)
    """Parameters of trials, unless hooks or callers change them."""
    hooks: tuple[str, ...] = ()
    """Endpoints of pre-trial hooks, in the order of their calls."""
    classes: frozenset[str] | None = None
    """Declared actor classes; None allows any."""
    actor_options: Mapping[str, ActorOptions] = field(default_factory=dict)
    """Options of actors by name."""
    class_options: Mapping[str, ActorOptions] = field(default_factory=dict)
    """Options of actors by class, for those that the ones by name leave out."""
    log_url: str = ""
    """Endpoint of the data log, or ""."""
    store: Location | None = None
    """The store that trials are logged to, in place of a data log; see `cogrs.store.locate`."""
    log_exclude: tuple[str, ...] = ()
    """Fields of samples that the data log does not get."""
    accept_params: bool = False
    """Whether a caller that starts a trial may give its parameters, and so choose the endpoints
    that the orchestrator connects to and the local components that take part."""
    security: Security | None = None
    """Certificates and tokens, unless `serve` is given others."""

    def __post_init__(self) -> None:
        """Check all fields.

        Raises:
            TypeError: A field has the wrong type.
            ValueError: An endpoint is invalid, or a field of samples or a class does not exist.
        """
        check_kind("params", self.params, TrialParams, "TrialParams")
        for where in ("hooks", "log_exclude"):
            _check_strings(where, getattr(self, where))
        if self.classes is not None:
            _check_strings("classes", self.classes)
        check_text("log_url", self.log_url)
        check_kind("store", self.store, Location | None, "a Location or None")
        if self.store is not None and self.log_url:
            raise ValueError("store: expected either a store or a data log, got both")
        check_flag("accept_params", self.accept_params)
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
    check_kind(what, given, Collection, "a list of strings")
    if isinstance(given, str):
        raise TypeError(f"{what}: expected a list of strings, got a string")
    for each in given:
        check_kind(what, each, str, "a list of strings")


def _check_endpoints(what: str, endpoints: tuple[str, ...]) -> None:
    for endpoint in endpoints:
        try:
            parse_endpoint(what, endpoint)
        except InvalidError as error:
            raise ValueError(str(error)) from error


def read_config(source: Config | str | os.PathLike[str] | Mapping[str, Any] | None) -> Config:
    """Return a configuration.

    Args:
        source: A `Config`, the path of a `cogment.yaml`, the content of such a file, or None for an
            empty one.

    Raises:
        OSError: The file cannot be read.
        TypeError: `source` has another type.
        ValueError: The configuration is invalid; the text says where.
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
    if not isinstance(content, Mapping):
        raise ValueError(f"expected sections, got {type(content).__name__}")
    _check_spelling(content)
    kind = _read(content, "datalog.type", object)
    if kind is None:
        kind = "none"
    if kind not in ("none", "grpc", "store"):
        raise ValueError(f"datalog.type: expected 'grpc', 'store' or 'none', got {shown(kind)}")
    url = _read(content, "datalog.url", str) or ""
    if kind != "none" and not url:
        expected = "an endpoint" if kind == "grpc" else "a store, such as file:runs/trials"
        raise ValueError(f"datalog.url: expected {expected}, got none")
    files = _read(content, "datalog.files", str)
    classes = _classes(content.get("actor_classes"))
    descriptor_set = _read(content, "import.descriptor_set", str)
    types = UserTypes(root, _read_strings(content, "import.proto"), descriptor_set)
    params = _params(content, classes, types)
    by_name, by_class = read_options(content, params, types)
    security = _read(content, "security", Mapping)
    if security:
        security = Security(**read_security(security, root, lambda name: f"security.{name}"))
    return Config(
        params=params,
        actor_options=by_name,
        class_options=by_class,
        hooks=_read_strings(content, "trial.pre_hooks"),
        accept_params=_read(content, "trial.accept_params", bool) or False,
        security=security or None,
        classes=None if classes is None else frozenset(classes),
        log_url=url if kind == "grpc" else "",
        store=locate(url, files, "datalog.url") if kind == "store" else None,
        log_exclude=_read_strings(content, "datalog.fields.exclude"),
    )


_EXPECTED = {str: "a string", bool: "true or false", Mapping: "a section"}


def _read(content: Mapping[str, Any], path: str, kind: type[Any], name: str = "") -> Any:
    """Return the value at a dotted path, or None; ValueError if it has another type.

    Errors call it `name`, by default the path.
    """
    where, _, key = path.rpartition(".")
    section = _read(content, where, Mapping) if where else content
    value = None if section is None else section.get(key)
    if not isinstance(value, kind | None):
        got = type(value).__name__ if kind is Mapping else shown(value)
        raise ValueError(f"{name or path}: expected {_EXPECTED[kind]}, got {got}")
    return value


def _read_strings(content: Mapping[str, Any], path: str) -> tuple[str, ...]:
    value = _read(content, path, object)
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{path}: expected a list of strings, got {shown(value)}")
    return tuple(value)


def _check_spelling(content: Mapping[str, Any]) -> None:
    """Refuse keys that are similar to known ones; others are for other programs."""
    for where, known in _KNOWN.items():
        for name in (_read(content, where, Mapping) if where else content) or ():
            if name not in known and (like := get_close_matches(str(name)[:64], known, 1, 0.8)):
                place = f"{where}.{str(name)[:64]}" if where else str(name)[:64]
                raise ValueError(f"{place}: unknown name: did you mean {like[0]!r}?")


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
            raise ValueError(f"actor_classes[{index}].id: duplicate {shown(item['id'])}")
        where = f"actor_classes[{index}].config_type"
        classes[item["id"]] = _read(item, "config_type", str, where)
    return classes


def _params(
    content: Mapping[str, Any], classes: Mapping[str, str | None] | None, types: UserTypes
) -> TrialParams:
    section = copy.deepcopy(dict(_read(content, "trial_params", Mapping) or {}))
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
    """Yield for each config its section and key there, its name, and where its type is declared."""
    if section.get("trial_config") is not None:
        declared = "trial.config_type"
        yield section, "trial_config", "trial_config", declared, _read(content, declared, str)
    environment = _read(section, "environment", Mapping, "trial_params.environment") or {}
    if environment.get("config") is not None:
        declared = "environment.config_type"
        kind = _read(content, declared, str)
        yield section["environment"], "config", "environment.config", declared, kind
    for index, actor in enumerate(section.get("actors") or ()):
        if isinstance(actor, Mapping) and actor.get("config") is not None:
            name = actor.get("actor_class")
            declared = f"actor_classes, class {shown(name)}, config_type"
            where = f"actors[{index}].config"
            yield section["actors"][index], "config", where, declared, classes.get(str(name))
