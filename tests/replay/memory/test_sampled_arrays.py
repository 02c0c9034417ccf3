"""Arrays of batches and of episodes read back: their owners, dtypes and shapes."""

import gc
from typing import Any

import numpy as np
import pytest

from tests.replay import build
from tests.replay.build import memory


def arrays(batch: Any) -> list[np.ndarray]:
    """All arrays of a batch or a sample."""
    return [*batch.prev, *batch.next, *batch[2:]]


@pytest.mark.parametrize("call", ["get_batch", "sample"])
def test_arrays_are_the_callers_own(call: str) -> None:
    rem = memory(32, s=np.zeros((8, 8), np.float32), frame_stack=3)
    build.add_uniform(rem, 20, s=np.zeros((20, 8, 8)))
    made = arrays(getattr(rem, call)(64))
    for column in made:
        assert column.flags.writeable
        assert column.flags.c_contiguous
        assert column.ctypes.data % 64 == 0
        assert column.dtype.isnative
    shared = [
        (a, b) for a in range(len(made)) for b in range(a) if np.shares_memory(made[a], made[b])
    ]
    assert shared == []


def test_writing_to_a_batch_changes_neither_memory_nor_other_batches() -> None:
    rem = memory(seed=0)
    build.add_uniform(rem, 2)
    first, second = rem.get_batch(4), rem.get_batch(4)
    for column in arrays(first):
        column[...] = 77
    for batch in (second, rem.get_batch(4)):
        assert batch.prev.s.tolist() == [[0]] * 4
        assert batch.next.s.tolist() == [[1]] * 4
        assert batch.weight.tolist() == [1] * 4


def test_batches_outlive_the_memory_and_later_samples() -> None:
    rem = memory(256, s=np.zeros(1000), seed=0)
    build.add_uniform(rem, 200, s=np.repeat(np.arange(200.0), 1000).reshape(200, 1000))
    kept = [rem.get_batch(32) for _ in range(8)]
    copies = [[column.copy() for column in arrays(batch)] for batch in kept]
    states = [batch.prev.s for batch in kept]
    del kept[::2]
    rem.clear()
    build.add_uniform(rem, 200, s=np.full((200, 1000), -1.0))
    for _ in range(8):
        rem.get_batch(32)
    del rem
    gc.collect()
    for batch, copy in zip(kept, copies[1::2], strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(arrays(batch), copy, strict=True))
    for state, copy in zip(states, copies, strict=True):
        np.testing.assert_array_equal(state, copy[0])


def test_episode_read_back_is_a_copy() -> None:
    rem = memory()
    build.add_uniform(rem, 4)
    view = rem.episode(0)
    for column in (*view.entries, view.weight, view.id):
        column[...] = 7
    assert build.contents(rem) == [[0, 1, 2, 3]]
    assert rem.episode(0).weight.tolist() == [1, 1, 1, 0]


def test_dtypes_beside_the_fields() -> None:
    rem = memory()
    build.add_uniform(rem, 4)
    sample = rem.sample(3)
    dtypes = [sample.weight.dtype, sample.id.dtype, sample.probability.dtype]
    assert dtypes == [np.float32, np.uint64, np.float64]
    assert sample.next_terminated.dtype == np.bool_
    assert all(column.shape == (3,) for column in sample[2:])


def test_cache_flags_leave_other_fields_unchanged() -> None:
    rem = memory(seed=0, cache_flags=[True, False] * 7)
    build.add_uniform(rem, 4)
    batch = rem.get_batch(5)
    lengths = [len(column) for column in (*batch.prev, *batch.next)]
    assert lengths == [5, 0] * 7
    assert set(batch.prev.s[:, 0].tolist()) <= {0, 1, 2}


# -- reading episodes --


def test_episodes_are_read_from_both_ends() -> None:
    rem = memory()
    for first in (0, 10, 20):
        build.add_uniform(rem, 1, first)
    assert rem.episode(0).entries.s.tolist() == [0]
    assert rem.episode(-1).entries.s.tolist() == [20]
    assert rem.episode(-3).entries.s.tolist() == [0]


@pytest.mark.parametrize("index", [2, -3, 10**30])
def test_episode_that_is_not_there_is_an_index_error(index: int) -> None:
    rem = memory()
    build.add_uniform(rem, 1)
    build.add_uniform(rem, 1)
    with pytest.raises(IndexError):
        rem.episode(index)
