"""Values of rows as arrays of the right dtype and shape; Rust calls this for requests."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cogrs.arrays import array_of, cast, refuse_loss
from cogrs.dtypes import converts, kind_of
from cogrs.shown import shown


def convert(
    name: str, value: npt.ArrayLike, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> npt.NDArray[Any]:
    """Return a C-contiguous array of this dtype and shape, converted by the 'same_kind' rule.

    A Python number is taken for any dtype that holds it, Python integers in sequences for any dtype
    of integers, and an empty sequence, which has no dtype, for any.

    Raises:
        ValueError: The shape differs, or the dtype does not hold a value.
        TypeError: The dtype cannot be converted, or values are masked.
    """
    try:
        array = array_of(name, value)
    except (OverflowError, ValueError) as error:
        got = f"{type(value).__name__}: {error}"
        raise ValueError(f"{name}: expected {dtype} {shape}, got {got}") from None
    if array.shape != shape:
        raise ValueError(f"{name}: expected {dtype} {shape}, got {array.dtype} {array.shape}")
    if isinstance(value, (bool, int, float)):
        return _number(name, value, dtype)
    plain = not hasattr(value, "dtype")
    if plain and array.size == 0:
        return np.zeros(shape, dtype)
    if (
        plain
        and array.dtype == object
        and kind_of(dtype) in "iu"
        and all(type(each) is int for each in array.flat)
    ):
        raise ValueError(f"{name}: expected values that fit {dtype}, got larger integers")
    listed = plain and array.dtype.kind in "iu" and kind_of(dtype) in "iu"
    if not listed and not converts(array.dtype, dtype):
        raise TypeError(f"{name}: cannot convert {array.dtype} to {dtype}")
    return cast(name, array, dtype)


def _number(name: str, value: float, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            array = np.asarray(value).astype(dtype)
    except (OverflowError, ValueError) as error:
        raise ValueError(f"{name}: {shown(value)} does not fit {dtype}: {error}") from None
    if dtype.isbuiltin == 2:  # of ml_dtypes
        refuse_loss(name, np.asarray(value), array)
    elif array != value if dtype.kind in "iub" else np.isinf(array) and np.isfinite(value):
        raise ValueError(f"{name}: {shown(value)} does not fit {dtype}")
    return array
