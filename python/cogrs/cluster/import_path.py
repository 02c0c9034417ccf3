"""Functions of users by their import paths, `package.module:function`."""

from __future__ import annotations

import importlib
import platform
import re
import sys
import traceback
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_PATH = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def is_import_path(text: str) -> bool:
    """Return whether text has the form of an import path."""
    return _PATH.fullmatch(text) is not None


def import_path(name: str, given: object) -> str | Callable[..., Any]:
    """Return the import path of a function of a module, or the path itself.

    A callable that other processes cannot import is returned as it is; see `check_path_only`.

    Raises:
        TypeError: The argument `name` is neither text nor a callable.
        ValueError: It is not an import path.
    """
    if isinstance(given, str):
        if not _PATH.fullmatch(given):
            raise ValueError(f"{name}: expected 'package.module:function', got {given!r}")
        return given
    if not callable(given):
        expected = "'package.module:function' or a function"
        raise TypeError(f"{name}: expected {expected}, got {type(given).__name__}")
    path = _path_of(given)
    importable = _PATH.fullmatch(path) and not path.startswith("__main__:")
    return path if importable and _is_there(path, given) else given


def check_path_only(name: str, given: str | Callable[..., Any]) -> None:
    """Raise a ValueError for a callable that other processes cannot import."""
    if not isinstance(given, str):
        raise ValueError(
            f"{name}: expected a function of a module that other processes can import, got "
            f"{_path_of(given)}: put it into a module of its own"
        )


def _is_there(path: str, given: object) -> bool:
    """Return whether a path leads to a callable; that of a class that was shipped does not."""
    module, _, inner = path.partition(":")
    found: Any = sys.modules.get(module)
    for part in inner.split("."):
        found = getattr(found, part, None)
    return found is given


def _path_of(given: object) -> str:
    return f"{getattr(given, '__module__', '')}:{getattr(given, '__qualname__', '')}"


def imported(name: str, path: str | Callable[..., Any]) -> Callable[..., Any]:
    """Import and return a callable; one that is given is returned.

    Raises:
        ImportError: It cannot be imported here; the text has this node's name and the traceback.
        TypeError: It is not a callable.
    """
    if not isinstance(path, str):
        return path
    module, _, inner = path.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in inner.split("."):
            found = getattr(found, part)
    except Exception as error:
        trace = "".join(traceback.format_exception(error)).rstrip()
        where = f"{name}: cannot import {path!r} on node {platform.node()}"
        raise ImportError(f"{where}:\n{trace}") from error
    if not callable(found):
        raise TypeError(f"{name}: expected a callable at {path!r}, got {type(found).__name__}")
    return found  # type: ignore[no-any-return]
