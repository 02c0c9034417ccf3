"""n steps end with the episode: transitions near its end, sums, and discounts."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cogrs import NStepSample, ReplayMemory
from tests.replay import build
from tests.replay.build import memory

GAMMA = 0.5
VERSION3 = Path(__file__).parents[2] / "data" / "replay" / "version3.rm"
ENDINGS = {
    "terminated": {"final_state": 99},
    "truncated": {"final_state": 99, "bootstrap_value": 0.0},
    "no final state": {},
    "truncated, no final state": {"bootstrap_value": 3.0},
}


def drawn(rem: ReplayMemory, count: int = 400) -> dict[int, tuple[Any, ...]]:
    """Of each state drawn: next, n-step return, discount, next_terminated."""
    sample = rem.sample(count, nstep_return=True)
    columns = (
        sample.prev.s[:, -1].tolist(),
        sample.next.s[:, -1].tolist(),
        sample.nstep_return.tolist(),
        sample.nstep_discount.tolist(),
        sample.next_terminated.tolist(),
    )
    return {prev: row for prev, *row in zip(*columns, strict=True)}


def expected(
    actions: int, n: int, end: dict[str, Any], first: int = 0
) -> dict[int, tuple[Any, ...]]:
    """The same from the definition; step t of the episode holds `first + t`."""
    final = "final_state" in end
    found = {}
    for t in range(actions if final else actions - n):
        steps = min(n, actions - t)
        ended = final and t + n >= actions
        terminated = ended and "bootstrap_value" not in end
        found[first + t] = [
            end["final_state"] if ended else first + t + steps,
            sum(GAMMA**k * (first + t + k) for k in range(steps)),
            0.0 if terminated else GAMMA**steps,
            terminated,
        ]
    return found


@pytest.mark.parametrize("end", ENDINGS.values(), ids=ENDINGS)
@pytest.mark.parametrize("n", [1, 2, 3, 5, 6, 7, 100, 2**31, 2**63, 2**64 - 1])
@pytest.mark.parametrize("actions", [1, 2, 6])
def test_every_action_with_a_next_is_drawn_with_its_sum_and_discount(actions, n, end):
    rem = memory(64, multi_step=n, discount_factor=GAMMA, seed=0)
    build.add_uniform(rem, actions, **end)
    if not expected(actions, n, end):
        with pytest.raises(RuntimeError, match="nothing to sample"):
            rem.sample(1, nstep_return=True)
        return
    assert drawn(rem) == expected(actions, n, end)
    assert rem.num_sampleable == len(expected(actions, n, end))


@pytest.mark.parametrize("end", ENDINGS.values(), ids=ENDINGS)
def test_episode_in_several_runs_of_slots_ends_its_steps_too(end):
    rem = memory(12, multi_step=3, discount_factor=GAMMA, seed=0)
    writers = [rem.writer() for _ in range(2)]
    for writer in writers:
        writer.new_episode()
    for step in range(4):
        for at, writer in enumerate(writers):
            writer.add_entry(**build.step(10 * at + step))
    for writer in writers:
        writer.close_episode(**build.UNIFORM, **end)
    both = expected(4, 3, end) | expected(4, 3, end, first=10)
    assert drawn(rem) == both


def test_entries_of_open_episodes_are_neither_drawn_nor_reached():
    rem = memory(64, multi_step=4, discount_factor=GAMMA, seed=0)
    writer = rem.writer()
    writer.new_episode()
    writer.add_entries(**build.steps(3, 50))
    build.add_uniform(rem, 3, final_state=99)
    writer.add_entries(**build.steps(3, 53))
    assert drawn(rem) == expected(3, 4, {"final_state": 99})


@pytest.mark.parametrize("terminated", [True, False])
def test_each_dimension_has_its_own_discount(terminated):
    rem = build.vector_memory(3, multi_step=3, discount_factor=[1.0, 0.5, 0.0], seed=0)
    ends = {} if terminated else {"bootstrap_value": np.zeros(3)}
    zeros = np.zeros((2, 3))
    rem.add_episode(
        **build.steps(2, r=[[1, 2, 3], [10, 20, 30]], v=zeros),
        **build.UNIFORM,
        final_state=9,
        **ends,
    )
    sample = rem.sample(50, nstep_return=True)
    first = sample.prev.s[:, 0] == 0
    assert sample.nstep_return[first].tolist() == [[11, 12, 3]] * first.sum()
    assert sample.nstep_return[~first].tolist() == [[10, 20, 30]] * (~first).sum()
    powers = np.array([[1, 0.25, 0], [1, 0.5, 0]])
    wanted = np.where(first[:, None], *powers) if not terminated else np.zeros((50, 3))
    assert sample.nstep_discount.tolist() == wanted.tolist()
    assert (sample.nstep_discount.dtype, sample.nstep_discount.shape) == (np.float32, (50, 3))


def test_discount_of_a_long_episode_does_not_overflow():
    rem = memory(400, multi_step=300, discount_factor=2.0, seed=0)
    rem.add_episode(
        **build.steps(300, r=np.zeros(300), v=np.zeros(300)),
        **build.UNIFORM,
        bootstrap_value=1e-3,
        final_state=9,
    )
    sample = rem.sample(50, nstep_return=True)
    steps = 300 - sample.prev.s[:, 0]
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(sample.nstep_discount, (2.0**steps).astype(np.float32))


def test_stack_of_the_final_state_has_the_preceding_frames():
    rem = memory(64, multi_step=5, frame_stack=3, seed=0)
    build.add_uniform(rem, 4, final_state=99)
    batch = rem.get_batch(100)
    assert {tuple(row) for row in batch.next.s.tolist()} == {(2, 3, 99)}
    assert {tuple(row) for row in batch.prev.s.tolist()} == {(0, 1, 2), (1, 2, 3)}


def test_frames_and_steps_are_counted_separately():
    rem = memory(64, multi_step=2, frame_stack=3)
    build.add_uniform(rem, 2, final_state=99)
    with pytest.raises(
        RuntimeError, match="need an episode of at least 4 entries, the longest has 3"
    ):
        rem.sample(1)


def test_late_reward_reaches_the_sums_that_end_with_the_episode():
    rem = memory(64, multi_step=3, discount_factor=GAMMA, seed=0)
    last = build.add_uniform(rem, 4, final_state=99) + 3
    assert rem.add_reward(last, 8.0)
    sums = {state: row[1] for state, row in drawn(rem).items()}
    assert sums == {1: 1 + 1 + 0.25 * 11, 2: 2 + 0.5 * 11, 3: 11, 0: 0.5 + 0.5}


def test_late_reward_makes_weights_of_the_last_actions_anew():
    rem = memory(64, multi_step=3, discount_factor=GAMMA, priority_exponent=1.0)
    zeros = np.zeros(4)
    first = rem.add_episode(**build.steps(4, r=zeros, v=zeros), final_state=99)
    rem.add_reward(first + 3, 8.0)
    assert rem.episode(0).weight.tolist() == [1, 2, 4, 8, 0]


def test_priorities_of_the_last_actions_count():
    rem = memory(64, multi_step=3, priority_exponent=1.0)
    first = build.add_uniform(rem, 4, final_state=99)
    assert rem.update_priority([first + 3, first + 4], [5.0, 7.0]) == 0
    assert rem.episode(0).weight.tolist() == [1, 1, 1, 5, 0]


def test_saved_memory_draws_the_last_actions_too(tmp_path):
    rem = memory(64, multi_step=3, discount_factor=GAMMA, seed=0)
    build.add_uniform(rem, 6, final_state=99)
    rem.save(tmp_path / "memory.rm")
    again = ReplayMemory.load(tmp_path / "memory.rm")
    assert drawn(again) == expected(6, 3, {"final_state": 99})


def test_out_is_filled_with_discounts():
    rem = memory(64, multi_step=3, discount_factor=GAMMA, seed=0)
    build.add_uniform(rem, 6, final_state=99)
    ready = rem.sample(30, nstep_return=True)
    ready.nstep_discount[:] = -1
    assert rem.sample(30, nstep_return=True, out=ready) is ready
    assert set(ready.nstep_discount.tolist()) <= {0.0, 0.125}
    with pytest.raises(TypeError, match="nstep_return, nstep_discount"):
        rem.sample(30, nstep_return=True, out=ready[:-1])
    with pytest.raises(ValueError, match=r"out\.nstep_discount: expected float32"):
        rem.sample(30, nstep_return=True, out=ready._replace(nstep_discount=np.zeros(30)))


def test_discount_is_a_field_of_the_sample():
    rem = memory(64, seed=0)
    build.add_uniform(rem, 6)
    sample = rem.sample(3, nstep_return=True)
    assert type(sample) is NStepSample
    assert sample._fields[-2:] == ("nstep_return", "nstep_discount")


# -- a setting that changes later --


@pytest.mark.parametrize(
    "end", [{}, {"final_state": 99}, {"bootstrap_value": 2.0, "final_state": 9}]
)
@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize(
    "before", [{"frame_stack": 4}, {"multi_step": 4}, {"frame_stack": 3, "multi_step": 9}]
)
@pytest.mark.parametrize(
    "after",
    [{}, {"frame_stack": 2}, {"multi_step": 2}, {"frame_padding": "repeat", "frame_stack": 9}],
)
def test_changed_setting_draws_like_a_memory_closed_with_that_setting(before, after, weights, end):
    changed, fresh = (memory(64, discount_factor=GAMMA) for _ in range(2))
    under = {"frame_stack": 1, "multi_step": 1} | after
    for name, value in before.items():
        setattr(changed, name, value)
    for name, value in under.items():
        setattr(fresh, name, value)
    for rem in (changed, fresh):
        rem.add_episode(**build.steps(8), do_update_weight=weights, **end)
    for name, value in under.items():
        setattr(changed, name, value)
    assert build.described(changed.episode(0)) == build.described(fresh.episode(0))
    assert changed.num_sampleable == fresh.num_sampleable > 0


def test_priority_given_outside_of_the_borders_counts_once_inside():
    rem = memory(64, multi_step=4, priority_exponent=1.0)
    first = build.add_uniform(rem, 6)
    rem.update_priority(first + 4, 7.0)
    assert rem.episode(0).weight.tolist() == [1, 1, 0, 0, 0, 0]
    rem.multi_step = 1
    assert rem.episode(0).weight.tolist() == [1, 1, 1, 1, 7, 0]


def rebuilt() -> ReplayMemory:
    """The memory that cogrs 0.1.0 saved in VERSION3."""
    rem = memory(60, frame_stack=2, multi_step=3, priority_exponent=0.75, discount_factor=GAMMA)

    def add(count: int, first: int, **end: Any) -> int:
        values, init_w = -np.arange(first, first + count), 1.0 + np.arange(first, first + count) % 3
        return rem.add_episode(**build.steps(count, first, v=values, init_w=init_w), **end)

    first = add(6, 0, final_state=6, episodic_weight_multiplier=0.5)
    add(5, 10, bootstrap_value=2.0, final_state=15)
    add(2, 20, final_state=22)
    add(6, 30)
    add(6, 40, **build.UNIFORM, final_state=46)
    rem.update_priority([first + 2], [9.0])
    return rem


def test_file_of_the_previous_version_draws_the_same_samples():
    rem = ReplayMemory.load(VERSION3)
    assert (rem.uuid, rem.frame_stack, rem.multi_step, rem.priority_exponent) == (7, 2, 3, 0.75)
    assert (rem.new_priority, rem.priority_epsilon, rem.frame_padding) == ("returns", 0.0, "none")
    fresh = rebuilt()
    assert rem.num_episode() == fresh.num_episode() == 5
    for name, value in (("multi_step", 3), ("multi_step", 1), ("frame_stack", 1)):
        setattr(rem, name, value)
        setattr(fresh, name, value)
        for k in range(5):
            one, other = rem.episode(k), fresh.episode(k)
            np.testing.assert_allclose(one.weight, other.weight, rtol=1e-6)
            np.testing.assert_array_equal(one.entries.q, other.entries.q)
