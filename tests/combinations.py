"""Combinations of parameters that are tested; `make soak` takes all of them."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"


def pairwise(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return combinations in which each value of an axis meets each value of every other axis.

    These are the ones whose positions add up to a multiple of the length of the shortest axis: of
    two values that are to meet, a third axis has the value that completes the sum.
    """
    assert len(axes) > 2, "of two axes every combination is needed"
    shortest = min(len(axis) for axis in axes)
    return [
        tuple(value for _, value in combination)
        for combination in itertools.product(*map(enumerate, axes))
        if SOAK or sum(at for at, _ in combination) % shortest == 0
    ]
