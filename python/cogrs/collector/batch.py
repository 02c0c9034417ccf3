"""The arrays of a callback, over the memory that games write to and read from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Self, overload

import numpy as np

from cogrs.arrays import refuse_mask

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    Arrays = dict[str, npt.NDArray[Any]]


def _refuse(*_: object, **__: object) -> NoReturn:
    raise TypeError(
        "a reply is written in place: reply[0][key][:] = value, or reply[0][key] = value"
    )


class ReplyArrays(dict[str, "npt.NDArray[Any]"]):
    """Arrays of a reply by key. Setting a key writes into its array, which games read."""

    def __setitem__(self, key: str, value: npt.ArrayLike) -> None:
        """Do `self[key][:] = value`.

        Raises:
            KeyError: The description has no such key.
            ValueError: An array of integers is given fractions, or the shape differs.
            TypeError: Values are masked.
        """
        refuse_mask(key, value)
        target: Any = self[key]
        if isinstance(target, np.ndarray) and target.dtype.kind in "iu":
            array = np.asarray(value)
            if array.dtype.kind == "f" and (array != np.trunc(array)).any():
                raise ValueError(f"{key}: expected whole numbers for {target.dtype}, got {value!r}")
        # A tensor takes the values of tensors and numbers alone.
        given = not isinstance(target, np.ndarray) and isinstance(value, np.ndarray | list | tuple)
        target[...] = target.new_tensor(value) if given else value

    def update(self, *args: Any, **values: Any) -> None:
        """Set several keys."""
        for key, value in dict(*args, **values).items():
            self[key] = value

    def __ior__(self, values: Any) -> Self:  # type: ignore[override,misc]
        self.update(values)
        return self

    def setdefault(self, key: str, default: Any = None) -> npt.NDArray[Any]:
        """Set a key, and return its array."""
        if default is not None:
            self[key] = default
        return self[key]

    __delitem__ = pop = popitem = clear = _refuse


class Batch(list["Arrays"]):
    """One dict of arrays for each state of a history, oldest first; one row for each game.

    The arrays, or tensors, are views of memory that is used again: they are valid until the
    callback returns. `copy()` returns a batch to keep.
    """

    def copy(self) -> Batch:
        """Return the same values in memory of their own."""
        return Batch({key: _copied(array) for key, array in each.items()} for each in self)


def _copied(array: Any) -> Any:
    return array.copy() if isinstance(array, np.ndarray) else array.clone()


class Reply(Batch):
    """A batch of arrays that are written in place, and cannot be replaced by others."""

    def __setitem__(self, at: Any, value: Any) -> None:
        """Allow `reply[0] |= {...}`, which puts the same object back, and nothing else."""
        if self[at] is not value:
            _refuse()

    __delitem__ = __iadd__ = __imul__ = _refuse
    append = extend = insert = pop = remove = clear = sort = reverse = _refuse


class BatchBuffer:
    """The arrays of one of the batches that a collector fills in turn.

    Each delivery gets views of its own: changes of their shapes do not stay.
    """

    def __init__(
        self, inputs: Sequence[Arrays], replies: Sequence[Arrays] | None, rows: int
    ) -> None:
        self._rows = rows
        self._inputs = [_whole(each) for each in inputs]
        self._replies = None if replies is None else [_whole(each) for each in replies]

    def views(self, rows: int) -> tuple[Batch, Reply | None]:
        """Return the first rows of the inputs, and of the replies if there are any."""
        whole = rows == self._rows
        inputs = [_views(each, None if whole else rows) for each in self._inputs]
        if self._replies is None:
            return Batch(inputs), None
        replies = [ReplyArrays(_views(each, None if whole else rows)) for each in self._replies]
        return Batch(inputs), Reply(replies)


def _whole(arrays: Arrays) -> list[tuple[str, Callable[[], Any]]]:
    # A method of the array that makes a view costs half as much as indexing.
    return [
        (key, array.view if isinstance(array, np.ndarray) else array.detach)
        for key, array in arrays.items()
    ]


def _views(arrays: list[tuple[str, Callable[[], Any]]], rows: int | None) -> Arrays:
    views = {}
    for key, view in arrays:
        views[key] = view() if rows is None else view()[:rows]
    return views


class Buffers(Sequence[Batch]):
    """The batches that a collector fills in turn, each created when it is indexed."""

    def __init__(self, count: int, make: Callable[[int], Batch]) -> None:
        self._range = range(count)
        self._make = make

    def __len__(self) -> int:
        return len(self._range)

    @overload
    def __getitem__(self, at: int) -> Batch: ...

    @overload
    def __getitem__(self, at: slice) -> list[Batch]: ...

    def __getitem__(self, at: int | slice) -> Batch | list[Batch]:
        if isinstance(at, slice):
            return [self._make(number) for number in self._range[at]]
        return self._make(self._range[at])
