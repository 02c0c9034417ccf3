"""Creates a server from a TOML file, for `cogrs replay-server` and for learners."""

from __future__ import annotations

import re
import tomllib
from typing import TYPE_CHECKING, Any

import numpy as np

from cogrs._core import RateLimiter
from cogrs.files import read_bounded
from cogrs.limits import CONFIG_BYTES, CONFIG_DEPTH
from cogrs.replay.convert import template_of
from cogrs.replay.server import ReplayMemoryServer
from cogrs.replay.wire import FIELDS, SETTINGS
from cogrs.shown import shown
from cogrs.validation import check_count, check_path
from cogrs.yaml_document import check_document

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping
    from pathlib import Path

_CHAIN = re.compile(
    r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+)"""
    f"{{{CONFIG_DEPTH}}}"
)
"""A key of too many parts: tomllib keeps all prefixes of a key, memory of their square."""

_LOOPBACK = "tcp://127.0.0.1:*"
_OPTIONS = (
    "uuid",
    "seed",
    "hwm",
    "pub_hwm",
    "ids",
    "nstep",
    "insecure",
    "recurrent_period",
    "max_bytes",
)
_LISTS = ("allow", "allow_samplers")
_ENDPOINTS = ("pub_endpoint", "rep_endpoint", "pull_endpoint")
_TOP = (*_OPTIONS, *_ENDPOINTS, "max_step", "n_caches", "key", *_LISTS, "logfile", "storage")
_TABLES = ("templates", "settings", "limiter", "sequences", "recurrent", "compress")
_LIMITERS: dict[tuple[str, ...], Callable[..., RateLimiter]] = {
    ("samples_per_insert", "min_size", "error_buffer"): RateLimiter,
    ("min_size",): RateLimiter.min_size,
    ("queue",): lambda queue: RateLimiter.queue(check_count("queue", queue, most=2**64 - 1)),
}
"""What makes a rate limiter, by the keys that it is made of."""


def start_server(path: str | os.PathLike[str]) -> ReplayMemoryServer:
    """Create and start the server that a TOML file describes.

    Its keys are the arguments of `ReplayMemoryServer` and of `start`; `templates` is a table with a
    `dtype` and a `shape` for each field of an entry, `settings` one of properties of the memory,
    `limiter` one of the arguments of `RateLimiter`, or of `min_size` or `queue` alone; `sequences`
    one of those of `ReplayMemory.sample_sequences`; `compress` one of codecs by field; `recurrent`
    has a `dtype` and a `shape`, and is 0 before step 0; `logfile` is a file that lines are appended
    to. Paths are relative to the file.

    Raises:
        TypeError: `path` is not a path.
        ValueError: The file is not TOML, or a key is unknown, missing, or has a value that is not
            valid. The message begins with file and key.
        OSError: A file cannot be read or written, or an endpoint cannot be bound.
        MemoryError: As `ReplayMemory`.
        RuntimeError: As `ReplayMemoryServer`.
    """
    where = check_path("path", path)
    try:
        text = read_bounded(where, CONFIG_BYTES).decode()
        if _CHAIN.search(text):
            raise ValueError(f"expected keys of at most {CONFIG_DEPTH} parts")
        given = tomllib.loads(text)
        check_document(given)
        return _started(given, where.parent)
    except RecursionError:
        raise ValueError(f"{where}: expected fewer levels of nested values") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{where}: {error}") from None


def _started(given: dict[str, Any], folder: Path) -> ReplayMemoryServer:
    _check_names("", given, (*_TOP, *_TABLES))
    settings = _table(given, "settings")
    _check_names("settings.", settings, (*SETTINGS, "fields"))
    if {"fields", "cache_flags"} <= settings.keys():
        raise ValueError("settings.fields: expected only one of fields and cache_flags, got both")
    templates = _table(given, "templates")
    _check_names("templates.", templates, FIELDS)
    state, action, reward, prob, value, qvest, info = (
        _template(f"templates.{name}", templates.get(name)) for name in FIELDS
    )
    if "n_caches" not in given:
        raise ValueError("n_caches: expected an integer, got nothing")
    options = {name: given[name] for name in _OPTIONS if name in given}
    pub, rep, pull = (given.get(name, _LOOPBACK) for name in _ENDPOINTS)
    server = ReplayMemoryServer(
        state,
        action,
        reward,
        prob,
        value,
        qvest,
        info,
        given.get("max_step", 0),
        pub,
        given["n_caches"],
        key=_path(given, "key", folder),
        allow=_allow(given, "allow", folder),
        allow_samplers=_allow(given, "allow_samplers", folder),
        limiter=_limiter(given),
        sequences=_table(given, "sequences") if "sequences" in given else None,
        recurrent=_recurrent(given),
        compress=_table(given, "compress") if "compress" in given else None,
        storage=_path(given, "storage", folder),
        **options,
    )
    try:
        _set(server, settings)
        logfile = _path(given, "logfile", folder)
        if logfile is not None:
            server.set_logfile(logfile, "a")
        return server.start(rep, pull)
    except BaseException:
        server.close()
        raise


def _template(name: str, given: object) -> np.ndarray[Any, Any]:
    if not isinstance(given, dict):
        raise ValueError(f"{name}: expected a table of dtype and shape, got {_told(given)}")
    _check_names(f"{name}.", given, ("dtype", "shape"))
    text, shape = given.get("dtype"), given.get("shape", [])
    if not isinstance(text, str):
        raise ValueError(f"{name}.dtype: expected a dtype of NumPy, got {_told(text)}")
    if not isinstance(shape, list) or not all(type(each) is int and each >= 0 for each in shape):
        raise ValueError(f"{name}.shape: expected a list of integers >= 0, got {_told(shape)}")
    return template_of(name, text, shape)


def _recurrent(given: Mapping[str, Any]) -> np.ndarray[Any, Any] | None:
    if "recurrent" not in given:
        return None
    template = _template("recurrent", given["recurrent"])
    return np.broadcast_to(np.zeros((), template.dtype), template.shape)


def _set(server: ReplayMemoryServer, settings: Mapping[str, Any]) -> None:
    for name, value in settings.items():
        try:
            setattr(server.rem, name, value)
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"settings.{name}: {error}") from None


def _limiter(given: Mapping[str, Any]) -> RateLimiter | None:
    if "limiter" not in given:
        return None
    table = _table(given, "limiter")
    for names, make in _LIMITERS.items():
        if table.keys() == set(names):
            try:
                # A pair is a list in TOML.
                values = [table[name] for name in names]
                return make(*(tuple(each) if isinstance(each, list) else each for each in values))
            except (TypeError, ValueError, OverflowError) as error:
                raise ValueError(f"limiter.{error}") from None
    expected = "; or ".join(", ".join(names) for names in _LIMITERS)
    raise ValueError(f"limiter: expected {expected}; got {', '.join(table) or 'nothing'}")


def _allow(given: Mapping[str, Any], name: str, folder: Path) -> Any:
    value = given.get(name)
    if not isinstance(value, list):
        return _path(given, name, folder)
    # In a list, a text that ends in .key is the name of a file; others are keys.
    return [
        folder / each if isinstance(each, str) and each.endswith(".key") else each for each in value
    ]


def _path(given: Mapping[str, Any], name: str, folder: Path) -> Path | None:
    value = given.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError(f"{name}: expected a path, got {_told(value)}")
    return folder / value


def _table(given: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = given.get(name, {})
    if not isinstance(value, dict):
        raise ValueError(f"{name}: expected a table, got {_told(value)}")
    return value


def _check_names(prefix: str, given: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            raise ValueError(f"{prefix}{name[:64]}: expected one of {', '.join(known)}")


def _told(value: object) -> str:
    return "nothing" if value is None else shown(value)
