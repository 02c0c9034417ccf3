"""Frames that cannot be a cache, which the store refuses."""

from typing import Any

import numpy as np
import pytest

from cogrs._core import CacheStore
from tests.replay.build import memory
from tests.replay.stores import columns, empty, push

# Samplers that go by an order, or draw all alike, give entries of weight 0 too.
BAD_WEIGHTS = [np.nan, np.inf, -np.inf, -1.0]
BAD_SUMS = [np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0, 1e300]


@pytest.mark.parametrize("weight", BAD_WEIGHTS)
@pytest.mark.parametrize("at", [0, 1, 2])
def test_weight_that_no_memory_gives_is_refused(weight: float, at: int) -> None:
    _, store = empty(1)
    weights = np.ones(3, np.float32)
    weights[at] = weight
    with pytest.raises(ValueError, match="weight"):
        store.push(3, 1.0, [weights.view(np.uint8), columns([1, 2, 3])[1]])
    assert len(store) == 0


def test_weight_of_zero_which_a_uniform_sampler_draws_is_taken() -> None:
    _, store = empty(1)
    weights = np.zeros(3, np.float32)
    store.push(3, 1.0, [weights.view(np.uint8), columns([1, 2, 3])[1]])
    assert len(store) == 1


@pytest.mark.parametrize("weight_sum", BAD_SUMS)
def test_sum_that_no_memory_gives_is_refused(weight_sum: float) -> None:
    _, store = empty(1)
    with pytest.raises(ValueError, match="weight_sum"):
        push(store, 1, weight_sum=weight_sum)
    assert len(store) == 0


@pytest.mark.parametrize(
    "frames",
    [
        [],
        columns([1, 2])[:1],
        columns([1, 2])[1:],
        [*columns([1, 2]), b""],
        columns([1]),
        columns([1, 2, 3]),
        [columns([1, 2])[0], columns([1])[1]],
        [columns([1])[0], columns([1, 2])[1]],
        [b"", b""],
        columns([1, 2])[::-1],
    ],
    ids=lambda frames: str([len(frame) for frame in frames]),
)
def test_sizes_that_disagree_are_refused(frames: list[Any]) -> None:
    _, store = empty(1)
    with pytest.raises(ValueError, match="columns"):
        store.push(2, 1.0, frames)
    assert len(store) == 0


def test_different_sizes_are_named_in_the_error() -> None:
    _, store = empty(1)
    with pytest.raises(ValueError, match=r"expected \[8, 16\] bytes, got \[8\] bytes"):
        store.push(2, 1.0, columns([1, 2])[:1])


@pytest.mark.parametrize("rows", [0, 2**32, 2**62])
def test_number_of_rows_that_cannot_be_is_refused(rows: int) -> None:
    _, store = empty(1)
    with pytest.raises(ValueError, match=r"rows|columns"):
        store.push(rows, 1.0, columns([1]))
    assert len(store) == 0


@pytest.mark.parametrize(
    "frame",
    ["text", None, 1, [1], np.zeros(16, np.uint8)[::2], np.zeros(1, np.int64)],
    ids=lambda frame: type(frame).__name__,
)
def test_frame_other_than_contiguous_bytes_is_refused(frame: Any) -> None:
    _, store = empty(1)
    with pytest.raises((TypeError, BufferError)):
        store.push(1, 1.0, [columns([1])[0], frame])
    assert len(store) == 0


@pytest.mark.parametrize("n_caches", [0, -1])
def test_store_of_no_caches_is_refused(n_caches: int) -> None:
    with pytest.raises(ValueError, match="n_caches"):
        CacheStore(memory(0), n_caches)


@pytest.mark.parametrize("n_caches", [None, "2", 1.5])
def test_number_of_caches_is_an_integer(n_caches: Any) -> None:
    with pytest.raises(TypeError, match="n_caches"):
        CacheStore(memory(0), n_caches)
