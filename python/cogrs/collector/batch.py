"""What a callback is given: arrays over the memory that games write to and read from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Arrays = dict[str, npt.NDArray[Any]]


class Fields(dict[str, "npt.NDArray[Any]"]):
    """Arrays of a reply by key. Setting a key writes into its array, which is what games read."""

    def __setitem__(self, key: str, value: npt.ArrayLike) -> None:
        """`self[key][:] = value`; a key that is not in the description is a KeyError."""
        self[key][...] = value


class Batch(list["Arrays"]):
    """One dict of arrays for each state of a history, oldest first; one row for each game.

    The arrays are views of memory that is used again: they are valid until the callback returns.
    `copy()` gives a batch to keep.
    """

    @classmethod
    def of(cls, arrays: Sequence[Arrays], rows: int, kind: type[Arrays]) -> Self:
        """The first rows of all arrays."""
        if rows == next((len(array) for array in arrays[0].values()), rows):
            return cls(kind(each) for each in arrays)
        return cls(kind({key: array[:rows] for key, array in each.items()}) for each in arrays)

    def copy(self) -> Self:
        """The same values in memory of their own."""
        return type(self)({key: array.copy() for key, array in each.items()} for each in self)
