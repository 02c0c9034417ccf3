"""Entries that `get_batch` and `sample` draw, and how often."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cogrs import ReplayMemory
from tests.replay import build
from tests.replay.build import add_uniform, memory


def drawn(rem: ReplayMemory, count: int) -> np.ndarray:
    """The info of so many samples."""
    return rem.get_batch(count).prev.i


# -- which --


def test_weight_zero_is_never_drawn() -> None:
    rem = memory(100, seed=0)
    build.add_uniform(rem, 100, init_w=np.arange(1, 101) % 2)
    for _ in range(10 if build.SOAK else 1):
        assert (drawn(rem, 1_000_000) % 2 == 0).all()


def test_weight_zero_beside_huge_and_tiny_weights_is_never_drawn() -> None:
    weights = np.tile([0, 1e30, 0, 1e-30], 64)
    rem = memory(256, seed=0)
    build.add_uniform(rem, 256, init_w=weights)
    first = rem.episode(0).id[0]
    for large in range(1, 256, 4):
        rem.update_priority(int(first) + large, 0.0)
    assert set(np.unique(drawn(rem, 100_000) % 4)) == {3}


def test_size_other_than_a_power_of_two_is_drawn_evenly() -> None:
    rem = memory(5, seed=0)
    build.add_uniform(rem, 4)
    counts = np.bincount(drawn(rem, 90_000))
    # 600 is four standard deviations.
    np.testing.assert_allclose(counts, 30_000, atol=600)


def test_first_and_last_that_can_be_drawn_are() -> None:
    rem = memory(seed=0)
    build.add_uniform(rem, 11)
    counts = np.bincount(drawn(rem, 100_000), minlength=11)
    assert counts[10] == 0
    np.testing.assert_allclose(counts[[0, 9]], 10_000, atol=500)


@pytest.mark.parametrize(("exponent", "shares"), [(1.0, [0.3939, 0.6061]), (0.5, [0.4464, 0.5536])])
def test_frequencies_follow_weights(exponent: float, shares: list[float]) -> None:
    rem = memory(priority_exponent=exponent, mix_lambda=0.5, discount_factor=0.5, seed=0)
    rem.add_episode(**build.steps(3, r=[1, 2, 4], v=[0.5, 1, 2]))
    share = np.bincount(drawn(rem, 100_000)) / 100_000
    np.testing.assert_allclose(share, shares, atol=0.01)


def test_weight_that_is_zero_in_float32_is_never_drawn() -> None:
    rem = memory()
    build.add_uniform(rem, 3, init_w=[1e-60, 1, 1])
    assert rem.episode(0).weight.tolist() == [0, 1, 0]
    assert rem.num_sampleable == 1


def test_open_episode_is_not_drawn() -> None:
    rem = memory(seed=0)
    build.add_uniform(rem, 3)
    rem.new_episode()
    rem.add_entries(**build.steps(5, first=10, init_w=1000.0))
    assert set(drawn(rem, 1000)) == {0, 1}
    assert rem.weight_sum == 2


def test_entries_dropped_by_a_new_episode_are_never_drawn() -> None:
    rem = memory(seed=0)
    rem.new_episode()
    rem.add_entries(**build.steps(8, first=10))
    rem.new_episode()
    rem.add_entries(**build.steps(3))
    rem.close_episode(1.0, False, False)
    assert build.contents(rem) == [[0, 1, 2]]
    assert set(drawn(rem, 1000)) == {0, 1}


def test_evicted_entries_are_never_drawn() -> None:
    rem = memory(8, seed=0)
    build.add_uniform(rem, 8)
    build.add_uniform(rem, 3, first=10)
    assert rem.num_episode() == 1
    assert set(drawn(rem, 1000)) == {10, 11}


def test_full_memory_can_still_be_closed_and_sampled() -> None:
    rem = memory(8, seed=0)
    rem.new_episode()
    for k in range(8):
        rem.add_entry(**build.step(k))
    with pytest.raises(RuntimeError):
        rem.add_entry(**build.step(8))
    rem.close_episode(1.0, False, False)
    assert set(drawn(rem, 1000)) == set(range(7))


def test_oldest_episode_goes_first() -> None:
    rem = memory(9)
    for first in (0, 10, 20):
        build.add_uniform(rem, 3, first)
    rem.new_episode()
    rem.add_entry(**build.step(30))
    assert build.contents(rem) == [[10, 11, 12], [20, 21, 22]]


def test_empty_episodes_are_evicted_in_order() -> None:
    rem = memory(4)
    build.add_uniform(rem, 0)
    build.add_uniform(rem, 2)
    build.add_uniform(rem, 0)
    build.add_uniform(rem, 2, first=10)
    assert build.contents(rem) == [[], [0, 1], [], [10, 11]]
    rem.new_episode()
    rem.add_entry(**build.step(20))
    assert build.contents(rem) == [[], [10, 11]]


def test_refused_entry_evicts_no_empty_episode() -> None:
    rem = memory(2)
    rem.new_episode()
    rem.add_entries(**build.steps(2))
    build.add_uniform(rem, 0)
    with pytest.raises(RuntimeError):
        rem.add_entry(**build.step(3))
    assert rem.num_episode() == 1


# -- transitions --


def test_next_is_multi_step_after_prev() -> None:
    rem = memory(64, multi_step=3, seed=0)
    for first in (0, 100, 200):
        build.add_uniform(rem, 15, first)
    batch = rem.get_batch(500)
    for name in "sarpvi":
        assert (getattr(batch.next, name) - getattr(batch.prev, name) == 3).all()


@pytest.mark.parametrize("end", [{}, {"bootstrap_value": 8.0}], ids=["terminated", "truncated"])
def test_last_transition_ends_with_its_own_episode(end: dict[str, Any]) -> None:
    rem = memory(12, frame_stack=2, seed=0)
    for first in (0, 10, 20):
        build.add_uniform(rem, 4, first, **end)
    batch = rem.get_batch(1000)
    stacks = {tuple(stack) for stack in np.concatenate([batch.prev.s, batch.next.s]).tolist()}
    assert stacks == {(first + k, first + k + 1) for first in (0, 10, 20) for k in range(3)}
    assert set(batch.next.i.tolist()) == {first + k for first in (0, 10, 20) for k in (2, 3)}
    assert (batch.next.i == batch.prev.i + 1).all()


@pytest.mark.parametrize("end", [{}, {"bootstrap_value": 8.0}], ids=["terminated", "truncated"])
def test_stack_has_no_frames_of_a_neighbour(end: dict[str, Any]) -> None:
    rem = memory(frame_stack=2, seed=0)
    build.add_uniform(rem, 1, first=10, **end)
    build.add_uniform(rem, 3)
    batch = rem.get_batch(100)
    assert np.unique(batch.prev.s, axis=0).tolist() == [[0, 1]]
    assert np.unique(batch.next.s, axis=0).tolist() == [[1, 2]]


def test_stack_may_run_over_the_end_of_the_storage() -> None:
    rem = memory(7, frame_stack=3, seed=0)
    build.add_uniform(rem, 5)
    build.add_uniform(rem, 6, first=10)
    stacks = {tuple(stack) for stack in rem.get_batch(200).next.s.tolist()}
    assert stacks == {(11, 12, 13), (12, 13, 14), (13, 14, 15)}


def test_frame_axis_is_there_for_one_frame() -> None:
    rem = memory(s=np.zeros((2, 3)))
    build.add_uniform(rem, 3, s=np.zeros((3, 2, 3)))
    assert rem.get_batch(5).prev.s.shape == (5, 1, 2, 3)


def test_final_state_is_only_ever_next() -> None:
    rem = memory(seed=0)
    build.add_uniform(rem, 3, final_state=99, final_info=98)
    batch = rem.get_batch(300)
    pairs = {tuple(pair) for pair in np.stack([batch.prev.s[:, 0], batch.next.s[:, 0]], 1).tolist()}
    assert pairs == {(0, 1), (1, 2), (2, 99)}


@pytest.mark.parametrize(
    ("end", "terminated"),
    [
        ({}, set()),
        ({"bootstrap_value": 1.0}, set()),
        ({"final_state": 9}, {9}),
        ({"final_state": 9, "bootstrap_value": 1.0}, set()),
    ],
    ids=str,
)
def test_next_terminated_is_true_at_terminal_states_only(
    end: dict[str, Any], terminated: set[int]
) -> None:
    rem = memory(seed=0)
    build.add_uniform(rem, 4, **end)
    sample = rem.sample(300)
    assert set(sample.next.s[sample.next_terminated, 0].tolist()) == terminated
    assert not sample.next_terminated[sample.next.s[:, 0] != 9].any()


def test_next_terminated_follows_the_present_multi_step() -> None:
    rem = memory(seed=0)
    build.add_uniform(rem, 4, final_state=9)
    rem.multi_step = 2
    sample = rem.sample(300)
    assert set(sample.prev.s[sample.next_terminated, 0].tolist()) == {2, 3}


def test_long_names_are_the_fields() -> None:
    rem = memory()
    build.add_uniform(rem, 3)
    prev = rem.get_batch(2).prev
    long = (prev.state, prev.action, prev.reward, prev.prob, prev.value, prev.qvest, prev.info)
    assert all(ours is theirs for ours, theirs in zip(prev, long, strict=True))


# -- weights and probabilities --


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=40))
def test_probability_is_exactly_weight_over_sum(weights: list[float]) -> None:
    rem = memory(41, seed=0)
    build.add_uniform(rem, len(weights) + 1, init_w=[*weights, 1.0])
    if rem.num_sampleable:
        sample = rem.sample(50)
        exact = sample.weight.astype(np.float64) / rem.weight_sum
        assert sample.probability.tolist() == exact.tolist()


def test_drawn_weights_equal_the_weights_read_back() -> None:
    rem = memory(seed=0)
    first = rem.add_episode(**build.steps(9))
    sample = rem.sample(100)
    weight = rem.episode(0).weight
    assert sample.weight.tolist() == weight[sample.id.astype(int) - first].tolist()


def test_sum_does_not_drift_over_many_changes() -> None:
    rem = memory(1001, priority_exponent=1.0)
    first = build.add_uniform(rem, 1001)
    rng = np.random.default_rng(0)
    for _ in range(100):
        ids = first + rng.permutation(1000)
        rem.update_priority(ids.astype(np.uint64), 10 ** rng.uniform(-6, 6, 1000))
        for id_ in ids[:100].tolist():
            rem.update_priority(id_, 1e-6)
    exact = rem.episode(0).weight.astype(np.float64).sum()
    assert rem.weight_sum == pytest.approx(exact, rel=1e-9)


def test_smallest_weight_counts_drawable_entries_only() -> None:
    rem = memory(12)
    build.add_uniform(rem, 5, init_w=[3, 0, 2, 4, 1])
    assert rem.min_weight == 2
    build.add_uniform(rem, 3, init_w=[0.5, 1, 1])
    assert rem.min_weight == 0.5
    build.add_uniform(rem, 12, init_w=7.0)
    assert rem.min_weight == 7


# -- seeds --


def series(seed: int | None) -> list[list[int]]:
    rem = memory(64, seed=seed)
    build.add_uniform(rem, 64)
    return [rem.get_batch(16).prev.i.tolist() for _ in range(4)]


def test_same_seed_draws_the_same() -> None:
    assert series(7) == series(7)


def test_other_seeds_draw_otherwise() -> None:
    assert series(7) != series(8)


def test_memories_without_a_seed_draw_unlike_one_another() -> None:
    assert series(None) != series(None)


def test_calls_do_not_draw_the_same_again() -> None:
    first, second, *_ = series(7)
    assert first != second


def test_both_calls_draw_alike() -> None:
    one, other = (memory(64, seed=3) for _ in range(2))
    for rem in (one, other):
        build.add_uniform(rem, 64)
    assert one.get_batch(16).prev.i.tolist() == other.sample(16).prev.i.tolist()


# -- nothing to draw --


@pytest.mark.parametrize("call", ["get_batch", "sample"])
@pytest.mark.parametrize("state", ["empty", "open", "no episode long enough", "all weights 0"])
def test_error_without_drawable_entries_names_the_reason(call: str, state: str) -> None:
    rem = memory()
    if state == "open":
        rem.new_episode()
        rem.add_entries(**build.steps(4))
    elif state == "no episode long enough":
        build.add_uniform(rem, 1)
    elif state == "all weights 0":
        build.add_uniform(rem, 4, init_w=0.0)
    with pytest.raises(RuntimeError, match=r"\w+ \w+ \w+"):
        getattr(rem, call)(1)
    assert (rem.weight_sum, rem.num_sampleable, rem.min_weight) == (0.0, 0, 0.0)


@pytest.mark.parametrize("size", [0, -1])
@pytest.mark.parametrize("call", ["get_batch", "sample"])
def test_batch_of_no_samples_is_a_value_error(call: str, size: int) -> None:
    rem = memory()
    build.add_uniform(rem, 4)
    with pytest.raises(ValueError, match="batch_size"):
        getattr(rem, call)(size)


def test_batch_larger_than_the_memory_is_drawn_with_replacement() -> None:
    rem = memory()
    build.add_uniform(rem, 2)
    assert rem.get_batch(1000).prev.i.tolist() == [0] * 1000


def test_cleared_memory_has_nothing_to_draw_and_goes_on() -> None:
    rem = memory(priority_exponent=1.0)
    first = build.add_uniform(rem, 4)
    rem.new_episode()
    rem.add_entry(**build.step())
    rem.clear()
    assert (rem.num_episode(), rem.num_entry, rem.num_sampleable) == (0, 0, 0)
    with pytest.raises(RuntimeError):
        rem.add_entry(**build.step())
    assert build.add_uniform(rem, 2) > first + 4
    assert rem.priority_exponent == 1.0


def test_ids_may_be_strided():
    rem = memory(32)
    add_uniform(rem, 20)
    ids = rem.episode(0).id
    assert rem.update_priority(ids[::2], 1.0) == rem.update_priority(ids[::-1], 1.0) == 0


def test_endless_ids_and_flags_are_refused():
    rem = memory()
    with pytest.raises(TypeError, match="id"):
        rem.update_priority(itertools.count(), 1.0)
    with pytest.raises(ValueError, match="cache_flags"):
        rem.cache_flags = itertools.repeat(1)


@pytest.mark.parametrize("size", [1, 2**40, 2**62])
def test_error_for_nothing_to_draw_is_the_same_for_every_size(size):
    with pytest.raises(RuntimeError, match="nothing to sample"):
        memory().get_batch(size)


@pytest.mark.parametrize("size", [2**40, 2**62])
def test_batch_beyond_the_machine_is_a_memory_error(size):
    rem = memory()
    add_uniform(rem, 10)
    with pytest.raises(MemoryError):
        rem.get_batch(size)
