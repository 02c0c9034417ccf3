"""Values of Gymnasium spaces, as trials carry them: arrays, and mappings of arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from cogrs.optional import imported
from cogrs.sdk.payload import ArrayCodec, Decoded

if TYPE_CHECKING:
    import gymnasium


def carried(value: Any) -> Any:
    """Return a value of a space as it is carried: a tuple as a mapping from "0", "1" and so on."""
    if isinstance(value, Mapping):
        return {str(name): carried(each) for name, each in value.items()}
    if isinstance(value, tuple):
        return {str(index): carried(each) for index, each in enumerate(value)}
    return value


def fitting(space: gymnasium.Space[Any], value: Any, what: str) -> Any:
    """Return a value that was carried as its space has it.

    Args:
        space: The space.
        value: An array of another dtype of the same kind, too; or a mapping of them.
        what: What errors call it.

    Raises:
        ValueError: It is none of the space.
    """
    found = _as_of(space, value)
    if not space.contains(found):
        raise ValueError(f"{what}: expected one of {space}, got {_told(value)}")
    return found


def _as_of(space: gymnasium.Space[Any], value: Any) -> Any:
    spaces = imported("gymnasium.spaces", "spaces need Gymnasium", "gymnasium")
    parts: Any = getattr(space, "spaces", None)
    if isinstance(space, spaces.Dict) and isinstance(value, Mapping) and set(value) == set(parts):
        return {name: _as_of(part, value[name]) for name, part in parts.items()}
    if isinstance(space, spaces.Tuple) and isinstance(value, Mapping):
        names = [str(index) for index in range(len(parts))]
        if set(value) == set(names):
            return tuple(_as_of(part, value[n]) for part, n in zip(parts, names, strict=True))
    if isinstance(value, np.ndarray):
        if space.dtype is not None and np.can_cast(value.dtype, space.dtype, "same_kind"):
            value = value.astype(space.dtype)
        if space.shape == () and value.shape == ():
            value = value[()]
    return value


def _told(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape}: {np.array2string(value, threshold=10)}"
    return repr(value)


class SpaceCodec:
    """Values of a Gymnasium space, by the array message of `ArrayCodec`; others are refused."""

    def __init__(self, space: gymnasium.Space[Any]) -> None:
        """Carry values of this space."""
        self._space = space
        self._arrays = ArrayCodec()

    def encode(self, value: Any, *, terminated: bool = False, truncated: bool = False) -> bytes:
        """Return the bytes of a value.

        Raises:
            TypeError: It is none of the space, or of a space that arrays do not carry.
        """
        array = value if isinstance(value, (Mapping, tuple)) else np.asarray(value)
        found = _as_of(self._space, array)
        if not self._space.contains(found):
            raise TypeError(f"expected one of {self._space}, got {_told(value)}")
        return self._arrays.encode(carried(found), terminated=terminated, truncated=truncated)

    def decode(self, content: bytes) -> Decoded:
        """Return a value.

        Raises:
            ValueError: The bytes are of no value of the space.
        """
        value, terminated, truncated = self._arrays.decode(content)
        found = _as_of(self._space, value)
        if not self._space.contains(found):
            raise ValueError(f"expected one of {self._space}, got {_told(value)}")
        return Decoded(found, terminated, truncated)
