"""Deprecated spellings, which work and warn."""

from __future__ import annotations

import functools
import importlib
import warnings
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")


def renamed_argument(
    old: str, new: str, convert: Callable[[Any], Any] = lambda value: value
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Accept argument `new` of a function by its old name too; `convert` makes its value.

    The function raises a TypeError if it is given by both names.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if old in kwargs:
                if new in kwargs:
                    raise TypeError(f"{old}: expected one of {old}= and {new}=, got both")
                text = f"{old}= is now {new}="
                warnings.warn(text, DeprecationWarning, stacklevel=2)
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
