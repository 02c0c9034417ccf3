"""Batches in given arrays (`out=`), and the discounted sums of rewards."""

import threading
import time
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from cogrs import Batch, Entry, NStepSample, ReplayMemory, Sample
from tests.replay import build
from tests.replay.build import memory

CALLS = {
    "get_batch": lambda rem, size, **given: rem.get_batch(size, **given),
    "sample": lambda rem, size, **given: rem.sample(size, **given),
    "nstep": lambda rem, size, **given: rem.sample(size, nstep_return=True, **given),
}
CALL = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


def filled(steps: int = 40, **changes: Any) -> ReplayMemory:
    rem = memory(64, seed=3, **changes)
    rem.add_episode(**build.steps(steps), **build.UNIFORM)
    return rem


def leaves(batch: Any) -> list[np.ndarray]:
    return [*batch[0], *batch[1], *batch[2:]]


@CALL
def test_given_arrays_are_filled_and_returned(call: Any) -> None:
    fresh, reused = filled(frame_stack=3), filled(frame_stack=3)
    out = call(reused, 8)
    kept = leaves(out)
    call(fresh, 8)
    for _ in range(3):
        expected = call(fresh, 8)
        assert call(reused, 8, out=out) is out
        for got, array, want in zip(leaves(out), kept, leaves(expected), strict=True):
            assert got is array
            np.testing.assert_array_equal(got, want)


@CALL
def test_large_batches_are_filled_as_small_ones(call: Any) -> None:
    """Those above some size are copied without the interpreter."""
    rem = memory(s=np.zeros((64, 64), np.uint8))
    frames = np.arange(5, dtype=np.uint8)[:, None, None] * np.ones((64, 64), np.uint8)
    rem.add_episode(**build.steps(5, s=frames), **build.UNIFORM)
    out = call(rem, 600)
    call(rem, 600, out=out)
    assert (out.prev.s[:, 0, 0, 0] == out.prev.a).all()
    assert (out.next.s[:, 0, -1, -1] == out.prev.a + 1).all()


def test_any_tuple_of_the_same_arrays_will_do() -> None:
    rem = filled()
    arrays = rem.get_batch(4)
    out = (tuple(arrays.prev), tuple(arrays.next), arrays.weight)
    assert rem.get_batch(4, out=out) is out


class Foreign:
    """Memory of another library, which NumPy sees."""

    def __init__(self, array: np.ndarray, copies: bool = False) -> None:
        self.array = array
        self.copies = copies

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.array.copy() if self.copies else self.array[...]


def with_state(batch: Batch, state: Any) -> Batch:
    return batch._replace(prev=batch.prev._replace(s=state))


def test_memory_of_another_library_is_filled() -> None:
    rem = filled()
    batch = rem.get_batch(4)
    state = np.full_like(batch.prev.s, -1)
    rem.get_batch(4, out=with_state(batch, Foreign(state)))
    assert (state >= 0).all()


@pytest.mark.parametrize(
    ("state", "error", "text"),
    [
        (
            lambda s: s[:3],
            ValueError,
            r"out.prev.state: expected int64 \(4, 1\), got int64 \(3, 1\)",
        ),
        (lambda s: s.astype(np.int32), ValueError, "out.prev.state: expected int64 .*got int32"),
        (lambda s: s.astype(">i8"), ValueError, "out.prev.state: expected int64 .*got >i8"),
        (lambda s: np.repeat(s, 2, 0)[::2], ValueError, "out.prev.state: expected a C-contiguous"),
        (
            lambda s: np.broadcast_to(s[:1], s.shape),
            ValueError,
            "out.prev.state: expected a C-cont",
        ),
        (lambda s: s.tolist(), TypeError, "out.prev.state: expected an array.* got list"),
        (lambda s: None, TypeError, "out.prev.state: expected an array.* got NoneType"),
        (lambda s: Foreign(s, copies=True), TypeError, "out.prev.state: expected an array"),
    ],
)
def test_wrong_array_is_refused_by_name(state: Any, error: type[Exception], text: str) -> None:
    rem = filled()
    batch = rem.get_batch(4)
    before = [array.copy() for array in leaves(batch)]
    with pytest.raises(error, match=text):
        rem.get_batch(4, out=with_state(batch, state(batch.prev.s)))
    for array, was in zip(leaves(batch), before, strict=True):
        np.testing.assert_array_equal(array, was)


def test_read_only_array_is_refused() -> None:
    rem = filled()
    batch = rem.get_batch(4)
    batch.weight.flags.writeable = False
    with pytest.raises(ValueError, match=r"out.weight: expected a C-contiguous array that can be"):
        rem.get_batch(4, out=batch)


class Meddler(Foreign):
    """Memory of another library, which resizes another array when NumPy looks."""

    def __init__(self, array: np.ndarray, other: np.ndarray) -> None:
        super().__init__(array)
        self.other = other

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        self.other.resize((1, 1), refcheck=False)
        return super().__array__(dtype, copy)


def test_array_that_is_resized_while_another_is_looked_at_is_refused() -> None:
    rem = filled()
    batch = rem.get_batch(4000)
    state = np.zeros_like(batch.prev.s)
    out = with_state(batch._replace(weight=Meddler(batch.weight, state)), state)
    with pytest.raises(ValueError, match=r"out.prev.state: .* got int64 \(1, 1\)"):
        rem.get_batch(4000, out=out)


def test_shared_memory_is_refused() -> None:
    rem = filled()
    batch = rem.get_batch(4)
    with pytest.raises(ValueError, match=r"prev.state and next.state share memory"):
        rem.get_batch(4, out=batch._replace(next=batch.next._replace(s=batch.prev.s)))
    both = np.zeros(7, np.float32)
    overlapping = batch._replace(prev=batch.prev._replace(r=both[:4]), weight=both[3:])
    with pytest.raises(ValueError, match=r"prev.reward and weight share memory"):
        rem.get_batch(4, out=overlapping)


@pytest.mark.parametrize("out", [3, "batch", [], (), (1, 2, 3), np.zeros(3)])
def test_out_of_another_type_is_refused(out: Any) -> None:
    with pytest.raises(TypeError, match="out: expected \\(prev, next, weight\\)"):
        filled().get_batch(4, out=out)


def test_batch_of_another_call_is_refused() -> None:
    rem = filled()
    with pytest.raises(TypeError, match=r"out: expected .*id, probability, next_terminated"):
        rem.sample(4, out=rem.get_batch(4))
    with pytest.raises(TypeError, match="out: expected"):
        rem.get_batch(4, out=rem.sample(4))


def test_sample_without_drawable_entries_leaves_out_arrays_unchanged() -> None:
    rem = filled()
    batch = rem.get_batch(4)
    before = batch.weight.copy()
    rem.clear()
    with pytest.raises(RuntimeError, match="nothing to sample"):
        rem.get_batch(4, out=batch)
    np.testing.assert_array_equal(batch.weight, before)


def test_fields_that_are_left_out_have_no_rows() -> None:
    rem = filled(cache_flags=[False] * 14)
    out = rem.get_batch(4)
    assert rem.get_batch(4, out=out) is out
    with pytest.raises(ValueError, match=r"out.prev.state: expected int64 \(0, 1\)"):
        rem.get_batch(4, out=filled().get_batch(4))


def test_calls_return_their_types_of_batches() -> None:
    rem = filled()
    assert type(rem.get_batch(2)) is Batch
    assert type(rem.get_batch(2).prev) is Entry
    assert type(rem.sample(2)) is Sample
    assert type(rem.sample(2, nstep_return=True)) is NStepSample
    assert len(rem.sample(2)) == 6


def test_nstep_return_is_the_discounted_sum_of_rewards() -> None:
    rem = filled(multi_step=3, discount_factor=[0.5])
    sample = rem.sample(100, nstep_return=True)
    r = sample.prev.r
    np.testing.assert_array_equal(sample.nstep_return, r + 0.5 * (r + 1) + 0.25 * (r + 2))
    assert sample.nstep_return.dtype == np.float32


def test_nstep_return_of_one_step_is_the_reward() -> None:
    sample = filled(discount_factor=[0.5]).sample(50, nstep_return=True)
    np.testing.assert_array_equal(sample.nstep_return, sample.prev.r)


def test_nstep_return_reaches_the_final_state() -> None:
    """Gamma 0.5, r = (1, 2, 4): 1 + 0.5 * 2 from the first, 2 + 0.5 * 4 from the second, then 4."""
    rem = memory(multi_step=2, discount_factor=[0.5])
    rem.add_episode(**build.steps(3, r=np.float32([1, 2, 4])), **build.UNIFORM, final_state=9)
    sample = rem.sample(60, nstep_return=True)
    step = sample.prev.s[:, 0]
    np.testing.assert_array_equal(sample.next_terminated, step >= 1)
    np.testing.assert_array_equal(sample.nstep_return, np.array([2.0, 4.0, 4.0])[step])
    np.testing.assert_array_equal(sample.nstep_discount, np.array([0.25, 0.0, 0.0])[step])


def test_nstep_return_has_the_dimensions_of_the_reward() -> None:
    rem = build.vector_memory(2, multi_step=2, discount_factor=[1.0, 0.0])
    reward = np.float32([[1, 10], [2, 20], [3, 30]])
    rem.add_episode(**build.steps(3, r=reward, v=reward), **build.UNIFORM)
    sample = rem.sample(5, nstep_return=True)
    np.testing.assert_array_equal(sample.nstep_return, [[3, 10]] * 5)


@pytest.mark.parametrize("flag", [2, "yes", None, 0.5])
def test_nstep_return_is_a_truth_value(flag: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="nstep_return: expected True, False"):
        filled().sample(2, nstep_return=flag)


def test_array_that_is_being_filled_cannot_be_resized_by_another_thread() -> None:
    size = 1 << 16
    rem = memory(40, seed=3, s=np.zeros(size, np.float32))
    rem.add_episode(**build.steps(30, s=np.zeros((30, size), np.float32)), **build.UNIFORM)
    prev, *rest = rem.get_batch(128)
    state = np.array(prev[0])
    out = type(rem.get_batch(1))(prev._replace(s=state), *rest)
    refused, done = threading.Event(), threading.Event()

    def resize() -> None:
        while not done.is_set():
            try:
                state.resize((1,), refcheck=False)
            except ValueError:
                refused.set()
                return
            state.resize((128, 1, size), refcheck=False)

    thread = threading.Thread(target=resize)
    thread.start()
    deadline = time.monotonic() + 60
    while not refused.is_set() and time.monotonic() < deadline:
        # Between two calls it may have another size.
        with suppress(ValueError):
            rem.get_batch(128, out=out)
    done.set()
    thread.join()
    assert refused.is_set()
