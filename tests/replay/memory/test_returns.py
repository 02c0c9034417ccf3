"""Multi-step returns and the weights made of them."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from cogrs import Episode, ReplayMemory
from tests.replay import build
from tests.replay.build import memory, step, vector_memory
from tests.replay.golden import snapshot

NUMBERS = st.floats(-100, 100, width=32)
UNIT = st.floats(0, 1)


def closed(rem: ReplayMemory, r: Any, v: Any = None, **end: Any) -> Episode:
    """The episode of these rewards and values, once it is closed."""
    r = np.asarray(r, np.float32)
    v = np.zeros_like(r) if v is None else np.float32(v)
    rem.add_episode(**build.steps(len(r), r=r, v=v), **end)
    return rem.episode(-1)


def by_definition(
    r: np.ndarray, v: np.ndarray, gamma: float, lambda_: float, b: float
) -> np.ndarray:
    """The lambda-return as the mixture of all n-step returns: O(T^3), and no recursion.

    What v[T] would be is b: an episode that ends stands for states worth b from there on.
    """
    length = len(r)
    v = np.append(v.astype(np.float64), b)
    q = np.zeros(length)
    for t in range(length):
        n_step = [
            sum(gamma**k * r[t + k] for k in range(n)) + gamma**n * v[t + n]
            for n in range(1, length - t + 1)
        ]
        shares = [(1 - lambda_) * lambda_ ** (n - 1) for n in range(1, length - t)]
        q[t] = np.dot([*shares, lambda_ ** (length - t - 1)], n_step)
    return q


# -- returns --


@given(
    rv=nps.arrays(np.float32, st.tuples(st.integers(1, 12), st.just(2)), elements=NUMBERS),
    gamma=UNIT,
    lambda_=UNIT,
    bootstrap=st.none() | NUMBERS,
)
def test_returns_are_the_mixture_of_n_step_returns(rv, gamma, lambda_, bootstrap) -> None:
    rem = memory(discount_factor=gamma, mix_lambda=lambda_)
    episode = closed(rem, rv[:, 0], rv[:, 1], bootstrap_value=bootstrap)
    expected = by_definition(rv[:, 0], rv[:, 1], gamma, lambda_, bootstrap or 0.0)
    np.testing.assert_allclose(episode.entries.q, expected, rtol=1e-6, atol=1e-4)


def test_lambda_0_is_the_one_step_target() -> None:
    rem = memory(mix_lambda=0.0, discount_factor=0.5)
    assert closed(rem, [1, 2, 4], [0.5, 1, 2]).entries.q.tolist() == [1.5, 3, 4]


def test_lambda_1_is_the_discounted_sum() -> None:
    rem = memory(discount_factor=0.5)
    assert closed(rem, [1, 1, 1, 1], [9, 9, 9, 9]).entries.q[0] == 1.875


def test_lambda_half_mixes_both() -> None:
    rem = memory(mix_lambda=0.5, discount_factor=0.5)
    assert closed(rem, [1, 2, 4], [0.5, 1, 2]).entries.q.tolist() == [2.125, 3.5, 4]


def test_truncated_episode_goes_on_from_the_bootstrap_value() -> None:
    rem = memory(mix_lambda=0.5, discount_factor=0.5)
    episode = closed(rem, [1, 2, 4], [0.5, 1, 2], bootstrap_value=8.0)
    assert episode.entries.q.tolist() == [2.375, 4.5, 8]
    assert episode.truncated


def test_bootstrap_value_of_zero_is_truncation_too() -> None:
    rem = memory()
    assert closed(rem, [1, 2], bootstrap_value=0.0).truncated
    assert not closed(rem, [1, 2]).truncated


@pytest.mark.parametrize("end", [{}, {"final_state": 3}], ids=["without", "with"])
def test_gamma_is_applied_once_to_the_bootstrap_value(end: dict[str, Any]) -> None:
    rem = memory(discount_factor=0.5)
    episode = closed(rem, [1, 1, 1], bootstrap_value=8.0, **end)
    assert episode.entries.q[:3].tolist() == [2.75, 3.5, 5]


@pytest.mark.parametrize("lambda_", [0.0, 0.25, 1.0])
def test_final_state_changes_no_return(lambda_: float) -> None:
    rem = memory(discount_factor=0.75, mix_lambda=lambda_)
    r, v = [1, -2, 3, 4], [0.5, 7, -2, 3]
    without = closed(rem, r, v, bootstrap_value=-3.0)
    with_one = closed(rem, r, v, bootstrap_value=-3.0, final_state=4)
    assert with_one.entries.q[:4].tolist() == without.entries.q.tolist()


def test_each_reward_dimension_has_its_own_return() -> None:
    rem = vector_memory(2, discount_factor=[0.5, 1.0])
    r = [[1, 10], [1, 20], [1, 30]]
    assert closed(rem, r).entries.q.tolist() == [[1.75, 60], [1.5, 50], [1, 30]]


def test_each_reward_dimension_has_its_own_bootstrap_value() -> None:
    rem = vector_memory(2, discount_factor=[0.5, 1.0])
    episode = closed(rem, [[1, 10], [1, 20]], bootstrap_value=[8, 100])
    assert episode.entries.q.tolist() == [[3.5, 130], [5, 120]]


def test_rewards_are_stored_as_given() -> None:
    rem = memory(discount_factor=0.5)
    assert closed(rem, [1, 2, 4]).entries.r.tolist() == [1, 2, 4]


def test_long_sum_is_not_rounded_on_its_way() -> None:
    # In float32 a running sum of 16777216 stops growing by ones.
    r = np.ones(5000, np.float32)
    r[-1] = 2**24
    assert closed(memory(5000), r).entries.q[0] == np.float32(2**24 + 4999)


# -- the final state --


def test_final_state_is_an_entry_of_nothing_but_state_and_info() -> None:
    rem = memory()
    entries = closed(rem, [1, 2], [3, 4], final_state=7, final_info=9).entries
    assert [column[-1].item() for column in entries] == [7, 0, 0, 0, 0, 0, 9]


def test_final_info_is_zero_unless_given() -> None:
    assert closed(memory(), [1, 2], final_state=7).entries.i[-1] == 0


def test_final_state_is_worth_the_bootstrap_value() -> None:
    entries = closed(memory(), [1, 2], bootstrap_value=5.0, final_state=7).entries
    assert (entries.v[-1], entries.q[-1]) == (5, 5)


def test_final_state_makes_the_last_action_one_that_can_be_drawn() -> None:
    rem = memory()
    end = {**build.UNIFORM, "final_state": 7}
    assert closed(rem, [1, 1, 1]).weight.tolist()[2] == 0
    assert closed(rem, [1, 1, 1], **end).weight.tolist() == [1, 1, 1, 0]


def test_final_state_may_evict() -> None:
    rem = memory(6)
    build.add_uniform(rem, 3)
    build.add_uniform(rem, 2, first=10, final_state=19)
    assert rem.num_episode() == 2
    build.add_uniform(rem, 2, first=20, final_state=29)
    assert build.contents(rem) == [[10, 11, 19], [20, 21, 29]]


def test_final_state_without_room_leaves_the_episode_open() -> None:
    rem = memory(4)
    rem.new_episode()
    rem.add_entries(**build.steps(4))
    with pytest.raises(RuntimeError):
        rem.close_episode(final_state=4)
    assert rem.num_episode() == 0
    rem.close_episode()
    assert build.contents(rem) == [[0, 1, 2, 3]]


@pytest.mark.parametrize(
    "end",
    [
        {"final_state": np.zeros(2, np.int64)},
        {"final_state": 1, "final_info": np.zeros(2, np.int64)},
        {"bootstrap_value": [1.0]},
        {"bootstrap_value": np.inf},
        {"bootstrap_value": np.nan},
        {"episodic_weight_multiplier": -1.0},
        {"episodic_weight_multiplier": np.nan},
        {"episodic_weight_multiplier": np.inf},
    ],
    ids=str,
)
def test_refused_end_leaves_the_episode_open_and_evicts_nothing(end: dict[str, Any]) -> None:
    rem = memory(4, max_episode=1)
    build.add_uniform(rem, 2)
    rem.new_episode()
    rem.add_entries(**build.steps(2, first=5))
    before = snapshot(rem)
    with pytest.raises(ValueError, match=list(end)[-1]):
        rem.close_episode(**end)
    assert snapshot(rem) == before
    rem.close_episode()
    assert build.contents(rem) == [[5, 6]]


# -- weights --


@pytest.mark.parametrize(
    ("exponent", "weights"), [(1.0, [1.625, 2.5, 0]), (0.5, [1.27475, 1.58114, 0])]
)
def test_exponent_is_applied_once(exponent: float, weights: list[float]) -> None:
    rem = memory(mix_lambda=0.5, discount_factor=0.5, priority_exponent=exponent)
    episode = closed(rem, [1, 2, 4], [0.5, 1, 2])
    np.testing.assert_allclose(episode.weight, weights, rtol=1e-5)


def test_exponent_0_draws_by_initial_weight_also_without_an_error() -> None:
    rem = memory(priority_exponent=0.0)
    rem.add_episode(**build.steps(3, r=[1, 2, 4], v=[7, 6, 4], init_w=[1, 3, 1]))
    assert rem.episode(0).weight.tolist() == [1, 3, 0]


def test_no_error_at_exponent_1_is_never_drawn() -> None:
    rem = memory(priority_exponent=1.0)
    assert closed(rem, [1, 2, 4], [7, 6, 4]).weight.tolist() == [0, 0, 0]
    assert rem.num_sampleable == 0


def test_errors_of_both_signs_weigh_the_same() -> None:
    rem = memory(priority_exponent=1.0, discount_factor=0.0)
    assert closed(rem, [2, -2, 0], [0, 0, 0]).weight.tolist() == [2, 2, 0]


def test_reward_dimensions_are_made_absolute_before_mixing() -> None:
    rem = vector_memory(2, priority_exponent=1.0, discount_factor=0.0, reward_coeff=[1, 0.5])
    assert closed(rem, [[2, -2], [0, 0]]).weight.tolist() == [3, 0]


def test_negative_sum_counts_as_zero() -> None:
    rem = vector_memory(2, discount_factor=0.0, reward_coeff=[1, -1])
    assert closed(rem, [[1, 2], [2, 1], [0, 0]]).weight.tolist() == [0, 1, 0]


def test_initial_weight_and_multiplier_scale_the_weight() -> None:
    rem = memory(priority_exponent=1.0, discount_factor=0.0)
    rem.add_episode(
        **build.steps(3, r=[1, 1, 1], v=[0, 0, 0], init_w=[1, 2, 3]),
        episodic_weight_multiplier=4.0,
    )
    assert rem.episode(0).weight.tolist() == [4, 8, 0]


def test_weights_without_update_are_the_initial_ones_times_the_multiplier() -> None:
    rem = memory()
    end = {"episodic_weight_multiplier": 4.0, "do_update_weight": False}
    rem.add_episode(**build.steps(3, init_w=[1, 2, 3]), **end)
    assert rem.episode(0).weight.tolist() == [4, 8, 0]
    assert rem.episode(0).entries.q.tolist() == [3, 3, 2]


def test_values_without_update_are_zero() -> None:
    assert closed(memory(), [1, 2, 4], **build.UNIFORM).entries.q.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("frame_stack", "multi_step", "weights"),
    [
        (1, 1, [1, 1, 1, 1, 0]),
        (3, 1, [0, 0, 1, 1, 0]),
        (1, 3, [1, 1, 0, 0, 0]),
        (2, 3, [0, 1, 0, 0, 0]),
        (3, 3, [0, 0, 0, 0, 0]),
        (9, 9, [0, 0, 0, 0, 0]),
    ],
)
def test_borders_are_never_drawn(frame_stack: int, multi_step: int, weights: list[int]) -> None:
    rem = memory(frame_stack=frame_stack, multi_step=multi_step)
    build.add_uniform(rem, 5)
    assert rem.episode(0).weight.tolist() == weights


# -- overflow --


@pytest.mark.parametrize(
    ("r", "end"),
    [
        ([3e38, 3e38, 0], {}),
        ([-3e38, -3e38, 0], {}),
        ([3e38, 0, 0], {"bootstrap_value": 3e38}),
    ],
)
def test_return_beyond_float32_leaves_the_episode_open(r: list[float], end: dict) -> None:
    rem = memory()
    build.add_uniform(rem, 4)
    rem.new_episode()
    rem.add_entries(**build.steps(3, r=np.float32(r)))
    before = snapshot(rem)
    with pytest.raises(ValueError, match="finite"):
        rem.close_episode(**end)
    assert snapshot(rem) == before
    rem.close_episode(**build.UNIFORM)
    assert rem.num_episode() == 2


def test_weight_beyond_float32_leaves_the_episode_open() -> None:
    rem = memory(priority_exponent=2.0)
    rem.new_episode()
    rem.add_entries(**build.steps(2, r=np.float32([1e30, 0]), v=np.zeros(2)))
    with pytest.raises(ValueError, match="finite"):
        rem.close_episode()
    rem.priority_exponent = 1.0
    rem.close_episode()
    assert rem.episode(0).weight.tolist() == [np.float32(1e30), 0]


def test_multiplier_may_not_carry_a_weight_beyond_float32() -> None:
    rem = memory()
    with pytest.raises(ValueError, match="finite"):
        build.add_uniform(rem, 2, init_w=1e38, episodic_weight_multiplier=1e3)
    assert rem.num_episode() == 0


def test_error_beyond_float32_with_a_finite_weight_is_accepted() -> None:
    rem = vector_memory(3)
    r, v = np.full((2, 3), 3e38, np.float32), np.full((2, 3), -3e38, np.float32)
    rem.discount_factor = 0.0
    weight = closed(rem, r, v).weight[0]
    assert weight == pytest.approx(math.sqrt(6 * float(np.float32(3e38))), rel=1e-6)


# -- call order --


@pytest.mark.parametrize("call", ["close_episode", "abort_episode"])
def test_ending_an_episode_that_is_not_open_is_refused(call: str) -> None:
    rem = memory()
    build.add_uniform(rem, 3)
    before = snapshot(rem)
    with pytest.raises(RuntimeError):
        getattr(rem, call)()
    assert snapshot(rem) == before


def test_adding_to_an_episode_that_is_not_open_is_refused() -> None:
    rem = memory()
    build.add_uniform(rem, 3)
    before = snapshot(rem)
    with pytest.raises(RuntimeError):
        rem.add_entry(**step())
    with pytest.raises(RuntimeError):
        rem.add_entries(**build.steps(2))
    assert snapshot(rem) == before


def test_weights_cannot_be_updated_without_values() -> None:
    rem = memory()
    rem.new_episode()
    rem.add_entries(**build.steps(3))
    with pytest.raises(RuntimeError):
        rem.close_episode(1.0, False, True)
    assert rem.num_episode() == 0
    rem.close_episode()
    assert rem.num_episode() == 1
