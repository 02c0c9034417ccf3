"""What conversions of arguments have in common, whichever part of the package they are for."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def refuse_loss(name: str, given: npt.NDArray[Any], made: npt.NDArray[Any]) -> None:
    """Refuse what 'same_kind' lets through and yet changes the value beyond rounding.

    Raises:
        ValueError: `made` does not hold what was `given`; the text names `name`.
    """
    if made.dtype.kind in "iuSU":
        lost = made != given
    elif made.dtype.kind in "mM":
        lost = (made.astype(given.dtype) != given) & ~np.isnat(given)
    elif made.dtype.kind in "fc":
        lost = np.isfinite(given) & ~np.isfinite(made)
    else:
        return
    if np.any(lost):
        first = given[lost].flat[0]
        raise ValueError(f"{name}: expected values that fit {made.dtype}, got {first}")
