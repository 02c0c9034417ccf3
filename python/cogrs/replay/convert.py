"""Converts arguments to arrays of a field's dtype and shape, or refuses them with the reason.

Rust reads arrays of the right dtype and shape, and Python numbers, in place, and calls this module
for everything else.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cogrs.arrays import array_of, cast
from cogrs.dtypes import carrier_of, converts, dtype_of, dtype_text, kind_of
from cogrs.limits import ENTRY_BYTES
from cogrs.nested import fill, is_container, record_of
from cogrs.shown import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

_DIMS = 30
"""Dimensions of an entry: the 32 that every NumPy has, less those for rows and stacked frames."""

_logger = logging.getLogger("cogrs.replay")


def warn_zero_weights(zero: int, drawable: int) -> None:
    """Log that most closed steps cannot be drawn, and what to set."""
    _logger.warning(
        "%s of %s closed steps have weight 0 and are not drawn, because their value equals "
        "their return: set priority_epsilon above 0 or new_priority='max', or store values",
        f"{zero:,}",
        f"{drawable:,}",
    )


def convert(
    name: str, value: object, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> npt.NDArray[Any]:
    """Return a C-contiguous array of `dtype` and `shape` with the contents of `value`.

    For records, mappings from names to arrays are taken too, and tuples of arrays for records that
    stand for tuples. Dtypes are converted by NumPy's 'same_kind' rule; Python integers may go into
    any integer dtype that holds them, and a value without elements or dtype, such as `[]`, into any
    dtype. Values are not broadcast.

    Raises:
        ValueError: The shape differs, or `dtype` does not hold a number.
        TypeError: The dtype cannot be converted, or values are masked.
    """
    if isinstance(value, Mapping) or (dtype.names and isinstance(value, (tuple, list))):
        made = np.zeros(shape, dtype)
        if fill(name, made, value, convert):
            return made
    given = as_array(name, value, dtype, shape)
    if given.shape != shape:
        raise ValueError(_mismatch(name, dtype, shape, given))
    if given.dtype == dtype:
        return given.copy(order="C")
    plain = not hasattr(value, "dtype")
    if plain and given.size == 0:
        return np.zeros(shape, dtype)
    kind = kind_of(dtype)
    if kind == "V" and given.dtype.newbyteorder("=") != dtype:
        # NumPy would match the fields by their order, not by their names.
        raise TypeError(_mismatch(name, dtype, shape, given))
    inexact = given.dtype.kind == "f" and kind in "iu"
    if plain and (inexact or (given.dtype == object and kind in "iufc")):
        given = _from_integers(name, value, given, dtype)
    from_python = plain and given.dtype.kind in "iu" and kind in "iu"
    if not from_python and not converts(given.dtype, dtype):
        raise TypeError(_mismatch(name, dtype, shape, given))
    return cast(name, given, dtype)


def numbers(name: str, value: object) -> npt.NDArray[np.float64]:
    """Return `value` as `reals` does; a ValueError if it has more than one dimension."""
    made = reals(name, value)
    if made.ndim > 1:
        raise ValueError(f"{name}: expected a number or one dimension, got shape {made.shape}")
    return made


def reals(name: str, value: object) -> npt.NDArray[np.float64]:
    """Return `value` as a float64 array; a ValueError if it is ragged, a TypeError if not real."""
    given = as_array(name, value, np.dtype(np.float64), None)
    if given.size and given.dtype == object and _holds_only_integers(given):
        raise ValueError(f"{name}: expected numbers that float64 holds, got larger integers")
    if kind_of(given.dtype) not in "iuf":
        raise TypeError(f"{name}: expected real numbers, got {given.dtype}")
    return np.array(given, np.float64, order="C")


def sequence_errors(
    errors: object, mask: object, rows: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_] | None]:
    """Return errors of the steps of `rows` sequences, and which of them count.

    Raises:
        ValueError: They do not have two dimensions, `rows` rows, or the same shape.
        TypeError: Errors are not real numbers, or the mask is not of bool.
    """
    made = reals("priority", errors)
    if made.ndim != 2 or len(made) != rows:
        raise ValueError(f"priority: expected errors of shape ({rows}, length), got {made.shape}")
    if mask is None:
        return made, None
    given = as_array("mask", mask, np.dtype(np.bool_), made.shape)
    if given.dtype != np.bool_:
        raise TypeError(f"mask: expected bool, got {given.dtype}")
    if given.shape != made.shape:
        raise ValueError(f"mask: expected the shape of priority {made.shape}, got {given.shape}")
    return made, np.ascontiguousarray(given)


def integers(name: str, value: object, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return `value` as integers of `dtype`; a ValueError if they do not fit, else a TypeError."""
    given = as_array(name, value, dtype, None)
    if not hasattr(value, "dtype"):
        given = _exact(value, given)
        if given.dtype == object and not _holds_only_integers(given):
            raise TypeError(f"{name}: expected integers, got other values")
    elif given.dtype == object:
        raise TypeError(f"{name}: expected integers, got {given.dtype}")
    if given.size and given.dtype.kind not in "iuO":
        raise TypeError(f"{name}: expected integers, got {given.dtype}")
    if given.size and not _fit(given, dtype):
        bounds = np.iinfo(dtype)
        raise ValueError(
            f"{name}: expected integers in [{bounds.min}, {bounds.max}], got one out of range"
        )
    return given.astype(dtype)


def refuse_flags(name: str, value: object) -> None:
    """Refuse truth values, with a TypeError, for a number that is easily taken for a flag."""
    given = as_array(name, value, np.dtype(np.float32), None)
    if given.dtype == np.bool_:
        got = type(value).__name__ if given.ndim == 0 else f"{given.dtype} {given.shape}"
        raise TypeError(f"{name}: expected a number, or None where it terminated, got {got}")


def view(name: str, value: object) -> npt.NDArray[Any]:
    """Return an array over the memory of `value`, such as a tensor of another library on the CPU.

    Raises:
        TypeError: It has no memory that NumPy can see, or only a copy of it.
    """
    if type(value) in (dict, tuple):
        record = record_of(value) if is_container(value) else None
        if record is None:
            expected = "a dict or tuple of arrays as this call returns it"
            raise TypeError(f"{name}: expected {expected}, got another {type(value).__name__}")
        return record
    expected = f"{name}: expected an array, or CPU memory that NumPy sees without a copy"
    if not (hasattr(value, "__array__") or hasattr(value, "__array_interface__")):
        raise TypeError(f"{expected}, got {type(value).__name__}")
    try:
        made = array_of(name, value)
    except TypeError:
        raise
    except Exception as error:  # of the other library
        raise TypeError(f"{expected}, got {type(value).__name__}: {error}") from error
    if made.size and made.flags.owndata and not isinstance(value, np.ndarray):
        # A copy would be filled, and lost.
        raise TypeError(f"{expected}, got {type(value).__name__}, which gives a copy")
    return made


def template(name: str, value: object) -> tuple[np.dtype[Any], str, tuple[int, ...]]:
    """Return the dtype of a field in native byte order, the same as text, and its shape.

    Raises:
        TypeError: It is not an array, or `cogrs.dtypes.dtype_text` refuses its dtype.
    """
    try:
        given = array_of(name, value)
    except (OverflowError, ValueError) as error:
        raise TypeError(f"{name}: expected an array, got {error}") from error
    return *native(name, given.dtype), given.shape


def _size(dtype: np.dtype[Any], shape: Sequence[int]) -> int:
    return dtype.itemsize * math.prod(max(each, 1) for each in shape)


def template_of(name: str, text: str, shape: Sequence[int]) -> npt.NDArray[Any]:
    """Return an array of a dtype and a shape that a file or a peer describes, without its memory.

    `text` is the dtype, as `cogrs.dtypes.dtype_of` takes it. A ValueError, which begins with
    `name`, if it is unknown, or a value of it would be too large.
    """
    dtype = dtype_of(text, f"{name}.dtype")
    # First the dimensions: a product of a million numbers takes minutes.
    if len(shape) > _DIMS or _size(dtype, shape) > ENTRY_BYTES:
        expected = f"at most {_DIMS} dimensions and {ENTRY_BYTES >> 30} GiB"
        raise ValueError(
            f"{name}.shape: expected {expected}, got {shown(text)} {shown(list(shape))}"
        )
    return np.broadcast_to(np.empty((), dtype), tuple(shape))


def native(name: str, dtype: np.dtype[Any]) -> tuple[np.dtype[Any], str]:
    """Return a dtype in native byte order, and the same as text; errors as of `dtype_text`."""
    try:
        native_dtype = dtype.newbyteorder("=")
    except TypeError as error:  # text of any length, and dtypes of other libraries
        expected = "a dtype of fixed size without objects"
        raise TypeError(f"{name}: expected {expected}, got {dtype}") from error
    # The same object where it can be: NumPy compares different ones part by part, in each call.
    made = dtype if dtype.isnative else native_dtype
    return made, dtype_text(made, name)


def as_array(
    name: str, value: object, dtype: np.dtype[Any], shape: tuple[int, ...] | None
) -> npt.NDArray[Any]:
    """Return an array of the dtype that NumPy finds in `value`; the other arguments are for errors.

    Raises:
        ValueError: The sequence is ragged, or numbers are beyond NumPy.
        TypeError: Values are masked, or `cogrs.arrays.array_of` refuses a tensor.
    """
    try:
        return array_of(name, value)
    except OverflowError as error:
        raise ValueError(f"{name}: expected numbers that NumPy holds, got {error}") from error
    except ValueError as error:
        expected = f"{dtype} {shape}" if shape is not None else f"{dtype} numbers"
        raise ValueError(
            f"{name}: expected {expected}, got {type(value).__name__}: {error}"
        ) from error


def _from_integers(
    name: str, value: object, given: npt.NDArray[Any], dtype: np.dtype[Any]
) -> npt.NDArray[Any]:
    """Return Python integers without a fitting dtype of NumPy as `dtype`; others as they are."""
    exact = _exact(value, given)
    if exact.dtype != object or not _holds_only_integers(exact):
        return given
    try:
        if dtype.kind in "fc":
            return exact.astype(np.float64)
        if _fit(exact, dtype):
            return exact.astype(dtype)
        beyond = exact.min() if exact.min() < np.iinfo(carrier_of(dtype)).min else exact.max()
    except OverflowError:
        beyond = max(exact.flat, key=abs)
    raise ValueError(f"{name}: expected integers that fit {dtype}, got {shown(beyond)}")


def _exact(value: object, given: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return Python integers as objects: NumPy makes floats of them where some exceed int64."""
    if given.dtype.kind != "f" or given.size == 0:
        return given
    exact = np.asarray(value, object)
    return exact if _holds_only_integers(exact) else given


def _fit(given: npt.NDArray[Any], dtype: np.dtype[Any]) -> bool:
    bounds = np.iinfo(carrier_of(dtype))
    return int(bounds.min) <= int(given.min()) and int(given.max()) <= int(bounds.max)


def _holds_only_integers(given: npt.NDArray[Any]) -> bool:
    return all(type(item) is int or isinstance(item, np.integer) for item in given.flat)


def _mismatch(
    name: str, dtype: np.dtype[Any], shape: tuple[int, ...], given: npt.NDArray[Any]
) -> str:
    return f"{name}: expected {dtype} {shape}, got {given.dtype} {given.shape}"
