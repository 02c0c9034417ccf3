"""What a collector's arrays look like."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TensorSpec:
    """What the arrays of a key look like.

    Attributes:
        key: The key.
        dtype: The dtype's name.
        shape: Shape of one array: (batchsize, ...).
        T: How many there are, one for each state of the history.
    """

    key: str
    dtype: str
    shape: tuple[int, ...]
    T: int
