"""Old spellings of arguments, which go on working with a DeprecationWarning."""

from __future__ import annotations

import warnings
from typing import TypeVar

Value = TypeVar("Value")


def renamed_argument(old: str, new: str, given: Value | None, value: Value) -> Value:
    """Return an argument that may still be given by its old name.

    Args:
        old: The old name.
        new: The new name, for the warning.
        given: What was given by the old name; None stands for nothing.
        value: What was given by the new name, or its default.
    """
    if given is None:
        return value
    warnings.warn(f"{old} is now {new}", DeprecationWarning, stacklevel=3)
    return given
