"""Arguments that have a new name: the old one still works, and warns."""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")


def renamed(
    old: str, new: str, convert: Callable[[Any], Any] = lambda value: value
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Accept argument `new` of a function by its old name too; `convert` makes its new value."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            if old in kwargs:
                text = f"{old}= of {function.__name__} is now {new}="
                warnings.warn(text, DeprecationWarning, stacklevel=2)
                kwargs[new] = convert(kwargs.pop(old))
            return function(*args, **kwargs)

        return call

    return decorate


def timeout_of_wait(wait: Any) -> Any:
    """Return the timeout of `get_batch` for a value of `wait`, where None meant not to wait."""
    return 0.0 if wait is None else wait or 1e-9  # with 0 it waited, and raised TimeoutError
