"""Views: weights, counts and limits of several learners over one set of entries."""

import threading
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cogrs import RateLimiter, ReplayMemory
from tests.replay.build import TEMPLATES, UNIFORM, add_uniform, memory, step, steps
from tests.replay.model import FIELDS


def weights_of(view: Any) -> dict[int, float]:
    """The weight of each entry that a view can draw."""
    if view.num_drawable == 0:
        return {}
    sample = view.sample(view.num_drawable, sampler="fifo")
    return dict(zip(sample.id.tolist(), sample.weight.tolist(), strict=True))


def test_view_has_the_weights_of_the_close_under_its_exponent():
    rem = memory(64, priority_exponent=0.5)
    before = rem.add_episode(**steps(6), bootstrap_value=3.0, final_state=6)
    squared = rem.view("squared", priority_exponent=2.0)
    after = rem.add_episode(**steps(6, 10), bootstrap_value=3.0, final_state=16)
    rem.update_priority(np.arange(before, before + 3), 7.0)
    rows = rem.episode(0).entries, rem.episode(1).entries
    errors = np.concatenate([np.abs(each.q - each.v)[:-1] for each in rows])
    got = weights_of(squared)
    assert list(got) == [*range(before, before + 6), *range(after, after + 6)]
    np.testing.assert_allclose(list(got.values()), errors**2, rtol=1e-6)


def test_priorities_of_one_view_change_neither_another_nor_the_memory():
    rem = memory(64, priority_exponent=1.0)
    first = add_uniform(rem, 5)
    one, two = rem.view("one", priority_exponent=0.5), rem.view("two")
    assert one.update_priority([first, first + 1, 1 << 40], [4.0, 9.0, 1.0]) == 1
    assert list(weights_of(one).values()) == [2, 3, 1, 1]
    assert list(weights_of(two).values()) == [1, 1, 1, 1]
    assert rem.weight_sum == two.weight_sum == 4
    assert one.weight_sum == 7
    one.update_priority(first, 0.0, absolute=True)
    assert (one.num_sampleable, one.num_drawable, one.min_weight) == (3, 4, 1)
    sample = one.sample(50, beta=1.0, normalize="memory")
    np.testing.assert_allclose(sample.probability, sample.weight / 5)
    np.testing.assert_allclose(sample.importance_weight, 1 / sample.weight)


def test_counts_and_limits_of_a_view_leave_the_memory_alone():
    rem = memory(64)
    first = add_uniform(rem, 4)
    queue = rem.view("queue", sampler="fifo", max_times_sampled=1)
    assert queue.sample(2).times_sampled.tolist() == [1, 1]
    assert (queue.num_drawable, rem.num_drawable) == (1, 3)
    assert queue.get_batch(1).prev.s.ravel().tolist() == [2]
    with pytest.raises(RuntimeError, match=r"have 0 .*max_times_sampled=1"):
        queue.sample(1)
    assert rem.sample(3, sampler="fifo").id.tolist() == [first, first + 1, first + 2]
    add_uniform(rem, 2, 10)
    assert queue.sample(1).prev.s.ravel().tolist() == [10]


def test_weights_outside_the_borders_come_back_with_former_borders():
    rem = memory(64)
    first = add_uniform(rem, 6)
    view = rem.view("v", priority_exponent=1.0)
    view.update_priority(np.arange(first, first + 5), [1.0, 2.0, 3.0, 4.0, 5.0])
    before = weights_of(view)
    rem.frame_stack, rem.multi_step = 3, 2
    assert list(weights_of(view).values()) == [3, 4]
    view.update_priority(first, 9.0)
    rem.frame_stack, rem.multi_step = 1, 1
    assert weights_of(view) == before | {first: 9.0}


def test_late_reward_changes_weights_in_views_too():
    rem = memory(64, priority_exponent=1.0)
    first = rem.add_episode(**steps(3, 0, r=np.float32([1, 1, 1]), v=np.float32([0, 0, 0])))
    view = rem.view("v", priority_exponent=2.0)
    rem.add_reward(first + 1, 2.0)
    assert list(weights_of(view).values()) == [25, 16]


def test_evicted_entries_leave_views_and_new_ones_start_anew():
    rem = memory(8)
    view = rem.view("v", sampler="uniform", max_times_sampled=1)
    for k in range(20):
        add_uniform(rem, 4, 10 * k)
        assert view.sample(3).times_sampled.tolist() == [1] * 3
        assert view.num_drawable == 0


def test_same_name_gives_the_same_view_and_refuses_other_settings():
    rem = memory(8)
    add_uniform(rem, 3)
    view = rem.view("v", priority_exponent=0.25, sampler="fifo", max_times_sampled=2)
    again = rem.view("v")
    again.sample(1)
    assert view.sample(1).times_sampled.tolist() == [2]
    assert (again.name, again.priority_exponent) == ("v", 0.25)
    assert (again.sampler, again.max_times_sampled) == ("fifo", 2)
    for other in ({"priority_exponent": 1.0}, {"sampler": "lifo"}, {"max_times_sampled": 3}):
        (name,) = other
        with pytest.raises(ValueError, match=f'^{name}: expected .*, which the view "v" has'):
            rem.view("v", **other)


@pytest.mark.parametrize(
    ("arguments", "error", "name"),
    [
        (("",), ValueError, "name"),
        ((1,), TypeError, "name"),
        (("\ud800",), ValueError, "name"),
        (("v", {"priority_exponent": -1}), ValueError, "priority_exponent"),
        (("v", {"sampler": "best"}), ValueError, "sampler"),
        (("v", {"max_times_sampled": -1}), ValueError, "max_times_sampled"),
    ],
)
def test_wrong_argument_of_view_is_refused_by_name(arguments, error, name):
    given = arguments[1] if len(arguments) > 1 else {}
    with pytest.raises(error, match=rf"^{name}: expected"):
        memory().view(arguments[0], **given)


def test_closed_view_refuses_calls_and_its_name_can_be_used_anew():
    rem = memory(8)
    add_uniform(rem, 3)
    view = rem.view("v", sampler="fifo")
    view.close()
    view.close()
    calls = [
        lambda: view.sample(1),
        lambda: view.get_batch(1),
        lambda: view.get_batch(1, wait=5),
        lambda: view.update_priority(0, 1.0),
        lambda: view.weight_sum,
        lambda: view.num_drawable,
    ]
    for call in calls:
        with pytest.raises(RuntimeError, match=r"this view was closed"):
            call()
    assert rem.view("v", sampler="lifo").sampler == "lifo"


def test_close_ends_a_wait_for_entries_of_the_view():
    view = memory(8).view("v")
    threading.Timer(0.1, view.close).start()
    with pytest.raises(RuntimeError, match=r"this view was closed"):
        view.sample(1, wait=60)


def test_close_ends_a_wait_of_the_view_for_the_rate_limiter():
    templates = (TEMPLATES[name] for name in FIELDS)
    rem = ReplayMemory(*templates, 16, limiter=RateLimiter.min_size(9))
    add_uniform(rem, 4)
    view = rem.view("v")
    threading.Timer(0.1, view.close).start()
    with pytest.raises(RuntimeError, match=r"this view was closed"):
        view.sample(1, wait=60)


def test_fast_view_waits_until_a_slow_one_has_let_entries_in():
    templates = (TEMPLATES[name] for name in FIELDS)
    rem = ReplayMemory(*templates, 64, limiter=RateLimiter(2.0, 1, 4.0))
    fast, slow = (rem.view(k, sampler="fifo", max_times_sampled=1) for k in ("fast", "slow"))

    def insert() -> None:
        for k in range(10):
            rem.add_episode(**steps(2, 2 * k), **UNIFORM, final_state=0, wait=60)

    given: list[int] = []

    def learn() -> None:
        for _ in range(10):
            given.extend(fast.sample(2).prev.s.ravel().tolist())

    threads = [threading.Thread(target=each) for each in (insert, learn)]
    for each in threads:
        each.start()
    for _ in range(10):
        time.sleep(0.02)
        slow.sample(2, wait=60)
    for each in threads:
        each.join()
    assert given == list(range(20))


def test_views_are_saved_and_loaded_by_name(tmp_path):
    rem = memory(16, seed=0)
    first = add_uniform(rem, 6)
    view = rem.view("höhe", priority_exponent=1.0, sampler="fifo", max_times_sampled=2)
    rem.view("plain")
    view.update_priority(np.arange(first, first + 5), [0.0, 2.0, 3.0, 4.0, 5.0])
    view.sample(2)
    view.sample(1)
    rem.frame_stack = 2
    rem.save(tmp_path / "memory")
    made = ReplayMemory.load(tmp_path / "memory")
    again = made.view("höhe", priority_exponent=1.0, sampler="fifo", max_times_sampled=2)
    made.frame_stack = 1
    assert (again.num_drawable, again.weight_sum) == (4, 14)
    assert again.sample(4).times_sampled.tolist() == [2, 1, 1, 1]
    assert made.view("plain").weight_sum == 5


def test_memory_without_views_has_files_of_the_same_size(tmp_path):
    rem = memory(16)
    add_uniform(rem, 6)
    rem.save(tmp_path / "one")
    rem.view("v").close()
    rem.save(tmp_path / "two")
    assert (tmp_path / "one").stat().st_size == (tmp_path / "two").stat().st_size


CALLS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 7), st.booleans()),
        st.tuples(st.just("priority"), st.integers(0, 99), st.floats(0, 8)),
        st.tuples(st.just("view_priority"), st.integers(0, 99), st.floats(0, 8)),
        st.tuples(st.just("reward"), st.integers(0, 99), st.integers(-3, 3)),
        st.tuples(st.just("stack"), st.integers(1, 3), st.integers(1, 3)),
        st.tuples(st.just("clear"), st.just(0), st.just(0)),
    ),
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(calls=CALLS)
def test_view_equals_a_memory_of_its_exponent_that_gets_its_priorities(calls):
    """The model is a second memory: what a view stands for."""
    rem, other = memory(24, priority_exponent=0.5), memory(24, priority_exponent=1.5)
    view = rem.view("v", priority_exponent=1.5)
    ids: list[int] = []
    for k, (name, one, two) in enumerate(calls):
        at = ids[one % len(ids)] if ids else 0
        for made in (rem, other):
            if name == "add":
                end = {"final_state": 9, "bootstrap_value": 1.5} if two else {}
                first = made.add_episode(**steps(one, k), **end)
            elif name == "reward" and ids:
                made.add_reward(at, float(two))
            elif name == "stack":
                made.frame_stack, made.multi_step = one, two
            elif name == "clear":
                made.clear()
        if name == "add":
            ids.extend(range(first, first + one))
        if name == "priority":
            rem.update_priority(at, two)
        if name == "view_priority":
            view.update_priority(at, two)
            other.update_priority(at, two)
        got, expected = weights_of(view), weights_of(other)
        assert list(got) == list(expected)
        np.testing.assert_allclose(list(got.values()), list(expected.values()), rtol=1e-5)
        assert view.num_sampleable == other.num_sampleable


def test_view_cannot_be_pickled_and_outlives_its_memory():
    rem = memory(8)
    rem.new_episode()
    rem.add_entry(**step(1))
    rem.close_episode(1.0, **UNIFORM, final_state=2)
    view = rem.view("v")
    del rem
    assert view.sample(1).prev.s.item() == 1
    with pytest.raises(TypeError, match=r"saved with its ReplayMemory"):
        view.__reduce_ex__(2)


def test_rate_limiter_counts_entries_that_the_memory_used_up_but_not_its_views():
    templates = (TEMPLATES[name] for name in FIELDS)
    rem = ReplayMemory(
        *templates, 16, limiter=RateLimiter.min_size(1), max_times_sampled=2, sampler="fifo"
    )
    view = rem.view("v", sampler="fifo", max_times_sampled=3)
    add_uniform(rem, 4)
    for _ in range(3):
        view.sample(3)
    assert view.num_drawable == 0
    figures = rem.stats().limiter
    assert figures is not None
    assert (figures.samples, figures.removed) == (9, 0)
    rem.sample(3)
    rem.sample(2)
    figures = rem.stats().limiter
    assert figures is not None
    assert (figures.samples, figures.removed) == (14, 2)


def test_last_priority_of_an_id_given_twice_is_the_largest_that_a_view_gave():
    rem = memory(16, priority_exponent=1.0, new_priority="max")
    first = rem.add_episode(**steps(2), final_state=2)
    view = rem.view("v", priority_exponent=1.0)
    for each in (rem, view):
        each.update_priority([first, first + 1, first], [100.0, 3.0, 2.0])
    new = rem.add_episode(**steps(1), final_state=1)
    assert weights_of(view) == weights_of(rem.view("w")) | {first: 2, first + 1: 3, new: 3}
    assert rem.sample(1, sampler="lifo").weight.tolist() == [3]


@pytest.mark.parametrize("sampler", ["uniform", "fifo", "lowest"])
def test_negative_zero_as_a_weight_draws_as_zero(sampler, tmp_path):
    rem = memory(16, new_priority=-0.0)
    first = add_uniform(rem, 4)
    view = rem.view("v")
    rem.save(tmp_path / "file")
    loaded = ReplayMemory.load(tmp_path / "file")
    rem.update_priority(first, -0.0, absolute=True)
    view.update_priority(first, -0.0, absolute=True)
    for each in (rem, view, loaded, loaded.view("v")):
        # The last step has no next: to draw it would leave the episode.
        assert (each.num_drawable, each.weight_sum) == (3, 0)
        assert set(each.sample(3, sampler=sampler).id.tolist()) <= set(range(first, first + 3))
