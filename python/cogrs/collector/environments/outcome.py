"""Reward and flags that a step of an environment returns, as one float and bools."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np

from cogrs.arrays import refuse_mask
from cogrs.conversion import convert
from cogrs.shown import shown


def outcome_of(reward: Any, terminated: Any, truncated: Any) -> tuple[float, int]:
    """Return a reward as a float, and an end: 0 going on, 1 terminated, 2 truncated.

    Raises:
        ValueError, TypeError: As `number_of` and `flag_of`.
    """
    if type(reward) is not float:
        reward = number_of("reward", reward)
    if type(terminated) is not bool:
        terminated = flag_of("terminated", terminated)
    if type(truncated) is not bool:
        truncated = flag_of("truncated", truncated)
    return reward, 1 if terminated else 2 if truncated else 0


def reward_of(reward: Any, shape: tuple[int, ...]) -> Any:
    """Return a reward as a float, or as a float64 array of this shape in memory of its own.

    Raises:
        ValueError, TypeError: As `number_of`, or the array has another shape or kind of numbers.
    """
    if not shape:
        return number_of("reward", reward)
    if np.ndim(reward) == 0:
        got = "a number" if isinstance(reward, Real | np.ndarray) else shown(reward)
        raise ValueError(
            f"reward: expected an array of shape {shape}, as reward_space says, got {got}: a "
            "wrapper that makes rewards numbers has to set its reward_space to None"
        )
    return convert("reward", reward, np.dtype(np.float64), shape).copy()


def number_of(name: str, value: Any) -> float:
    """Return a number, or the element of an array or tensor of one element, as a float.

    Raises:
        ValueError: `value` does not have exactly one element.
        TypeError: `value` is not a real number, or is masked.
    """
    # float64 of NumPy is a float of Python's.
    return float(value) if isinstance(value, float) else float(_element(name, value, "one number"))


def flag_of(name: str, value: Any) -> bool:
    """Return a flag, or the element of an array or tensor of one element, as a bool.

    Raises:
        ValueError: `value` does not have exactly one element.
        TypeError: `value` is neither a bool nor a real number, or is masked.
    """
    if isinstance(value, bool | np.bool_):
        return bool(value)
    return bool(_element(name, value, "one truth value"))


def _element(name: str, value: Any, expected: str) -> Real:
    refuse_mask(name, value)
    listed = np.asarray(value) if isinstance(value, list | tuple) else value
    shape = tuple(getattr(listed, "shape", ()))
    if math.prod(shape) != 1:
        raise ValueError(
            f"{name}: expected {expected}, got {type(value).__name__} of shape {shape}"
        )
    element = listed.item() if hasattr(listed, "item") else listed
    if not isinstance(element, Real):
        raise TypeError(f"{name}: expected {expected}, got {shown(value)}")
    return element
