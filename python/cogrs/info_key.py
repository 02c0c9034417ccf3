"""Values of infos that batches and observations show as keys."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cogrs.conversion import convert
from cogrs.dtypes import dtype_of, dtype_text
from cogrs.validation import check_named

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt


@dataclass(frozen=True)
class InfoKey:
    """A value of infos that a batch shows; zeros where infos do not have it.

    Attributes:
        key: Its key in a batch, and in infos; dots lead into nested infos.
        dtype: The dtype's text.
        shape: Its shape.
    """

    key: str
    dtype: str
    shape: tuple[int, ...]

    def find(self, info: Mapping[str, Any]) -> Any:
        """Return the value in infos, None without one."""
        if self.key in info:
            return info[self.key]
        found: Any = info
        for name in self.key.split("."):
            if not isinstance(found, Mapping) or name not in found:
                return None
            found = found[name]
        return found

    def array(self, info: Mapping[str, Any]) -> npt.NDArray[Any]:
        """Return the value in infos as an array of its dtype and shape, the caller's own.

        Raises:
            ValueError, TypeError: The value has another shape, or does not fit the dtype.
        """
        value, dtype = self.find(info), dtype_of(self.dtype)
        if value is None:
            return np.zeros(self.shape, dtype)
        return convert(self.key, value, dtype, self.shape).copy()


def info_keys_of(given: Any, is_taken: Callable[[str], bool], where: str) -> tuple[InfoKey, ...]:
    """Return the keys of the argument `info_keys`.

    Args:
        given: A mapping from keys to a dtype, or to a dtype and a shape; None is an empty one.
        is_taken: Whether a key has another meaning.
        where: The place in which it has that, for errors: "in a batch".

    Raises:
        TypeError: `given` is not such a mapping.
        ValueError: A key has another meaning, or a dtype is not one of numbers or bool.
    """
    if given is None:
        return ()
    check_named("info_keys", given)
    for key in given:
        if is_taken(key):
            raise ValueError(
                f"info_keys: {key!r} has another meaning {where}, rename it by a wrapper"
            )
    return tuple(_info_key(key, value) for key, value in given.items())


def _info_key(key: str, given: Any) -> InfoKey:
    pair = given if isinstance(given, tuple) and len(given) == 2 else (given, ())
    try:
        dtype, shape = np.dtype(pair[0]), tuple(map(operator.index, pair[1]))
    except TypeError:
        expected = "a dtype, or a pair of a dtype and a shape"
        raise TypeError(f"info_keys: expected {expected} for {key!r}, got {given!r}") from None
    if dtype.kind not in "biuf" or min(shape, default=0) < 0:
        expected = "a dtype of numbers or bool, and a shape of integers >= 0"
        raise ValueError(f"info_keys: expected {expected} for {key!r}, got {given!r}")
    return InfoKey(key, dtype_text(dtype), shape)
