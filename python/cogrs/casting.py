"""What conversions of arguments have in common, whichever part of the package they are for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import os


def refuse_mask(name: str, value: object) -> None:
    """Refuse masked values: NumPy would take what lies below the mask.

    Raises:
        TypeError: Some are masked; the text names `name`.
    """
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise TypeError(f"{name}: expected values without a mask, got a masked array")


def refuse_loss(name: str, given: npt.NDArray[Any], made: npt.NDArray[Any]) -> None:
    """Refuse what 'same_kind' lets through and yet changes the value beyond rounding.

    Raises:
        ValueError: `made` does not hold what was `given`; the text names `name`.
    """
    if made.dtype.kind in "iuSU":
        lost = made != given
    elif made.dtype.kind in "mM":
        lost = made.astype(given.dtype) != given
        if given.dtype.kind in "mM":
            lost &= ~np.isnat(given)
    elif made.dtype.kind in "fc":
        lost = np.isfinite(given) & ~np.isfinite(made)
    else:
        return
    if np.any(lost):
        first = given[lost].flat[0]
        raise ValueError(f"{name}: expected values that fit {made.dtype}, got {first}")


def path_of(name: str, value: str | os.PathLike[str]) -> Path:
    """Return an argument as a path.

    Raises:
        TypeError: It is none; the text names `name`.
    """
    try:
        return Path(value)
    except TypeError:
        raise TypeError(f"{name}: expected a path, got {type(value).__name__}") from None


def shown(value: object) -> str:
    """A value as messages show it: short, also where Python refuses to print so many digits."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}..."
