"""What an orchestrator is told at its start: by Python, or by a `cogment.yaml`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from google.protobuf import json_format

from cogrs.api.common_pb2 import TrialParams
from cogrs.orchestrator.engine.endpoint import parse_endpoint
from cogrs.orchestrator.engine.errors import InvalidError
from cogrs.orchestrator.engine.journal import fields_of_samples


@dataclass(kw_only=True)
class Config:
    """What runs by default, and who else is to be asked and told."""

    params: TrialParams = field(default_factory=TrialParams)
    """Parameters of a trial about which nothing else is said."""
    hooks: tuple[str, ...] = ()
    """Endpoints of pre-trial hooks, in the order in which they are asked."""
    classes: frozenset[str] | None = None
    """Declared actor classes; None allows any."""
    log_url: str = ""
    """Endpoint of the data log; empty if there is none."""
    log_exclude: tuple[str, ...] = ()
    """Fields of samples that the data log is not told."""

    def __post_init__(self) -> None:
        """Refuse what cannot be meant.

        Raises:
            ValueError: An endpoint is none, or a field does not exist.
        """
        _check_endpoints("trial.pre_hooks", self.hooks)
        _check_endpoints("datalog.url", (self.log_url,) if self.log_url else ())
        unknown = sorted(set(self.log_exclude) - set(fields_of_samples()))
        if unknown:
            known = ", ".join(fields_of_samples())
            raise ValueError(
                f"datalog.fields.exclude: expected some of {known}; got {unknown[0]!r}"
            )


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
        return _parse(source)
    if not isinstance(source, (str, os.PathLike)):
        kind = type(source).__name__
        raise TypeError(f"config: expected a path, a mapping or a Config, got {kind}")
    try:
        content = yaml.safe_load(Path(source).read_text(encoding="utf-8")) or {}
        return _parse(content)
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError(f"{os.fspath(source)}: {error}") from error


def _parse(content: Any) -> Config:
    log = _section(content, "datalog")
    kind = log.get("type", "none")
    if kind not in ("none", "grpc"):
        raise ValueError(f"datalog.type: expected 'grpc' or 'none', got {kind!r}")
    if kind == "grpc" and not log.get("url"):
        raise ValueError("datalog.url: expected an endpoint, got none")
    return Config(
        params=_params(_section(content, "trial_params")),
        hooks=_strings("trial.pre_hooks", _section(content, "trial").get("pre_hooks")),
        classes=_classes(content.get("actor_classes")),
        log_url=str(log["url"]) if kind == "grpc" else "",
        log_exclude=_strings("datalog.fields.exclude", _section(log, "fields").get("exclude")),
    )


def _section(content: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(content, Mapping):
        raise ValueError(f"expected sections, got {type(content).__name__}")
    section = content.get(name) or {}
    if not isinstance(section, Mapping):
        raise ValueError(f"{name}: expected a section, got {type(section).__name__}")
    return section


def _strings(name: str, value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{name}: expected a list of strings, got {value!r}")
    return tuple(value)


def _classes(value: Any) -> frozenset[str] | None:
    if value is None:
        return None
    named = isinstance(value, (list, tuple)) and all(
        isinstance(item, Mapping) and isinstance(item.get("id"), str) for item in value
    )
    if not named:
        raise ValueError("actor_classes: expected a list of sections that have an id")
    return frozenset(item["id"] for item in value)


def _params(section: Mapping[str, Any]) -> TrialParams:
    _check_no_configs(section)
    try:
        return json_format.ParseDict(dict(section), TrialParams())
    except json_format.ParseError as error:
        raise ValueError(f"trial_params: {error}") from error


def _check_no_configs(section: Mapping[str, Any]) -> None:
    """Refuse configs of the user's own types: there is nothing to make bytes of them with."""
    environment = section.get("environment") or {}
    found = ["trial_config"] if section.get("trial_config") is not None else []
    if isinstance(environment, Mapping) and environment.get("config") is not None:
        found.append("environment.config")
    for index, actor in enumerate(section.get("actors") or ()):
        if isinstance(actor, Mapping) and actor.get("config") is not None:
            found.append(f"actors[{index}].config")
    if found:
        raise ValueError(
            f"trial_params.{found[0]}: configs of your own types cannot be read from YAML; give "
            "their bytes in a cogrs.orchestrator.Config, or let a pre-trial hook set them"
        )
