"""Values of spaces as arrays, their comparison to the bit, and memories of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

import cogrs

if TYPE_CHECKING:
    from collections.abc import Sequence

BOX, ACTION = spaces.Box(-1, 1, (3,)), spaces.Discrete(4, start=2)


def equal(one: Any, other: Any) -> bool:
    """Return whether trees of arrays have the same keys, dtypes, shapes and bytes."""
    if isinstance(one, dict):
        same = isinstance(other, dict) and set(one) == set(other)
        return same and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, tuple):
        return isinstance(other, tuple) and all(map(equal, one, other)) and len(one) == len(other)
    one, other = np.asarray(one), np.asarray(other)
    return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())


def stacked(space: spaces.Space[Any], values: Sequence[Any]) -> Any:
    """Return values of a space, one row each, as the naive model has them."""
    if isinstance(space, spaces.Dict):
        return {key: stacked(part, [each[key] for each in values]) for key, part in space.items()}
    if isinstance(space, spaces.Tuple):
        parts = enumerate(space)
        return tuple(stacked(part, [each[at] for each in values]) for at, part in parts)
    return np.stack([np.asarray(each, space.dtype) for each in values])


def sampled(space: spaces.Space[Any], count: int, seed: int) -> list[Any]:
    """Return random values of a space."""
    space.seed(seed)
    return [space.sample() for _ in range(count)]


def simple_memory(**settings: Any) -> cogrs.ReplayMemory:
    """A memory for `BOX` and `ACTION`."""
    return cogrs.ReplayMemory.from_spaces(BOX, ACTION, 200, **settings)


def add(rem: cogrs.ReplayMemory, count: int, seed: int = 0, **end: Any) -> Any:
    """Store an episode of random steps; return observations, the final one too, and actions."""
    seen, done = sampled(BOX, count + 1, seed), sampled(ACTION, count, seed)
    final = end.pop("final", True)
    rem.add_episode(
        *(stacked(BOX, seen[:-1]), stacked(ACTION, done), np.arange(count) + 0.5),
        *(np.full(count, 0.25), np.arange(count), np.zeros((count, 0)), 1.0),
        **({"final_state": seen[-1]} if final else {}),
        **end,
    )
    return stacked(BOX, seen), stacked(ACTION, done)
