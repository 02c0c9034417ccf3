"""Observations of several environments as one observation of their batched space."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np

from cogrs.collector.environments.factory import gymnasium_module
from cogrs.conversion import convert

Batcher = Callable[[Sequence[Any]], Any]


def batcher_of(space: Any, name: str = "observation") -> Batcher:
    """Return a function that batches observations as `gymnasium.vector.utils.concatenate` does.

    Box, Discrete, MultiDiscrete and MultiBinary are arrays of the dtype of the space with one row
    per environment; Dict and Tuple are dicts and tuples of their parts. Spaces without a fixed
    shape (Text, Sequence, Graph, custom ones) are left to Gymnasium, which mostly returns a tuple.
    The batch shares no memory with the observations. The function raises a ValueError for an
    observation of another shape, without a part, or with values that do not fit the dtype, and a
    TypeError for one of another type; the text names the part.
    """
    spaces = gymnasium_module().spaces
    if isinstance(space, spaces.Dict):
        parts = {key: batcher_of(space[key], f"{name}[{key!r}]") for key in space}
        return partial(_batch_parts, name, dict, parts)
    if isinstance(space, spaces.Tuple):
        parts = {at: batcher_of(part, f"{name}[{at}]") for at, part in enumerate(space)}
        return partial(_batch_parts, name, tuple, parts)
    if isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiBinary | spaces.MultiDiscrete):
        return partial(_batch_arrays, name, np.dtype(space.dtype), tuple(space.shape))
    return partial(_batch_values, space)


def _batch_arrays(
    name: str, dtype: np.dtype[Any], shape: tuple[int, ...], values: Sequence[Any]
) -> Any:
    try:
        array = np.array(values)
    except (TypeError, ValueError, RuntimeError):  # of different shapes, or tensors with grad
        pass
    else:
        if array.dtype == dtype and array.shape == (len(values), *shape):
            return array
    return np.stack([convert(name, value, dtype, shape) for value in values])


def _batch_parts(
    name: str, kind: type[Any], parts: dict[Any, Batcher], values: Sequence[Any]
) -> Any:
    def part_of(value: Any, key: Any) -> Any:
        try:
            return value[key]
        except (LookupError, TypeError):
            expected, got = f"a {kind.__name__} with {key!r}", type(value).__name__
            raise ValueError(f"{name}: expected {expected}, got {got} without it") from None

    batches = {
        key: batch([part_of(value, key) for value in values]) for key, batch in parts.items()
    }
    return batches if kind is dict else tuple(batches.values())


def _batch_values(space: Any, values: Sequence[Any]) -> Any:
    utils = gymnasium_module().vector.utils
    empty = utils.create_empty_array(space, len(values))
    # An environment may keep its observation, and go on writing to it.
    return deepcopy(utils.concatenate(space, values, empty))
