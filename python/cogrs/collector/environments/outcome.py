"""What a step of an environment returns beside the observation: a reward and two flags."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np

from cogrs.shown import shown


def outcome_of(reward: Any, terminated: Any, truncated: Any) -> tuple[float, int]:
    """Return a reward as a float, and an end: 0 going on, 1 terminated, 2 truncated.

    Raises:
        ValueError: One of them has no element, or more than one.
        TypeError: One is not a real number.
    """
    if type(reward) is not float:
        reward = number_of("reward", reward)
    if type(terminated) is not bool:
        terminated = flag_of("terminated", terminated)
    if type(truncated) is not bool:
        truncated = flag_of("truncated", truncated)
    return reward, 1 if terminated else 2 if truncated else 0


def number_of(name: str, value: Any) -> float:
    """Return a reward as a float: a number, or any array or tensor of one element.

    Raises:
        ValueError: It has no element, or more than one.
        TypeError: It is not a real number.
    """
    # float64 of NumPy is a float of Python's.
    return float(value) if isinstance(value, float) else float(_element(name, value, "one number"))


def flag_of(name: str, value: Any) -> bool:
    """Return `terminated` or `truncated` as a bool: a number, or an array or tensor of one element.

    Raises:
        ValueError: It has no element, or more than one.
        TypeError: It is neither a bool nor a real number.
    """
    if isinstance(value, bool | np.bool_):
        return bool(value)
    return bool(_element(name, value, "one truth value"))


def _element(name: str, value: Any, expected: str) -> Real:
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
