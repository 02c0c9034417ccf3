"""Batches as tensors of PyTorch, and their copies on a GPU."""

from __future__ import annotations

import operator
import warnings
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from cogrs.arrays import tensor_over
from cogrs.collector.batch import Batch
from cogrs.optional_dependency import import_optional

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cogrs.collector.batch import Arrays


def torch_module() -> Any:
    """Import and return PyTorch; ImportError if it is not installed."""
    return import_optional("torch", "use_numpy=False needs PyTorch", "torch, or use use_numpy=True")


def as_tensors(arrays: Sequence[Arrays]) -> list[Arrays]:
    """Return tensors over the memory of arrays; TypeError if PyTorch has no such dtype."""
    torch_module()
    return [{key: _shared(key, array) for key, array in each.items()} for each in arrays]


def _shared(key: str, array: Any) -> Any:
    try:
        return tensor_over(array)
    except TypeError as error:
        raise TypeError(
            f"{key}: expected a dtype that PyTorch has, got {array.dtype}: use use_numpy=True"
        ) from error


def device_of(gpu: int | None) -> Any:
    """Return a device by its number; None without CUDA, with a warning.

    TypeError if `gpu` is not an integer, ValueError if the device does not exist.
    """
    if gpu is None:
        return None
    try:
        index = operator.index(gpu)
    except TypeError:
        raise TypeError(f"gpu: expected an integer or None, got {type(gpu).__name__}") from None
    if index < 0:
        raise ValueError(f"gpu: expected an integer >= 0, got {index}")
    if not has_cuda():
        text = f"gpu={index}: CUDA is not available, so input_batch_gpu is input_batch"
        warnings.warn(text, RuntimeWarning, stacklevel=4)
        return None
    torch = torch_module()
    count = torch.cuda.device_count()
    if index >= count:
        raise ValueError(f"gpu: expected an integer in [0, {count}), got {index}")
    return torch.device("cuda", index)


def has_cuda() -> bool:
    """Return whether PyTorch is installed and finds a GPU of CUDA."""
    try:
        return bool(torch_module().cuda.is_available())
    except ImportError:
        return False


class DeviceCopy:
    """A batch on a GPU, to which it is copied while the program goes on."""

    def __init__(self, batch: Batch, device: Any) -> None:
        """Start the copy, on the current stream."""
        torch = torch_module()

        def moved(value: Any) -> Any:
            tensor = torch.from_numpy(value) if isinstance(value, np.ndarray) else value
            return tensor.to(device, non_blocking=True)

        self.batch = Batch({key: moved(value) for key, value in each.items()} for each in batch)
        self._done = torch.cuda.Event()
        self._done.record(torch.cuda.current_stream(device))

    def wait(self) -> None:
        """Wait until the copied memory is no longer read."""
        self._done.synchronize()


def pin(owner: object, memories: Iterable[tuple[int, int]]) -> None:
    """Lock memory to its pages while `owner` lives; if CUDA refuses, warn: copies are slower."""
    torch = torch_module()
    runtime = torch.cuda.cudart()
    for address, size in memories:
        refusal = int(runtime.cudaHostRegister(address, size, 0))
        if refusal:
            text = f"CUDA cannot page-lock {size} bytes of batches: error {refusal}"
            warnings.warn(text, RuntimeWarning, stacklevel=3)
        else:
            weakref.finalize(owner, runtime.cudaHostUnregister, address).atexit = False
