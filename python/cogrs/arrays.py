"""Conversions of arguments to arrays, and between arrays and tensors."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from cogrs.dtypes import EXTENDED, carrier_of, dtype_of, kind_of, largest_of

if TYPE_CHECKING:
    import numpy.typing as npt


def refuse_mask(name: str, value: object) -> None:
    """Refuse masked values with a TypeError: NumPy would take the values below the mask."""
    ma = sys.modules.get("numpy.ma")  # else nothing is masked, and it takes long to import
    if ma is not None and isinstance(value, ma.MaskedArray) and ma.is_masked(value):
        raise TypeError(f"{name}: expected values without a mask, got a masked array")


def array_of(name: str, value: object) -> npt.NDArray[Any]:
    """Return an array of the dtype that NumPy finds in `value`; a tensor shares its memory.

    Raises:
        OverflowError, ValueError: As NumPy, for a ragged sequence or too large numbers.
        TypeError: Values are masked, or as `array_of_tensor`.
    """
    refuse_mask(name, value)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return array_of_tensor(name, value)
    try:
        return np.asarray(value)
    except (RuntimeError, TypeError, BufferError) as error:
        if torch is not None and isinstance(value, (list, tuple)):
            for each in value:
                if isinstance(each, torch.Tensor):
                    array_of_tensor(name, each)
        expected = f"{name}: expected an array, or a value that NumPy converts to one"
        raise TypeError(f"{expected}, got {type(value).__name__}: {error}") from error


def array_of_tensor(name: str, tensor: Any) -> npt.NDArray[Any]:
    """Return an array over the memory of a PyTorch tensor.

    Raises:
        TypeError: The tensor requires grad, is on another device, sparse or a lazy view, and the
            text says what to call first; or NumPy does not have its dtype.
    """
    torch = sys.modules["torch"]
    for found, what, call in (
        (tensor.layout != torch.strided, "a sparse tensor", "to_dense()"),
        (tensor.requires_grad, "a tensor that requires grad", "detach()"),
        (tensor.device.type != "cpu", f"a tensor on {tensor.device}", "cpu()"),
        (tensor.is_conj(), "a conjugated view", "resolve_conj()"),
        (tensor.is_neg(), "a negated view", "resolve_neg()"),
    ):
        if found:
            expected = f"{name}: expected an array on the CPU"
            raise TypeError(f"{expected}, got {what}: call {call} first")
    dtype = str(tensor.dtype).removeprefix("torch.")
    try:
        if dtype in EXTENDED:
            own = dtype_of(dtype, name)
            plain = getattr(torch, carrier_of(own).name)
            return np.asarray(tensor.view(plain).numpy()).view(own)
        return np.asarray(tensor.numpy())
    except (RuntimeError, TypeError, ValueError) as error:
        raise TypeError(
            f"{name}: expected a dtype that NumPy has, got {tensor.dtype}: {error}"
        ) from error


def tensor_over(array: npt.NDArray[Any]) -> Any:
    """Return a tensor over the memory of an array; TypeError if PyTorch does not have its dtype.

    int4 and int2 of ml_dtypes become int8, uint4 and uint2 uint8, since PyTorch cannot compute with
    them. PyTorch has to be imported before.
    """
    torch = sys.modules["torch"]
    if array.dtype.isbuiltin != 2:
        return torch.from_numpy(array)
    carried = torch.from_numpy(array.view(carrier_of(array.dtype)))
    if kind_of(array.dtype) != "f":
        return carried
    own = getattr(torch, array.dtype.name, None)
    if own is None:
        raise TypeError(f"PyTorch has no {array.dtype}")
    return carried.view(own)


def cast(name: str, given: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return a C-contiguous array of another dtype; ValueError if that does not hold the values."""
    with np.errstate(over="ignore", invalid="ignore"):
        made = given.astype(dtype, order="C", casting="unsafe")
    refuse_loss(name, given, made)
    return made


def refuse_loss(name: str, given: npt.NDArray[Any], made: npt.NDArray[Any]) -> None:
    """Refuse a 'same_kind' conversion that changed values beyond rounding, with a ValueError."""
    kind = kind_of(made.dtype)
    if kind in "iuSU":
        lost = made.astype(carrier_of(made.dtype), copy=False) != _plain(given)
    elif kind in "mM":
        lost = made.astype(given.dtype) != given
        if given.dtype.kind in "mM":
            lost &= ~np.isnat(given)
    elif kind in "fc":
        lost = _not_held(given, made)
    else:
        return
    if np.any(lost):
        first = given[lost].flat[0]
        raise ValueError(f"{name}: expected values that fit {made.dtype}, got {first}")


def _not_held(given: npt.NDArray[Any], made: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    lost: npt.NDArray[np.bool_]
    if made.dtype.isbuiltin != 2:
        lost = np.isfinite(given) & ~np.isfinite(made)
        return lost
    # Some floats of ml_dtypes lack infinity, NaN or a sign, or saturate at the largest number.
    wide, found = given.astype(np.float64), made.astype(np.float64)
    finite = np.isfinite(wide)
    beyond = np.abs(wide) > largest_of(made.dtype) * 7 / 6
    other = (found != wide) & ~(np.isnan(found) & np.isnan(wide))
    lost = np.where(finite, ~np.isfinite(found) | beyond, other)
    return lost


def _plain(given: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the same numbers in a NumPy dtype."""
    return given.astype(np.float64) if given.dtype.isbuiltin == 2 else given
