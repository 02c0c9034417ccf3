"""Values of Gymnasium spaces as trials carry them: arrays, and mappings of arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from cogrs.action_mask import ACTION_MASK
from cogrs.info_key import InfoKey, info_keys_of
from cogrs.optional_dependency import import_optional
from cogrs.sdk.codecs import ArrayCodec, Decoded

if TYPE_CHECKING:
    import gymnasium

    from cogrs.action_mask import MaskLayout


def carried(value: Any, what: str = "value") -> Any:
    """Return a value of a space as it is carried: a tuple as a mapping from "0", "1" and so on.

    Raises:
        ValueError: Two names of a mapping are the same as text, such as 1 and "1". It begins with
            `what`.
    """
    if isinstance(value, Mapping):
        _refuse_equal_names(value, what)
        return {str(name): carried(each, what) for name, each in value.items()}
    if isinstance(value, tuple):
        return {str(index): carried(each, what) for index, each in enumerate(value)}
    return value


def carried_mask(layout: MaskLayout, mask: Any) -> Any:
    """Return the action mask of an info in the flat form of `cogrs.action_mask`, int8.

    It may have the form of `Space.sample(mask=...)`, or be one array of all entries; None stands
    for a mask with which every action is legal. Spaces that take no mask, such as Box, leave the
    meaning to the environment: their masks are carried as any value. Errors are those of
    `cogrs.action_mask.MaskLayout.flatten`.
    """
    return layout.flatten(mask) if layout.size else carried(mask)


_TAKEN = ("observation", ACTION_MASK, "turn")
"""Parts of observations that infos may not replace."""


def observed_info_keys(given: Any) -> tuple[InfoKey, ...]:
    """Return the values of infos that are parts of observations; errors as `info_keys_of`."""
    return info_keys_of(given, _TAKEN.__contains__, "in an observation")


def check_names(space: gymnasium.Space[Any], what: str) -> None:
    """Raise a ValueError if two keys of a Dict space are the same as text, such as 1 and "1"."""
    spaces = import_optional("gymnasium.spaces", "spaces need Gymnasium", "gymnasium")
    if isinstance(space, spaces.Dict):
        _refuse_equal_names(space, what)
        for name in space:
            check_names(space[name], what)
    elif isinstance(space, spaces.Tuple):
        for part in space:
            check_names(part, what)


def _refuse_equal_names(names: Iterable[Any], what: str) -> None:
    known: dict[str, Any] = {}
    for name in names:
        first = known.setdefault(str(name), name)
        if first is not name:
            raise ValueError(
                f"{what}: expected different names, got {first!r} and {name!r}, "
                f"which are both {str(name)!r} in messages"
            )


def placeholder(space: gymnasium.Space[Any]) -> Any:
    """Return a value for an absent one: that of the space nearest to zero, or an empty array."""
    spaces = import_optional("gymnasium.spaces", "spaces need Gymnasium", "gymnasium")
    if isinstance(space, spaces.Dict):
        return carried({name: placeholder(space[name]) for name in space})
    if isinstance(space, spaces.Tuple):
        return carried(tuple(placeholder(part) for part in space))
    if isinstance(space, spaces.Box):
        return np.clip(np.zeros(space.shape, space.dtype), space.low, space.high)
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return np.asarray(space.start, space.dtype)
    if isinstance(space, spaces.MultiBinary):
        return np.zeros(space.shape, space.dtype)
    return np.zeros(0, np.float32)


def fitting(space: gymnasium.Space[Any], value: Any, what: str) -> Any:
    """Return a carried value, which may have another dtype of the same kind, in its space's form.

    A ValueError, which begins with `what`, if it is not in the space.
    """
    found = _as_of(space, value)
    if not space.contains(found):
        raise ValueError(f"{what}: expected one of {space}, got {_told(value)}")
    return found


def in_form(space: gymnasium.Space[Any], value: Any, what: str) -> Any:
    """Do what `fitting` does, but take numbers of the space's form that are out of bounds too."""
    found = _as_of(space, value)
    if not (space.contains(found) or _has_form(space, found)):
        raise ValueError(f"{what}: expected one of {space}, got {_told(value)}")
    return found


def _has_form(space: gymnasium.Space[Any], value: Any) -> bool:
    spaces = import_optional("gymnasium.spaces", "spaces need Gymnasium", "gymnasium")
    if isinstance(space, spaces.Dict):
        same = isinstance(value, Mapping) and set(value) == set(space)
        return same and all(_has_form(space[name], value[name]) for name in space)
    if isinstance(space, spaces.Tuple):
        same = isinstance(value, tuple) and len(value) == len(space)
        return same and all(map(_has_form, space, value))
    if space.shape is None or space.dtype is None or not isinstance(value, np.ndarray | np.generic):
        return False
    return value.shape == space.shape and np.can_cast(value.dtype, space.dtype, "same_kind")


def _as_of(space: gymnasium.Space[Any], value: Any) -> Any:
    spaces = import_optional("gymnasium.spaces", "spaces need Gymnasium", "gymnasium")
    parts: Any = getattr(space, "spaces", None)
    if isinstance(space, spaces.Dict) and isinstance(value, Mapping):
        if set(value) == set(parts):
            return {name: _as_of(part, value[name]) for name, part in parts.items()}
        if set(value) == set(map(str, parts)) and len(value) == len(parts):
            return {name: _as_of(part, value[str(name)]) for name, part in parts.items()}
    if isinstance(space, spaces.Tuple) and isinstance(value, Mapping):
        names = [str(index) for index in range(len(parts))]
        if set(value) == set(names):
            return tuple(_as_of(part, value[n]) for part, n in zip(parts, names, strict=True))
    if isinstance(value, np.ndarray):
        if space.dtype is not None and np.can_cast(value.dtype, space.dtype, "same_kind"):
            cast = value.astype(space.dtype)
            # An integer that is too large would turn into another one, which may be in the space.
            if space.dtype.kind not in "iu" or np.array_equal(cast, value):
                value = cast
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
        """Carry values of this space.

        Raises:
            ValueError: Two keys of a Dict are the same as text, such as 1 and "1".
        """
        check_names(space, "space")
        self._space = space
        self._arrays = ArrayCodec()

    def encode(self, value: Any, *, terminated: bool = False, truncated: bool = False) -> bytes:
        """Return the bytes of a value.

        Raises:
            TypeError: It is not in the space, or arrays do not carry the space.
        """
        array = value if isinstance(value, (Mapping, tuple)) else np.asarray(value)
        found = _as_of(self._space, array)
        if not self._space.contains(found):
            raise TypeError(f"expected one of {self._space}, got {_told(value)}")
        return self._arrays.encode(carried(found), terminated=terminated, truncated=truncated)

    def decode(self, content: bytes) -> Decoded:
        """Return a value.

        Raises:
            ValueError: The value is not in the space.
        """
        value, terminated, truncated = self._arrays.decode(content)
        found = _as_of(self._space, value)
        if not self._space.contains(found):
            raise ValueError(f"expected one of {self._space}, got {_told(value)}")
        return Decoded(found, terminated, truncated)
