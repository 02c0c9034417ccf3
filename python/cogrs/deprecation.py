"""Deprecated spellings, which work and warn."""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")


def renamed_argument(
    old: str, new: str, convert: Callable[[Any], Any] = lambda value: value
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Accept argument `new` of a function by its old name too; `convert` makes its value."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if old in kwargs:
                text = f"{old}= is now {new}="
                warnings.warn(text, DeprecationWarning, stacklevel=2)
                kwargs[new] = convert(kwargs.pop(old))
            return function(*args, **kwargs)

        return call

    return decorate
