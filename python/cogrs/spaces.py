"""Gymnasium spaces: their parts, and the arrays that their values are."""

from __future__ import annotations

from typing import Any

import numpy as np

from cogrs.optional_dependency import import_optional


def parts_of(space: Any) -> dict[Any, Any] | tuple[Any, ...] | None:
    """Return the parts of a Dict as a dict, those of a Tuple as a tuple; None for other spaces."""
    spaces = import_optional("gymnasium.spaces", "spaces need Gymnasium", "gymnasium")
    if isinstance(space, spaces.Dict):
        return dict(space.items())
    return tuple(space) if isinstance(space, spaces.Tuple) else None


def array_of(space: Any, name: str) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Return dtype and shape of the values of a space without parts.

    Args:
        space: The space.
        name: Its name in errors.

    Raises:
        TypeError: The values are not arrays of one shape, as those of Text, Sequence and Graph.
    """
    spaces = import_optional("gymnasium.spaces", "spaces need Gymnasium", "gymnasium")
    kinds = spaces.Box | spaces.Discrete | spaces.MultiBinary | spaces.MultiDiscrete
    if not isinstance(space, kinds):
        raise TypeError(
            f"{name}: expected Box, Discrete, MultiBinary, MultiDiscrete, or a Dict or "
            f"Tuple of them, got {space}"
        )
    return np.dtype(space.dtype), tuple(space.shape)
