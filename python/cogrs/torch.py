"""Batches of a replay memory as tensors of PyTorch, without a copy.

Needs PyTorch, which no other part of the package does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cogrs.members import ADVICE, replace_arrays

try:
    import torch
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ImportError(
        "cogrs.torch needs PyTorch, which is not installed: pip install torch, or what "
        "https://pytorch.org/get-started says for this machine",
        name="torch",
    ) from error

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["as_arrays", "as_tensors", "buffers"]


def as_tensors(batch: Any) -> Any:
    """Give a batch's arrays as tensors on the CPU that share their memory.

    What is written to a tensor is seen in the array, and the other way round. The memory lives as
    long as either. dtypes stay, uint16 to uint64 too, of which PyTorch has few operations: indices
    and ids become what they take most often by `tensor.long()`, a copy.

    Args:
        batch: A named tuple as `ReplayMemory.get_batch`, `sample` and `episode`, or
            `ReplayMemoryServer.get_batch` return it, nested ones included.

    Returns:
        The same named tuple, of tensors of the same shapes. Members that are None, a bool or an int
        stay, and so does an array of no elements whose dtype PyTorch does not have.

    Raises:
        TypeError: PyTorch has no such dtype (text, records, dates, long doubles, another byte
            order); the text names the field. Or something is no named tuple of arrays.
        ValueError: Negative strides, which no batch has.
    """
    return replace_arrays(batch, _share)


def buffers(batch: Any) -> Any:
    """Make tensors of the shapes and dtypes of a batch, to be filled again and again.

    Where PyTorch has CUDA they lie in page-locked memory, from which `to("cuda",
    non_blocking=True)` copies while the program goes on; wait for such a copy before filling the
    buffers again, or take two in turn. Elsewhere it is plain memory. Give the arrays of `as_arrays`
    as `out=`: those are looked at quickest.

    Args:
        batch: A batch as `as_tensors` takes it; only shapes and dtypes are taken from it.

    Returns:
        The same named tuple, of tensors whose contents are arbitrary; other members as there.

    Raises:
        TypeError: As `as_tensors`.
    """
    locked = torch.cuda.is_available()

    def like(name: str, array: npt.NDArray[Any]) -> Any:
        given = _share(name, array)
        # What PyTorch cannot hold has no elements, and stays.
        return torch.empty_like(given, pin_memory=locked) if given is not array else array

    return replace_arrays(batch, like)


def as_arrays(tensors: Any) -> Any:
    """Give a batch's tensors as arrays that share their memory: the way back of `as_tensors`.

    Made once, they are an `out=` that is filled some 100 us sooner than the tensors themselves.

    Args:
        tensors: A named tuple as `as_tensors` and `buffers` return it, in memory of the CPU.

    Returns:
        The same named tuple, of arrays. What is no tensor stays, arrays too.

    Raises:
        TypeError: A tensor is on another device, or no named tuple came.
        RuntimeError: A tensor wants gradients.
    """

    def share(name: str, leaf: Any) -> Any:
        return leaf.numpy() if isinstance(leaf, torch.Tensor) else leaf

    return replace_arrays(tensors, share, kind=(torch.Tensor, np.ndarray))


def _share(name: str, array: npt.NDArray[Any]) -> Any:
    try:
        return torch.from_numpy(array)
    except TypeError as error:
        if array.size == 0:
            return array
        raise TypeError(
            f"{name}: expected a dtype that PyTorch has, got {array.dtype}: {ADVICE}"
        ) from error
