"""Batches of a replay memory as arrays of JAX, without a copy.

Needs JAX, which no other part of the package but the demo does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cogrs.namedtuples import ADVICE, by_field, replace_arrays

try:
    import jax
except ModuleNotFoundError as error:
    if error.name != "jax":
        raise
    raise ImportError(
        "cogrs.jax needs JAX, which is not installed: pip install jax, or what "
        "https://docs.jax.dev/en/latest/installation.html says for this machine",
        name="jax",
    ) from error

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["as_arrays"]

# These have 64 bits whatever the templates are, and are for the memory and for
# `importance_weights`, which take them as they are.
_KEPT = ("id", "probability")


def as_arrays(batch: Any) -> Any:
    """Give a batch's arrays as JAX arrays on the CPU that share their memory.

    JAX takes it that its arrays never change: do not write to the batch afterwards, nor fill it
    again with `out`. The memory lives as long as the JAX arrays do.

    Without `jax_enable_x64` JAX has no dtypes of 64 bits, and would cut numbers to 32 bits in
    silence. So `id` and `probability`, which have 64 bits always, then stay NumPy arrays,
    and other fields of 64 bits are refused.

    An array of records becomes a dict of arrays by field, nested as the records are, which is a
    pytree. These are copies, and so are arrays of ml_dtypes' dtypes (bfloat16, float8, int4).

    Args:
        batch: A named tuple as `ReplayMemory.get_batch`, `sample` and `episode`, or
            `ReplayMemoryServer.get_batch` return it, nested ones included. An array that is not
            aligned to 64 bytes, as JAX wants it, is copied instead.

    Returns:
        The same named tuple, of JAX arrays of the same shapes and dtypes. Members that are None, a
        bool or an int stay, and so does an array of no elements whose dtype JAX does not have.

    Raises:
        TypeError: JAX has no such dtype (text, dates, long doubles), or not at present
            (64 bits); the text names the field. Or something is no named tuple of arrays.
    """
    return replace_arrays(batch, lambda name, array: by_field(name, array, _share))


def _share(name: str, array: npt.NDArray[Any]) -> Any:
    if jax.dtypes.canonicalize_dtype(array.dtype) != array.dtype:
        if array.size == 0 or name in _KEPT:
            return array
        raise TypeError(
            f"{name}: expected a dtype of at most 32 bits, got {array.dtype}, which JAX would cut: "
            'make the template one of 32 bits, or call jax.config.update("jax_enable_x64", True)'
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
