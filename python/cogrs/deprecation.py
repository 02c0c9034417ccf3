"""Deprecated names of arguments and objects, which work and warn at the caller's line."""

from __future__ import annotations

import functools
import importlib
import inspect
import math
import warnings
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")


def warn_renamed(old: str, new: str) -> None:
    """Warn that `old` is now `new`, at the line that calls the caller of this function."""
    warnings.warn(f"{old} is now {new}", DeprecationWarning, stacklevel=3)


def renamed_argument(
    old: str, new: str, convert: Callable[[Any], Any] = lambda value: value
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Accept argument `new` of a function by its old name too; `convert` makes its value.

    A call that gives both raises TypeError.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        parameters = inspect.signature(function).parameters
        # The number of positional arguments among which `new` is one.
        number = math.inf
        if not any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
            number = list(parameters).index(new) + 1

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if old in kwargs:
                if new in kwargs or len(args) >= number:
                    raise TypeError(f"{old}: expected one of {old}= and {new}=, got both")
                warn_renamed(f"{old}=", f"{new}=")
                kwargs[new] = convert(kwargs.pop(old))
            return function(*args, **kwargs)

        return call

    return decorate


def former_module(former: str, *modules: str) -> Callable[[str], Any]:
    """Warn that a module has another name, and return a `__getattr__` for it.

    Args:
        former: The former name.
        *modules: The modules that have its names now, the present name first.
    """
    text = f"{former} is now {modules[0]}"
    warnings.warn(text, DeprecationWarning, stacklevel=3)

    def find(name: str) -> Any:
        for module in map(importlib.import_module, modules):
            if hasattr(module, name):
                return getattr(module, name)
        raise AttributeError(f"module {former!r} has no attribute {name!r}")

    return find
