"""Errors name the field and the step that are the cause, in one line."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cogrs import ReplayMemory, importance_weights
from tests.replay.build import memory, step, steps, vector_memory

BAD = pytest.mark.parametrize(
    ("bad", "text"), [(np.nan, "NaN"), (np.inf, "inf"), (-np.inf, "-inf")]
)
T, AT = 600, 321


def spoiled(bad: float, dims: int = 0) -> Any:
    column = np.zeros((T, dims) if dims else T, np.float32)
    column[(AT, dims - 1) if dims else AT] = bad
    column[-1] = bad
    return column


def call_all(rem: ReplayMemory, **changes: Any) -> list[Callable[[], Any]]:
    """The ways by which an episode comes in."""

    def close() -> None:
        rem.new_episode()
        rem.add_entries(**steps(100) | {n: c[:100] for n, c in changes.items()})
        rem.add_entries(**steps(T - 100) | {n: c[100:] for n, c in changes.items()})
        rem.close_episode()

    return [lambda: rem.add_episode(**steps(T) | changes), close]


@BAD
@pytest.mark.parametrize("mix", [0.0, 0.5, 1.0])
def test_value_that_is_not_finite_is_named_with_its_step(bad: float, text: str, mix: float) -> None:
    rem = memory(1_000, mix_lambda=mix)
    for call in call_all(rem, v=spoiled(bad)):
        with pytest.raises(
            ValueError, match=f"^value: expected finite numbers, got {text} at step"
        ):
            call()
        with pytest.raises(ValueError, match=rf"at step {AT}$"):
            call()
        assert rem.num_episode() == 0


@BAD
def test_first_value_of_an_episode_is_named(bad: float, text: str) -> None:
    values = np.zeros(5, np.float32)
    values[0] = bad
    with pytest.raises(ValueError, match=f"^value: expected finite numbers, got {text} at step 0$"):
        memory().add_episode(**steps(5, v=values))


@BAD
def test_reward_that_is_not_finite_is_named_with_its_step(bad: float, text: str) -> None:
    rem = memory(1_000)
    for call in call_all(rem, r=spoiled(bad)):
        with pytest.raises(ValueError, match=f"^reward: .* got {text} at step {AT}$"):
            call()


@BAD
def test_dimension_of_a_vector_is_named(bad: float, text: str) -> None:
    rem = vector_memory(3, 1_000)
    other = np.zeros((T, 3), np.float32)
    for name, field in (("r", "reward"), ("v", "value")):
        columns = {"r": other, "v": other, name: spoiled(bad, 3)}
        for call in call_all(rem, **columns):
            match = f"^{field}: .* got {text} at step {AT}, dimension 2$"
            with pytest.raises(ValueError, match=match):
                call()


def test_overflowing_sum_names_the_step() -> None:
    rewards = np.zeros(T, np.float32)
    rewards[[AT, AT + 100]] = 3e38
    for call in call_all(memory(1_000), r=rewards):
        with pytest.raises(ValueError, match=f"^qvest: .*float32 numbers, got inf at step {AT}$"):
            call()


def test_weight_that_overflows_names_its_step() -> None:
    rem = memory(1_000, priority_exponent=2.0)
    rewards = np.zeros(20, np.float32)
    rewards[7] = 1e30
    with pytest.raises(ValueError, match=r"^weight: .*float32 numbers, got inf at step 7$"):
        rem.add_episode(**steps(20, r=rewards, v=np.zeros(20, np.float32)))
    weights = np.ones(20)
    weights[3] = 3e38
    match = r"^init_w: expected numbers whose product with episodic_.* got inf at step 3$"
    with pytest.raises(ValueError, match=match):
        rem.add_episode(**steps(20, init_w=weights), episodic_weight_multiplier=2.0)


@BAD
def test_wrong_number_is_named_with_the_given_value(bad: float, text: str) -> None:
    rem = memory()
    rem.new_episode()
    ids = [rem.add_entry(**step(k)) for k in range(3)]
    with pytest.raises(ValueError, match=f"^bootstrap_value: .* got {text}$"):
        rem.close_episode(bootstrap_value=bad)
    with pytest.raises(ValueError, match=f"^init_w: .* got {text} at step 3$"):
        rem.add_entry(**step(init_w=bad))
    rem.add_reward(ids[1], 3e38)
    with pytest.raises(ValueError, match=r"^delta: .* got 3e38 \+ 3e38 at step 1$"):
        rem.add_reward(ids[1], 3e38)
    with pytest.raises(ValueError, match=rf"^delta: .* \+ {text} at step 2$"):
        rem.add_reward(ids[2], bad)


LONG = [1e300, -1e300, 1e-300, 10**300, -(10**300), 10**5_000]


@pytest.mark.parametrize("number", LONG, ids=lambda number: str(number)[:4] if number < 1e9 else "")
def test_numbers_are_shown_short(number: Any) -> None:
    rem = memory(priority_exponent=2.0)
    rem.add_episode(**steps(5))
    rem.new_episode()
    calls: list[Callable[[], Any]] = [
        lambda: rem.update_priority(1, number),
        lambda: rem.update_priority([1, 2], [1.0, number]),
        lambda: rem.update_priority(number, 1.0),
        lambda: rem.add_reward(1, number),
        lambda: rem.add_reward(number, 1.0),
        lambda: rem.add_entry(**step(init_w=number)),
        lambda: rem.add_entry(**step(s=number)),
        lambda: rem.add_entry(**step(r=number)),
        lambda: rem.close_episode(number),
        lambda: rem.close_episode(bootstrap_value=number),
        lambda: rem.episode(number),
        lambda: rem.sample(number),
        lambda: memory(number),
        lambda: setattr(rem, "mix_lambda", number),
        lambda: setattr(rem, "discount_factor", number),
        lambda: setattr(rem, "reward_coeff", number),
        lambda: setattr(rem, "priority_exponent", number),
        lambda: setattr(rem, "frame_stack", number),
        lambda: importance_weights([1.0], exponent=number, total=1, count=1),
        lambda: importance_weights([1.0], exponent=1, total=number, count=1),
        lambda: importance_weights([number], exponent=1, total=1, count=1),
    ]
    refused: list[str] = []
    for call in calls:
        try:
            call()
        except (IndexError, MemoryError, RuntimeError, TypeError, ValueError) as error:
            refused.append(str(error))
    assert len(refused) >= 8
    assert [text for text in refused if len(text) >= 200] == []


@pytest.mark.parametrize(
    ("ids", "got"),
    [
        (np.zeros((2, 3), np.uint64), r"shape \(2, 3\)"),
        (np.zeros((2, 0), np.int64), r"shape \(2, 0\)"),
        ([[1, 2], [3, 4]], "list at index 0"),
        ([1, (2, 3)], "tuple at index 1"),
    ],
    ids=str,
)
def test_ids_of_two_dimensions_are_refused_as_such(ids: Any, got: str) -> None:
    with pytest.raises(
        (TypeError, ValueError), match=f"^id: expected an id, or one dimension of ids, got {got}$"
    ):
        memory().update_priority(ids, 1.0)


def test_index_of_a_priority_is_named() -> None:
    with pytest.raises(ValueError, match=r"^priority: expected finite .*, got NaN at index 1$"):
        memory().update_priority([1, 2], [1.0, np.nan])
