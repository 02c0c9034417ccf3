"""Environments and policies as the command line names them."""

from __future__ import annotations

import importlib
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cogrs.optional_dependency import import_optional
from cogrs.suggest import suggestion

if TYPE_CHECKING:
    from collections.abc import Callable


def import_callable(what: str, where: str) -> Callable[..., Any]:
    """Return the function, or class, at `module:function`; the working directory is searched too.

    Raises:
        ValueError: There is no such module or function, or it cannot be called.
    """
    module, colon, name = where.partition(":")
    if not (module and colon and name):
        raise ValueError(f"{what}: expected module:function, got {where!r}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        home = importlib.import_module(module)
    except ImportError as error:
        raise ValueError(f"{what}: {where!r}: {error}") from error
    found = getattr(home, name, None)
    if not callable(found):
        close = suggestion(name, vars(home))
        expected = f"{what}: expected a function {name!r} in {module!r}, got {found!r}"
        raise ValueError("; ".join(filter(None, (expected, close))))
    return found  # type: ignore[no-any-return]


def environment_maker(name: str) -> Callable[[], Any]:
    """Return what makes the environment of an id of Gymnasium's, or of `module:function`.

    An id of another package has the module in front that registers it: `ale_py:ALE/Pong-v5`. An
    environment of an id that can render arrays is made to.

    Raises:
        ImportError: Gymnasium, or what the environment needs, is not installed.
        ValueError: The name is unknown.
    """
    if ":" in name and not name.partition(":")[2].count("/") and "-v" not in name:
        return import_callable("environment", name)
    gymnasium = import_optional("gymnasium", "ids of environments need Gymnasium", "gymnasium")
    if name.count(":") > 1:
        raise ValueError(f"environment: expected ID, MODULE:ID or module:function, got {name!r}")
    try:
        env = gymnasium.make(name)
    except ModuleNotFoundError as error:
        raise ValueError(f"environment: {name!r}: {error}") from error
    except gymnasium.error.Error as error:
        text = f"environment: {' '.join(str(error).split())}"
        if isinstance(error, gymnasium.error.NamespaceNotFound) and ":" not in name:
            text += "; put the module in front that registers it, such as 'ale_py:ALE/Pong-v5'"
        raise ValueError(text) from error
    modes = env.metadata.get("render_modes") or ()
    env.close()
    options = {"render_mode": "rgb_array"} if "rgb_array" in modes else {}
    return partial(gymnasium.make, name, **options)


def renders(make: Callable[[], Any]) -> bool:
    """Return whether an environment renders arrays, by making one."""
    env = make()
    try:
        if getattr(env, "render_mode", None) != "rgb_array":
            return False
        env.reset()
        return isinstance(env.render(), np.ndarray)
    finally:
        env.close()
