"""Observations of several environments as one observation of their batched space."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from cogrs.collector.convert import convert
from cogrs.collector.environments.factory import gymnasium_module

if TYPE_CHECKING:
    from collections.abc import Sequence


class Observations(Protocol):
    """Batches observations of a space."""

    def batch(self, values: Sequence[Any]) -> Any:
        """Return the batch of these observations, which shares no memory with them.

        Raises:
            ValueError: A value has another shape than the space, lacks a part of it, or does not
                fit its dtype; the text names the part of the observation.
            TypeError: A value has the wrong type; likewise.
        """


def observations_of(space: Any, name: str = "observation") -> Observations:
    """Return what batches observations of a space, as `gymnasium.vector.utils.concatenate` does.

    Box, Discrete, MultiDiscrete and MultiBinary are arrays of the dtype of the space with one row
    for each environment; Dict and Tuple are dicts and tuples of their parts. What has no fixed
    shape (Text, Sequence, Graph, spaces of one's own) is what Gymnasium makes of it: as a rule a
    tuple of values.
    """
    spaces = gymnasium_module().spaces
    if isinstance(space, spaces.Dict):
        parts = {key: observations_of(space[key], f"{name}[{key!r}]") for key in space}
        return _Parts(name, parts, dict)
    if isinstance(space, spaces.Tuple):
        parts = {at: observations_of(part, f"{name}[{at}]") for at, part in enumerate(space)}
        return _Parts(name, parts, tuple)
    if isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiBinary | spaces.MultiDiscrete):
        return _Array(name, np.dtype(space.dtype), tuple(space.shape))
    return _Values(space)


class _Array:
    """One array."""

    def __init__(self, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self._name = name
        self._dtype = dtype
        self._shape = shape

    def batch(self, values: Sequence[Any]) -> Any:
        try:
            array = np.array(values)
        except (TypeError, ValueError, RuntimeError):  # of different shapes, or tensors with grad
            pass
        else:
            if array.dtype == self._dtype and array.shape == (len(values), *self._shape):
                return array
        rows = [convert(self._name, value, self._dtype, self._shape) for value in values]
        return np.stack(rows)


class _Parts:
    """A Dict or a Tuple."""

    def __init__(self, name: str, parts: dict[Any, Observations], kind: type[Any]) -> None:
        self._name = name
        self._parts = parts
        self._kind = kind

    def batch(self, values: Sequence[Any]) -> Any:
        batches = {
            key: part.batch([self._part(value, key) for value in values])
            for key, part in self._parts.items()
        }
        return batches if self._kind is dict else tuple(batches.values())

    def _part(self, value: Any, key: Any) -> Any:
        try:
            return value[key]
        except (LookupError, TypeError):
            kind, got = self._kind.__name__, type(value).__name__
            text = f"{self._name}: expected a {kind} with {key!r}, got {got} without it"
            raise ValueError(text) from None


class _Values:
    """Values of a space without a fixed shape."""

    def __init__(self, space: Any) -> None:
        self._space = space

    def batch(self, values: Sequence[Any]) -> Any:
        utils = gymnasium_module().vector.utils
        empty = utils.create_empty_array(self._space, len(values))
        # An environment may keep what it has shown, and go on writing to it.
        return deepcopy(utils.concatenate(self._space, values, empty))
