"""Values of rows that are not yet arrays of the right kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt


def convert(
    name: str, value: npt.ArrayLike, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> npt.NDArray[Any]:
    """A C-contiguous array of this dtype and shape, converted by the 'same_kind' rule.

    A Python number is taken for any dtype that holds it.

    Raises:
        ValueError: The shape differs, or a number does not fit.
        TypeError: The dtype cannot be converted.
    """
    array = np.asarray(value)
    if array.shape != shape:
        raise ValueError(f"{name}: expected {dtype} {shape}, got {array.dtype} {array.shape}")
    if isinstance(value, (bool, int, float)):
        return _number(name, value, dtype)
    if not np.can_cast(array.dtype, dtype, "same_kind"):
        raise TypeError(f"{name}: cannot convert {array.dtype} to {dtype}")
    return np.ascontiguousarray(array, dtype).reshape(shape)


def _number(name: str, value: float, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            array = np.asarray(value).astype(dtype)
    except (OverflowError, ValueError) as error:
        raise ValueError(f"{name}: {value!r} does not fit {dtype}: {error}") from None
    if array != value if dtype.kind in "iub" else np.isinf(array) and np.isfinite(value):
        raise ValueError(f"{name}: {value!r} does not fit {dtype}")
    return array
