"""Action masks: which actions of a Gymnasium space are legal, as a flat int8 array.

Its entries are, by space:

- Discrete: n entries; entry i is for the action `start + i`.
- MultiDiscrete: the entries of each component, as of a Discrete, in C order of the components.
- MultiBinary: one entry per bit, in C order: 0 and 1 require this value, 2 leaves the bit free.
- Tuple and Dict: the entries of each part, in the order of the space's iteration.
- Box and other spaces have no entries.

Except in MultiBinary, an entry is 1 if the action is legal, else 0. `Space.sample(mask=...)` takes
such an array for a Discrete or a MultiBinary, a tuple of arrays, nested like its dimensions, for a
MultiDiscrete, and a tuple or dict of its parts' masks for a Tuple or Dict; None makes all legal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cogrs.arrays import array_of
from cogrs.dtypes import kind_of
from cogrs.optional_dependency import import_optional
from cogrs.spaces import parts_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    Entries = npt.NDArray[np.int8]

ACTION_MASK = "action_mask"
"""The key of masks in infos and observations."""

_FREE_BIT = 2


@dataclass(frozen=True)
class MaskLayout:
    """The layout of the mask of a space, or of a part of it.

    Attributes:
        space: The space as text, for errors.
        kind: "choices" for a Discrete, "bits" for a MultiBinary, "parts" for a Tuple, a Dict, a
            MultiDiscrete (its components), and, with no parts, for spaces without masks.
        size: Number of entries.
        keys: Keys of the parts of a Dict.
        parts: Layouts of the parts.
    """

    space: str
    kind: str
    size: int
    keys: tuple[Any, ...] = ()
    parts: tuple[MaskLayout, ...] = ()

    @classmethod
    def of(cls, space: Any) -> MaskLayout:
        """Return the layout of a space's mask; ImportError without Gymnasium."""
        spaces, text = _spaces(), str(space)
        if isinstance(space, spaces.Discrete):
            return cls(text, "choices", int(space.n))
        if isinstance(space, spaces.MultiBinary):
            return cls(text, "bits", math.prod(space.shape))
        if isinstance(space, spaces.MultiDiscrete):
            return _of_components(text, space.nvec)
        keys = tuple(space) if isinstance(space, spaces.Dict) else ()
        parts = tuple(cls.of(part) for _, part in _parts(space))
        return cls(text, "parts", sum(part.size for part in parts), keys, parts)

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> MaskLayout:
        """Return the layout from the JSON of its `dataclasses.asdict`."""
        parts = tuple(cls.from_json(part) for part in given["parts"])
        return cls(**{**given, "keys": tuple(given["keys"]), "parts": parts})

    def all_legal(self) -> Entries:
        """Return the mask with which every action is legal: int8 `(size,)`."""
        if self.kind == "parts":
            return _joined([part.all_legal() for part in self.parts])
        return np.full(self.size, _FREE_BIT if self.kind == "bits" else 1, np.int8)

    def flatten(self, mask: Any, name: str = ACTION_MASK) -> Entries:
        """Return a mask in its flat form: int8 `(size,)`, the caller's own.

        Args:
            mask: The mask as `Space.sample(mask=...)` takes it, lists in place of tuples too; or
                one array of all entries. Booleans, integers and finite floats of any dtype: values
                other than 0 are legal; for a MultiBinary 0, 1 or 2. None is `all_legal`.
            name: Its name in errors.

        Raises:
            ValueError: The number of entries or parts is wrong; an entry is NaN or infinite, or not
                0, 1 or 2 for a MultiBinary; or the space has no mask.
            TypeError: The entries are not numbers.
        """
        if mask is None:
            return self.all_legal()
        if self.kind == "parts":
            if not self.parts:
                raise ValueError(f"{name}: expected no mask for {self.space}, got one")
            parts = self._masks_of_parts(mask, name)
            if parts is not None:
                return _joined(
                    [part.flatten(each, f"{name}[{key!r}]") for part, (key, each) in parts]
                )
        return self._flat(_numbers(mask, name), name)

    def _masks_of_parts(
        self, mask: Any, name: str
    ) -> Iterator[tuple[MaskLayout, tuple[Any, Any]]] | None:
        """Return each part with its key and mask, or None for an array of all entries."""
        if isinstance(mask, Mapping) and self.keys:
            if set(mask) != set(self.keys):
                raise ValueError(
                    f"{name}: expected masks of {list(self.keys)} for {self.space}, "
                    f"got {list(mask)}"
                )
            return zip(self.parts, ((key, mask[key]) for key in self.keys), strict=True)
        if not isinstance(mask, tuple | list) or not any(map(_is_nested, mask)):
            return None
        if len(mask) != len(self.parts) or self.keys:
            expected = f"a mask for each of {len(self.parts)} parts"
            raise ValueError(f"{name}: expected {expected} of {self.space}, got {len(mask)}")
        return zip(self.parts, enumerate(mask), strict=True)

    def _flat(self, entries: npt.NDArray[Any], name: str) -> Entries:
        if entries.size != self.size or entries.ndim == 0:
            got = entries.size if entries.ndim else "a number"
            raise ValueError(f"{name}: expected {self.size} entries for {self.space}, got {got}")
        entries = entries.reshape(-1)
        if self.kind == "parts":
            ends = np.cumsum([part.size for part in self.parts])[:-1]
            pieces = zip(self.parts, np.split(entries, ends), strict=True)
            return _joined([part._flat(piece, name) for part, piece in pieces if part.size])
        if self.kind == "choices":
            legal: Entries = np.not_equal(entries, 0).astype(np.int8)
            return legal
        wrong = ~np.isin(entries, (0, 1, _FREE_BIT))
        if wrong.any():
            raise ValueError(
                f"{name}: expected entries 0, 1 or 2 for {self.space}, got {entries[wrong][0]}"
            )
        return entries.astype(np.int8)


def refuse_illegal(space: Any, mask: Any, action: Any, name: str) -> None:
    """Refuse an action that is illegal by a mask.

    If no value of a choice is legal, the first one counts as legal, as in `Space.sample`.

    Args:
        space: The space of the action.
        mask: As for `MaskLayout.flatten`.
        action: The action.
        name: Its name in errors.

    Raises:
        ValueError: The action is illegal, or as `MaskLayout.flatten`.
        TypeError: As `MaskLayout.flatten`.
    """
    flat = MaskLayout.of(space).flatten(mask)
    for where, legal, value in _choices(space, flat, action, ""):
        if value not in legal:
            raise ValueError(f"{name}: expected a legal one of {legal}{where}, got {value}")


def _choices(
    space: Any, flat: Entries, action: Any, where: str
) -> Iterator[tuple[str, list[int], int]]:
    """Yield place, legal values and value of each choice in an action."""
    spaces = _spaces()
    if isinstance(space, spaces.Discrete):
        yield where, _legal(flat, int(space.start)), int(action)
    elif isinstance(space, spaces.MultiDiscrete):
        end = 0
        # Without dimensions it has one component, whose index is ().
        for index in np.ndindex(space.nvec.shape):
            begin, end = end, end + int(space.nvec[index])
            legal = _legal(flat[begin:end], int(space.start[index]))
            yield f"{where} at {list(index)}", legal, int(np.asarray(action)[index])
    elif isinstance(space, spaces.MultiBinary):
        bits = np.asarray(action).reshape(-1).tolist()
        for at, (entry, bit) in enumerate(zip(flat.tolist(), bits, strict=True)):
            place = [int(each) for each in np.unravel_index(at, space.shape)]
            yield f"{where} at {place}", [0, 1] if entry == _FREE_BIT else [entry], int(bit)
    else:
        end = 0
        for key, part in _parts(space):
            begin, end = end, end + MaskLayout.of(part).size
            yield from _choices(part, flat[begin:end], action[key], f"{where} in {key!r}")


def _legal(entries: Entries, start: int) -> list[int]:
    return (np.flatnonzero(entries) + start).tolist() or [start]


def _of_components(text: str, nvec: Any) -> MaskLayout:
    if np.ndim(nvec) == 0:
        return MaskLayout(text, "choices", int(nvec))
    parts = tuple(_of_components(text, each) for each in nvec)
    return MaskLayout(text, "parts", int(np.sum(nvec)), (), parts)


def _parts(space: Any) -> Sequence[tuple[Any, Any]]:
    """Return the keys and parts of a Tuple or Dict, or an empty list."""
    parts = parts_of(space)
    return list(parts.items() if isinstance(parts, dict) else enumerate(parts or ()))


def _is_nested(part: Any) -> bool:
    """Return whether a value is the mask of a part, and not an entry."""
    return part is None or isinstance(part, Mapping | tuple | list) or np.ndim(part) > 0


def _joined(parts: Sequence[Entries]) -> Entries:
    return np.concatenate([np.zeros(0, np.int8), *parts])


def _numbers(mask: Any, name: str) -> npt.NDArray[Any]:
    try:
        array = array_of(name, mask)
    except ValueError as error:
        raise ValueError(f"{name}: expected an array of entries: {error}") from None
    kind = kind_of(array.dtype)
    if kind not in "biuf" and array.size:
        got = type(mask).__name__ if kind == "O" else array.dtype
        raise TypeError(f"{name}: expected numbers or booleans, got {got}")
    if kind == "f" and not np.isfinite(array).all():
        got = array[~np.isfinite(array)][0]
        raise ValueError(f"{name}: expected finite entries, got {got}")
    return array


def _spaces() -> Any:
    return import_optional("gymnasium.spaces", "action masks need Gymnasium", "gymnasium")
