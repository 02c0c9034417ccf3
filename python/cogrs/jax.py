"""Batches of a replay memory as JAX arrays, without a copy. Needs JAX."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cogrs.namedtuples import ADVICE, by_field, replace_arrays

try:
    import jax
except ModuleNotFoundError as error:
    if error.name != "jax":
        raise
    raise ImportError(
        "cogrs.jax needs JAX, which is not installed: pip install jax, or follow "
        "https://docs.jax.dev/en/latest/installation.html for this machine",
        name="jax",
    ) from error

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["as_arrays"]

# These always have 64 bits; the memory and `importance_weights` take them as they are.
_KEPT = ("id", "probability")


def as_arrays(batch: Any) -> Any:
    """Return a batch of JAX arrays on the CPU that share the memory of a batch's arrays.

    JAX assumes that its arrays never change: do not write to the batch afterwards, nor fill it
    again with `out`. The memory lives as long as the JAX arrays do.

    Without `jax_enable_x64` JAX has no dtypes of 64 bits, and would silently cut numbers to 32
    bits. So `id` and `probability`, which always have 64 bits, then stay NumPy arrays, and other
    fields of 64 bits are refused.

    An array of records becomes a dict of arrays by field, nested as the records are, which is a
    pytree. These are copies, and so are arrays of ml_dtypes' dtypes (bfloat16, float8, int4).

    Args:
        batch: A named tuple as `ReplayMemory.get_batch`, `sample` and `episode`, or
            `ReplayMemoryServer.get_batch` return it, nested ones included. An array that is not
            aligned to 64 bytes is copied.

    Returns:
        The same named tuple, of JAX arrays of the same shapes and dtypes. Members that are None, a
        bool or an int stay, and so does an array of no elements whose dtype JAX does not have.

    Raises:
        TypeError: JAX does not have the dtype of a field (text, dates, long doubles), or not at
            present (64 bits); or `batch` is not a named tuple of arrays.
    """
    return replace_arrays(batch, lambda name, array: by_field(name, array, _share))


def _share(name: str, array: npt.NDArray[Any]) -> Any:
    if jax.dtypes.canonicalize_dtype(array.dtype) != array.dtype:
        if array.size == 0 or name in _KEPT:
            return array
        raise TypeError(
            f"{name}: expected a dtype of at most 32 bits, got {array.dtype}, which JAX would "
            "convert to 32 bits: use a 32-bit template, or call "
            'jax.config.update("jax_enable_x64", True)'
        )
    try:
        if array.dtype.isbuiltin == 2 or not array.flags.c_contiguous:
            return jax.numpy.array(array)
        return jax.dlpack.from_dlpack(array)
    except (BufferError, TypeError) as error:
        if array.size == 0:
            return array
        raise TypeError(
            f"{name}: expected a dtype that JAX has, got {array.dtype}: {ADVICE}"
        ) from error
