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


def reward_space_of(env: Any) -> Any:
    """Return the space of rewards that are vectors, None for numbers.

    It is `reward_space` of the outermost wrapper that has one, or of the environment itself, as in
    MO-Gymnasium; None, or a space without dimensions, says that rewards are numbers.

    Raises:
        TypeError: It is not a space of numbers.
    """
    get = getattr(env, "get_wrapper_attr", None)
    try:
        space = env.reward_space if get is None else get("reward_space")
    except AttributeError:
        space = getattr(getattr(env, "unwrapped", env), "reward_space", None)
    if space is None or getattr(space, "shape", None) == ():
        return None
    if getattr(space, "shape", None) is None or not hasattr(space, "low"):
        raise TypeError(f"reward_space: expected a Box or None, got {space!r}")
    return space


def reward_shape_of(env: Any) -> tuple[int, ...]:
    """Return the shape of rewards; TypeError as `reward_space_of`."""
    space = reward_space_of(env)
    return () if space is None else tuple(space.shape)
