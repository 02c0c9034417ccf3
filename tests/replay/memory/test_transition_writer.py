"""Memories that a `TransitionWriter` refuses, and what may be done to one while it writes."""

from typing import Any

import numpy as np
import pytest

from cogrs import RateLimiter, ReplayMemory
from cogrs._core import TransitionWriter

STATE = np.zeros((1, 2), np.float32)
NOTHING = np.zeros(0, np.float32)


def memory(**options: Any) -> ReplayMemory:
    number = np.float32(0)
    options = {"sampler": "uniform", **options}
    return ReplayMemory(
        STATE, np.int64(0), number, number, NOTHING, NOTHING, np.uint64(0), 100, **options
    )


def writer_of(rem: ReplayMemory) -> TransitionWriter:
    return TransitionWriter(rem, 1, 20, piece=20)


def add(writer: TransitionWriter, at: int) -> bool:
    states = np.full((2, 1, 1, 2), at, np.float32)
    states[1] += 1
    return writer.add(states[0], states[1], np.array([at]), np.ones(1), np.array([False]), [{}])


@pytest.mark.parametrize(
    ("options", "got"),
    [
        ({"limiter": RateLimiter.min_size(1)}, "one with a limiter"),
        ({"recurrent": np.zeros(3, np.float32)}, "one with recurrent states"),
        ({"max_times_sampled": 2}, "max_times_sampled=2"),
        ({"sampler": "fifo"}, "sampler='fifo'"),
        ({"sampler": "stratified"}, "sampler='stratified'"),
        ({"remover": "lifo"}, "remover='lifo'"),
        ({"compress": {"info": "lz4"}}, "one that compresses info"),
    ],
)
def test_memory_that_open_episodes_would_miscount_is_refused(
    options: dict[str, Any], got: str
) -> None:
    with pytest.raises(ValueError, match=r"^memory: expected one without limiter, views") as error:
        writer_of(memory(**options))
    assert str(error.value).endswith(f"got {got}")


def test_memory_with_a_view_is_refused_until_the_view_is_closed() -> None:
    rem = memory()
    writer = writer_of(rem)
    assert add(writer, 0)
    view = rem.view("other")
    for refused in (lambda: writer_of(rem), lambda: add(writer, 1)):
        with pytest.raises(ValueError, match="got one with views"):
            refused()
    assert (writer.added, rem.num_drawable, view.num_drawable) == (1, 1, 0)
    view.close()
    assert add(writer, 1)
    assert rem.num_drawable == 2


def test_settings_that_change_later_refuse_steps_until_the_old_values_return() -> None:
    rem = memory()
    writer = writer_of(rem)
    for at, (name, value) in enumerate(
        [("max_times_sampled", 3), ("sampler", "lifo"), ("remover", "highest")]
    ):
        before = getattr(rem, name)
        setattr(rem, name, value)
        with pytest.raises(ValueError, match=f"got {name}="):
            add(writer, at)
        setattr(rem, name, before)
        assert add(writer, at)
    assert (writer.added, rem.num_drawable) == (3, 3)


def test_frame_stack_that_changes_refuses_steps_and_draws_until_the_old_one_returns() -> None:
    rem = memory()
    writer = writer_of(rem)
    assert add(writer, 0)
    rem.frame_stack = 3
    for refused in (lambda: add(writer, 1), lambda: writer.sample(1)):
        with pytest.raises(RuntimeError, match=r"frame_stack was 1 .* and is 3 now"):
            refused()
    rem.frame_stack = 1
    assert add(writer, 1)
    assert sorted({*writer.sample(100)[1].tolist()}) == [0, 1]


def test_open_episodes_are_drawn_by_samplers_without_an_order_only() -> None:
    rem = memory()
    writer = writer_of(rem)
    for at in range(5):
        add(writer, at)
    for sampler in ("uniform", "prioritized"):
        batch = rem.sample(200, sampler=sampler)
        assert set(batch.prev.a.tolist()) == set(range(5))
        np.testing.assert_allclose(batch.probability, 0.2)
    for sampler in ("stratified", "fifo", "lifo", "highest", "lowest"):
        with pytest.raises(RuntimeError, match=f"sampler='{sampler}' cannot draw while"):
            rem.sample(1, sampler=sampler)
    writer.finish()
    assert rem.sample(5, sampler="fifo").prev.a.tolist() == [0, 1, 2, 3, 4]
    assert rem.sample(5, sampler="lifo").prev.a.tolist() == [4, 3, 2, 1, 0]


def test_sequences_are_drawn_from_finished_episodes() -> None:
    rem = memory()
    writer = writer_of(rem)
    for at in range(5):
        add(writer, at)
    with pytest.raises(RuntimeError, match="nothing to sample"):
        rem.sample_sequences(1, 2)
    writer.finish()
    for at in range(10, 13):
        add(writer, at)
    batch = rem.sample_sequences(50, 2)
    assert set(batch.steps.a[batch.learn].tolist()) == set(range(5))
