"""The interface of environments: reset, step, two spaces, and perhaps close."""

from __future__ import annotations

import logging
from typing import Any

_logger = logging.getLogger("cogrs.collector")


def check_env(env: Any) -> None:
    """Refuse an object that is not an environment.

    Raises:
        TypeError: It lacks a method or a space.
    """
    for name in ("reset", "step", "observation_space", "action_space"):
        if not hasattr(env, name):
            got = type(env).__name__
            raise TypeError(f"env: expected an environment of Gymnasium, got {got} without {name}")


def close_env(env: Any, name: str) -> None:
    """Close an environment, if it has a `close`; log what that raises, by this name."""
    try:
        if hasattr(env, "close"):
            env.close()
    except (Exception, SystemExit):  # raised by its own code; the environment is gone in any case
        _logger.warning("close() of %s failed", name, exc_info=True)


def attribute_of(env: Any, name: str) -> Any:
    """Return an attribute of an environment or of one of its wrappers; AttributeError without."""
    get = getattr(env, "get_wrapper_attr", None)
    return getattr(env, name) if get is None else get(name)


def set_attribute(env: Any, name: str, value: Any) -> None:
    """Set an attribute of the wrapper that has it, or of the environment."""
    assign = getattr(env, "set_wrapper_attr", None)
    if assign is None:
        setattr(env, name, value)
    else:
        assign(name, value)


def error_line(error: BaseException) -> str:
    """Return the type and the text of an exception."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
