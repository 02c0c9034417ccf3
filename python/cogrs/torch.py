"""Batches of a replay memory as PyTorch tensors, without a copy. Needs PyTorch."""

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
        "cogrs.torch needs PyTorch, which is not installed: pip install torch, or follow "
        "https://pytorch.org/get-started for this machine",
        name="torch",
    ) from error

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["RecordBuffer", "TupleBuffer", "as_arrays", "as_tensors", "buffers"]


class RecordBuffer(dict[str, Any]):
    """The tensors of an array of records by field, over the memory of that array.

    Attributes:
        array: The array that `out=` fills.
    """

    def __init__(self, array: npt.NDArray[Any], fields: dict[str, Any]) -> None:
        super().__init__(fields)
        self.array = array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Return the array; NumPy asks for it."""
        return np.array(self.array, dtype, copy=True) if copy else self.array[...]


class TupleBuffer(tuple[Any, ...]):
    """The tensors of an array of records that represents a tuple, over the memory of that array.

    Attributes:
        array: The array that `out=` fills.
    """

    array: npt.NDArray[Any]

    __array__ = RecordBuffer.__array__


def as_tensors(batch: Any) -> Any:
    """Return a batch of tensors on the CPU that share the memory of a batch's arrays.

    Writing to a tensor changes the array, and the other way round; the memory lives as long as
    either. dtypes stay, uint16 to uint64 too, for which PyTorch has few operations: convert indices
    and ids by `tensor.long()`, a copy. int4 and int2, which PyTorch cannot compute with, become
    int8 of the same values, uint4 and uint2 uint8.

    An array of records becomes a dict of tensors by field, nested as the records are. A field that
    is not aligned, as in packed records, is a copy: create the dtype with `align=True` to share it.
    A dict or tuple of arrays becomes a dict or tuple of tensors.

    Args:
        batch: A named tuple as `ReplayMemory.get_batch`, `sample` and `episode`, or
            `ReplayMemoryServer.get_batch` return it, nested ones included.

    Returns:
        The same named tuple, of tensors of the same shapes. Members that are None, a bool or an int
        stay, and so does an array of no elements whose dtype PyTorch does not have.

    Raises:
        TypeError: PyTorch does not have the dtype of a field (text, dates, long doubles, another
            byte order, some of float8); or `batch` is not a named tuple of arrays.
        ValueError: An array has negative strides, as no batch has.
    """
    return replace_arrays(batch, lambda name, array: by_field(name, array, _share))


def buffers(batch: Any) -> Any:
    """Return uninitialized tensors with the shapes and dtypes of a batch, for `out=`.

    With CUDA they lie in page-locked memory, from which `to("cuda", non_blocking=True)` copies
    while the program goes on; wait for such a copy before filling the buffers again, or use two in
    turn. `out=` takes the arrays of `as_arrays` fastest.

    Args:
        batch: A batch as `as_tensors` takes it.

    Returns:
        The same named tuple, of tensors with arbitrary contents; other members stay. An array of
        records, and a dict of arrays, becomes a `RecordBuffer`, a tuple of arrays a `TupleBuffer`.

    Raises:
        TypeError: As `as_tensors`; or a field of a record is not aligned, so that a tensor cannot
            share its memory: create the dtype with `align=True`.
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
        # An empty array of a dtype that PyTorch does not have stays.
        return torch.empty_like(shared, pin_memory=locked) if shared is not array else array

    return replace_arrays(batch, like)


def as_arrays(tensors: Any) -> Any:
    """Return a batch of arrays that share the memory of tensors: the inverse of `as_tensors`.

    As `out=`, such arrays are filled some 100 us faster than the tensors themselves.

    Args:
        tensors: A named tuple as `as_tensors` and `buffers` return it, in memory of the CPU.

    Returns:
        The same named tuple, of arrays; a `RecordBuffer` or `TupleBuffer` becomes its array of
        records, another dict or tuple of tensors one of arrays. Other members stay.

    Raises:
        TypeError: A tensor is on another device, sparse, or requires grad, or NumPy does not have
            its dtype (bfloat16 and float8 need ml_dtypes); or `tensors` is not a named tuple.
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
        expected = "an aligned field, as in a dtype that was created with align=True"
        raise TypeError(f"{name}: expected {expected}, got an unaligned one in a packed record")
    return _share(name, array)


def _can_share(array: npt.NDArray[Any]) -> bool:
    whole = all(stride % array.itemsize == 0 for stride in array.strides)
    return whole and array.flags.aligned
