"""Functions of users by their import paths, `package.module:function`."""

from __future__ import annotations

import importlib
import platform
import re
import traceback
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_PATH = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def import_path(name: str, given: object) -> str:
    """Return the import path of a function of a module, or the path itself.

    Raises:
        TypeError: The argument `name` is neither text nor a callable.
        ValueError: It is not an import path, or other processes cannot import the callable.
    """
    if isinstance(given, str):
        if not _PATH.fullmatch(given):
            raise ValueError(f"{name}: expected 'package.module:function', got {given!r}")
        return given
    if not callable(given):
        expected = "'package.module:function' or a function"
        raise TypeError(f"{name}: expected {expected}, got {type(given).__name__}")
    path = f"{getattr(given, '__module__', '')}:{getattr(given, '__qualname__', '')}"
    if not _PATH.fullmatch(path) or path.startswith("__main__:"):
        raise ValueError(
            f"{name}: expected a function of a module that other processes can import, got "
            f"{path}: put it into a module of its own"
        )
    return path


def imported(name: str, path: str) -> Callable[..., Any]:
    """Import and return a callable.

    Raises:
        ImportError: It cannot be imported here; the text has this node's name and the traceback.
        TypeError: It is not a callable.
    """
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
