"""Batches in other array libraries, without a copy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cogrs import Batch
from tests.replay import build
from tests.replay.build import memory


def batch() -> Batch:
    rem = memory(s=np.zeros((2, 3), np.float32))
    build.add_uniform(rem, 8, s=np.ones((8, 2, 3)))
    return rem.get_batch(4)


def check_shared(take: Callable[[np.ndarray], Any]) -> None:
    """What is written through the other library is seen in the array."""
    given = batch()
    for column in (given.prev.s, given.next.s, given.prev.r, given.prev.i, given.weight):
        taken = take(column)
        assert tuple(taken.shape) == column.shape
        taken[...] = 7
        assert (column == 7).all()


def test_dlpack_shares_memory() -> None:
    given = batch()
    assert np.shares_memory(np.from_dlpack(given.prev.s), given.prev.s)


def test_torch_takes_batches_by_dlpack() -> None:
    torch = pytest.importorskip("torch")
    check_shared(torch.from_dlpack)


def test_torch_takes_batches_by_reference() -> None:
    torch = pytest.importorskip("torch")
    check_shared(torch.from_numpy)
