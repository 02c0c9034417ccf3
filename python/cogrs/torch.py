"""Batches of a replay memory as tensors of PyTorch, without a copy.

Needs PyTorch, which no other part of the package does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cogrs.arrays import array_of_tensor, tensor_over
from cogrs.namedtuples import ADVICE, by_field, replace_arrays
from cogrs.nested import apart, record_of

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

__all__ = ["RecordBuffer", "TupleBuffer", "as_arrays", "as_tensors", "buffers"]


class RecordBuffer(dict[str, Any]):
    """The tensors of an array of records by field, over the memory of that array.

    Attributes:
        array: The array, which `out=` fills; the tensors show what is in it.
    """

    def __init__(self, array: npt.NDArray[Any], fields: dict[str, Any]) -> None:
        """Keep an array with its tensors."""
        super().__init__(fields)
        self.array = array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Return the array; NumPy asks for it."""
        return np.array(self.array, dtype, copy=True) if copy else self.array[...]


class TupleBuffer(tuple[Any, ...]):
    """The tensors of an array of records that stand for a tuple, over the memory of that array.

    Attributes:
        array: The array, which `out=` fills; the tensors show what is in it.
    """

    array: npt.NDArray[Any]

    __array__ = RecordBuffer.__array__


def as_tensors(batch: Any) -> Any:
    """Give a batch's arrays as tensors on the CPU that share their memory.

    What is written to a tensor is seen in the array, and the other way round. The memory lives as
    long as either. dtypes stay, uint16 to uint64 too, of which PyTorch has few operations: indices
    and ids become what they take most often by `tensor.long()`, a copy. int4 and int2, which
    PyTorch cannot compute with, become int8 of the same values, uint4 and uint2 uint8.

    An array of records becomes a dict of tensors by field, nested as the records are. A field that
    does not lie at multiples of its size, as in packed records, is a copy: make the dtype with
    `align=True` to share it. A dict or tuple of arrays, as memories of Dict and Tuple spaces give
    them, becomes one of tensors.

    Args:
        batch: A named tuple as `ReplayMemory.get_batch`, `sample` and `episode`, or
            `ReplayMemoryServer.get_batch` return it, nested ones included.

    Returns:
        The same named tuple, of tensors of the same shapes. Members that are None, a bool or an int
        stay, and so does an array of no elements whose dtype PyTorch does not have.

    Raises:
        TypeError: PyTorch has no such dtype (text, dates, long doubles, another byte order, some of
            float8); the text names the field. Or something is no named tuple of arrays.
        ValueError: Negative strides, which no batch has.
    """
    return replace_arrays(batch, lambda name, array: by_field(name, array, _share))


def buffers(batch: Any) -> Any:
    """Make tensors of the shapes and dtypes of a batch, to be filled again and again.

    Where PyTorch has CUDA they lie in page-locked memory, from which `to("cuda",
    non_blocking=True)` copies while the program goes on; wait for such a copy before filling the
    buffers again, or take two in turn. Elsewhere it is plain memory. Give the arrays of `as_arrays`
    as `out=`: those are looked at quickest.

    Args:
        batch: A batch as `as_tensors` takes it; only shapes and dtypes are taken from it.

    Returns:
        The same named tuple, of tensors whose contents are arbitrary; other members as there. For
        an array of records, and for a dict of arrays, it is a `RecordBuffer`, for a tuple of arrays
        a `TupleBuffer`.

    Raises:
        TypeError: As `as_tensors`; or a field of a record does not lie at multiples of its size, so
            that no tensor shares its memory: make the dtype with `align=True`.
    """
    locked = torch.cuda.is_available()

    def room(like: npt.NDArray[Any]) -> npt.NDArray[Any]:
        raw = torch.empty(like.nbytes, dtype=torch.uint8, pin_memory=locked).numpy()
        return raw.view(like.dtype).reshape(like.shape)

    def like(name: str, given: Any) -> Any:
        array = given if isinstance(given, np.ndarray) else record_of(given)
        if array is None:
            expected = "a dict or tuple of arrays as a memory returned it"
            raise TypeError(f"{name}: expected {expected}, got another {type(given).__name__}")
        if isinstance(given, tuple):
            made = room(array)
            filled = TupleBuffer(by_field(name, apart(made), _share_in_place))
            filled.array = made
            return filled
        if array.dtype.names is not None:
            made = room(array)
            return RecordBuffer(made, by_field(name, apart(made), _share_in_place))
        shared = _share(name, array)
        # What PyTorch cannot hold has no elements, and stays.
        return torch.empty_like(shared, pin_memory=locked) if shared is not array else array

    return replace_arrays(batch, like)


def as_arrays(tensors: Any) -> Any:
    """Give a batch's tensors as arrays that share their memory: the way back of `as_tensors`.

    Made once, they are an `out=` that is filled some 100 us sooner than the tensors themselves.

    Args:
        tensors: A named tuple as `as_tensors` and `buffers` return it, in memory of the CPU.

    Returns:
        The same named tuple, of arrays; a `RecordBuffer` or `TupleBuffer` becomes its array of
        records, another dict or tuple of tensors one of arrays. What is no tensor stays, arrays
        too.

    Raises:
        TypeError: A tensor is on another device, sparse, or requires grad, or NumPy has no such
            dtype (bfloat16 and float8 need ml_dtypes); the text names it. Or no named tuple came.
    """

    def share(name: str, leaf: Any) -> Any:
        if isinstance(leaf, (RecordBuffer, TupleBuffer)):
            return leaf.array
        if isinstance(leaf, tuple):
            return tuple(share(f"{name}[{at}]", each) for at, each in enumerate(leaf))
        if isinstance(leaf, dict):
            return {field: share(f"{name}.{field}", each) for field, each in leaf.items()}
        return array_of_tensor(name, leaf) if isinstance(leaf, torch.Tensor) else leaf

    return replace_arrays(tensors, share, kind=(torch.Tensor, np.ndarray, dict, TupleBuffer))


def _share(name: str, array: npt.NDArray[Any]) -> Any:
    if not _can_share(array):
        array = array.copy()
    try:
        return tensor_over(array)
    except TypeError as error:
        if array.size == 0:
            return array
        raise TypeError(
            f"{name}: expected a dtype that PyTorch has, got {array.dtype}: {ADVICE}"
        ) from error


def _share_in_place(name: str, array: npt.NDArray[Any]) -> Any:
    if not _can_share(array):
        expected = "a field at multiples of its size, as in a dtype made with align=True"
        raise TypeError(f"{name}: expected {expected}, got one elsewhere in a packed record")
    return _share(name, array)


def _can_share(array: npt.NDArray[Any]) -> bool:
    whole = all(stride % array.itemsize == 0 for stride in array.strides)
    return whole and array.flags.aligned
