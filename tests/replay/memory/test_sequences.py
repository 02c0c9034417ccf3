"""Sequences of steps: shapes, contents, borders and errors of `sample_sequences`."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cogrs import RateLimiter, importance_weights
from cogrs.replay import NStepSequences, NStepWeightedSequences, Sequences, WeightedSequences
from tests.replay.build import memory as plain_memory
from tests.replay.build import steps
from tests.replay.sequence_steps import episode, memory


def expected_steps(
    actions: int, entries: int, anchor: int, length: int, burn_in: int, after: int, border: str
) -> list[int | None]:
    total = burn_in + length + after
    start = anchor - burn_in
    if border == "shift" and entries >= total:
        start = min(max(start, 0), entries - total)
    return [step if 0 <= step < entries else None for step in range(start, start + total)]


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(
        st.tuples(st.integers(1, 15), st.booleans(), st.booleans()), min_size=1, max_size=6
    ),
    numbers=st.tuples(st.integers(1, 6), st.integers(0, 5), st.integers(0, 4), st.integers(1, 7)),
    border=st.sampled_from(["clip", "shift", "drop"]),
)
def test_rows_of_sequences_are_the_steps_of_one_episode(
    lengths: list[tuple[int, bool, bool]], numbers: tuple[int, int, int, int], border: Any
) -> None:
    length, burn_in, after, period = numbers
    rem = memory()
    episodes = {}
    for at, (actions, final, truncated) in enumerate(lengths):
        close = {"bootstrap_value": 0.5} if truncated else {}
        first_id = episode(rem, actions, 1 + 100 * at, final, **close)
        episodes[first_id] = (actions, actions + final, 1 + 100 * at, truncated)
    drawn_from = [
        each
        for each, (actions, entries, *_) in episodes.items()
        if border != "drop"
        or any(
            anchor >= burn_in and anchor + length + after <= entries
            for anchor in {*range(0, actions - length + 1, period), actions - length}
            if 0 <= anchor <= actions - length
        )
    ]
    arguments = {"burn_in": burn_in, "after": after, "period": period, "border": border}
    if not drawn_from:
        with pytest.raises(RuntimeError, match="border='drop'"):
            rem.sample_sequences(3, length, **arguments)
        return
    drawn = rem.sample_sequences(12, length, **arguments)
    total = burn_in + length + after
    assert drawn.valid.shape == drawn.steps.r.shape == drawn.id.shape == (12, total)
    for row in range(12):
        first_id = max(each for each in episodes if each <= drawn.anchor_id[row])
        actions, entries, first, truncated = episodes[first_id]
        assert first_id in drawn_from
        anchor = int(drawn.anchor_id[row]) - first_id
        last = max(actions - length, 0)
        assert anchor == last or (anchor % period == 0 and anchor < last)
        steps = expected_steps(actions, entries, anchor, length, burn_in, after, border)
        inside = [step for step in steps if step is not None]
        shown = [min(max(s, inside[0]), inside[-1]) for s in _filled(steps)]
        assert drawn.valid[row].tolist() == [step is not None for step in steps]
        assert drawn.steps.s[row, :, 0, 1].tolist() == [first + step for step in shown]
        assert drawn.steps.state.shape == (12, total, 1, 2)
        assert drawn.id[row].tolist() == [first_id + step for step in shown]
        is_action = [step is not None and step < actions for step in steps]
        in_learned = [s is not None and anchor <= s < anchor + length for s in steps]
        assert drawn.learn[row].tolist() == [
            a and b for a, b in zip(is_action, in_learned, strict=True)
        ]
        assert drawn.is_first[row].tolist() == [step == 0 for step in steps]
        ends = [step == actions - 1 for step in steps]
        assert drawn.terminated[row].tolist() == [end and not truncated for end in ends]
        assert drawn.truncated[row].tolist() == [end and truncated for end in ends]
        rewards = [first + step if step < actions else 0 for step in shown]
        assert drawn.steps.reward[row].tolist() == rewards


def _filled(steps: list[int | None]) -> list[int]:
    """Steps with numbers outside of the episode in place of None: below it, or above."""
    begin = next(at for at, step in enumerate(steps) if step is not None)
    return [-1 if at < begin else 10**6 if step is None else step for at, step in enumerate(steps)]


def test_sequence_arrays_are_batch_major_and_c_contiguous() -> None:
    rem = memory(frame_stack=3, frame_padding="repeat")
    episode(rem, 20)
    drawn = rem.sample_sequences(4, 5, burn_in=2)
    assert drawn.steps.state.shape == (4, 7, 3, 2)
    assert all(array.flags.c_contiguous and array.flags.writeable for array in drawn[1:])
    assert drawn.steps.state.swapaxes(0, 1).shape == (7, 4, 3, 2)
    assert drawn.recurrent.shape == (4, 0)
    dtypes = {name: getattr(drawn, name).dtype for name in drawn._fields[1:]}
    assert dtypes["valid"] == dtypes["learn"] == dtypes["is_first"] == np.bool_
    assert dtypes["id"] == dtypes["anchor_id"] == np.uint64
    assert (dtypes["weight"], dtypes["probability"]) == (np.float32, np.float64)


@pytest.mark.parametrize("nstep", [False, True])
@pytest.mark.parametrize("beta", [None, 0.4])
def test_class_and_last_fields_follow_from_the_arguments(nstep: bool, beta: float | None) -> None:
    rem = memory()
    episode(rem, 20)
    drawn = rem.sample_sequences(4, 5, after=1, nstep_return=nstep, beta=beta)  # type: ignore[call-overload]
    classes = {
        (False, False): Sequences,
        (True, False): NStepSequences,
        (False, True): WeightedSequences,
        (True, True): NStepWeightedSequences,
    }
    assert type(drawn) is classes[nstep, beta is not None]
    if beta is not None:
        assert drawn._fields[-1] == "importance_weight"


def test_out_is_filled_and_returned() -> None:
    rem = memory()
    episode(rem, 30)
    out = rem.sample_sequences(4, 5, burn_in=3)
    before = out.id.copy()
    filled = [rem.sample_sequences(4, 5, burn_in=3, out=out) for _ in range(5)]
    assert all(each is out for each in filled)
    assert not np.array_equal(out.id, before)
    is_action = out.steps.action != 0
    assert (out.steps.state[is_action][:, 0, 0] == out.steps.action[is_action]).all()
    with pytest.raises(ValueError, match=r"^out.steps.state: expected"):
        rem.sample_sequences(5, 5, burn_in=3, out=out)
    with pytest.raises(TypeError, match=r"^out: expected \(steps, valid, .*probability\)"):
        rem.sample_sequences(4, 5, burn_in=3, out=out[:-1])


@pytest.mark.parametrize("multi_step", [1, 3])
@pytest.mark.parametrize("border", ["clip", "shift"])
def test_nstep_target_bootstraps_multi_step_rows_later(multi_step: int, border: Any) -> None:
    rem = memory(multi_step=multi_step, discount_factor=0.5)
    episode(rem, 11, 1)
    episode(rem, 9, 100, bootstrap_value=7.0)
    episode(rem, 3, 200, bootstrap_value=7.0)
    drawn = rem.sample_sequences(
        60, 4, burn_in=2, after=multi_step, nstep_return=True, border=border
    )
    total = drawn.valid.shape[1]
    ends = {1: 12, 100: 109, 200: 203}  # values of the states behind the last actions
    for row, at in zip(*np.nonzero(drawn.learn), strict=True):
        number = float(drawn.steps.state[row, at, 0, 0])
        first = max(each for each in ends if each <= number)
        count = int(min(multi_step, ends[first] - number))
        rewards = sum(0.5**k * (number + k) for k in range(count))
        terminal = first == 1 and number + count == ends[first]
        assert drawn.nstep_return[row, at] == pytest.approx(rewards)
        assert drawn.nstep_discount[row, at] == (0 if terminal else 0.5**count)
        if not terminal:
            later = min(at + multi_step, total - 1)
            assert drawn.steps.state[row, later, 0, 0] == number + count
    assert not drawn.nstep_return[~drawn.learn].any()
    assert not drawn.nstep_discount[~drawn.learn].any()


def test_nstep_return_without_a_final_state_has_the_bootstrap_value() -> None:
    rem = memory(discount_factor=0.5)
    episode(rem, 3, 1, final=False, bootstrap_value=8.0)
    drawn = rem.sample_sequences(1, 3, after=1, nstep_return=True)
    assert drawn.nstep_return[0].tolist() == [1, 2, 3 + 0.5 * 8, 0]
    assert drawn.nstep_discount[0].tolist() == [0.5, 0.5, 0, 0]


@pytest.mark.parametrize("normalize", ["batch", "memory"])
def test_importance_weights_of_sequences_follow_from_the_anchors(normalize: Any) -> None:
    rem = memory()
    first = episode(rem, 40)
    rem.sample_sequences(1, 5, period=5)
    anchors = [first + 5 * at for at in range(8)]
    rem.update_priority(anchors, np.arange(1.0, 9.0), sequences=True, absolute=True)
    drawn = rem.sample_sequences(20, 5, period=5, beta=0.6, normalize=normalize)
    assert drawn.probability.tolist() == (drawn.weight.astype(float) / 36).tolist()
    expected = importance_weights(
        drawn.weight,
        exponent=0.6,
        total=36.0,
        count=8,
        normalize="batch" if normalize == "batch" else "all",
        min_weight=1.0,
    )
    assert drawn.importance_weight.tolist() == expected.tolist()
    unweighted = rem.sample_sequences(20, 5, period=5, beta=0.6, sampler="uniform")
    assert (unweighted.importance_weight == 1).all()
    assert (unweighted.probability == 1 / 8).all()


def test_errors_of_two_dimensions_set_the_priorities_of_sequences() -> None:
    rem = memory(sequence_eta=0.75, priority_exponent=1.0, priority_epsilon=0.5)
    first = episode(rem, 10)
    rem.sample_sequences(1, 4, period=4)
    ids = [first, first + 4, first + 6]
    errors = np.array([[1.0, 3, 0, 0], [0, 0, 0, 0], [2, 2, 2, 2]])
    assert rem.update_priority(ids, errors) == 0
    drawn = rem.sample_sequences(200, 4, period=4)
    weights = dict(zip(drawn.anchor_id.tolist(), drawn.weight.tolist(), strict=True))
    assert weights == {ids[0]: 0.75 * 3 + 0.25 * 1 + 0.5, ids[1]: 0.5, ids[2]: 2.5}
    # Under the mask of a whole window, whatever is elsewhere.
    drawn = rem.sample_sequences(1, 4, burn_in=3, after=2, period=4)
    wide = np.where(drawn.learn, 4.0, np.nan)
    rem.update_priority(drawn.anchor_id, wide, mask=drawn.learn)
    again = rem.sample_sequences(200, 4, period=4)
    assert set(again.weight[again.anchor_id == drawn.anchor_id[0]].tolist()) == {4.5}
    # The weights of steps are others.
    assert (rem.episode(0).weight[:10] > 4.5).any()


def test_priorities_of_another_length_or_period_equal_a_fresh_memory() -> None:
    rems = [memory(), memory()]
    ids = [episode(rem, 30) for rem in rems]
    rems[0].sample_sequences(3, 5, period=2)
    rems[0].update_priority(ids[0], 1000.0, sequences=True)
    for shape in ({"length": 6, "period": 2}, {"length": 6, "period": 3}):
        sums = []
        for rem in rems:
            drawn = rem.sample_sequences(1, **shape)
            sums.append(float(drawn.weight[0] / drawn.probability[0]))
        assert sums[0] == pytest.approx(sums[1])


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({"n": 0}, ValueError, "n: expected an integer >= 1, got 0"),
        ({"length": 0}, ValueError, "length: expected an integer >= 1, got 0"),
        ({"length": -3}, ValueError, "length: expected an integer >= 1, got -3"),
        ({"length": 2.5}, TypeError, "length: expected an integer, got float"),
        ({"burn_in": -1}, ValueError, "burn_in: expected an integer >= 0, got -1"),
        ({"after": 2**40}, ValueError, "after: expected an integer in [0, 2147483647]"),
        ({"period": 0}, ValueError, "period: expected an integer >= 1, got 0"),
        ({"border": "shft"}, ValueError, "did you mean 'shift'?"),
        ({"border": 1}, TypeError, "border: expected 'clip', 'shift' or 'drop', got int"),
        ({"sampler": "unifrm"}, ValueError, "did you mean 'uniform'?"),
        ({"nstep_return": True}, ValueError, "after: expected at least multi_step=1"),
        ({"beta": -1.0}, ValueError, "beta: expected a finite number >= 0, got -1"),
        ({"n": 2**50}, MemoryError, "sequences take"),
        ({"border": "drop", "burn_in": 9}, RuntimeError, "burn_in=9"),
    ],
)
def test_bad_argument_is_named_and_nothing_is_drawn(
    arguments: dict[str, Any], kind: type[Exception], text: str
) -> None:
    rem = memory()
    episode(rem, 12)
    with pytest.raises(kind) as caught:
        rem.sample_sequences(**{"n": 2, "length": 4} | arguments)
    assert text in str(caught.value)


def test_priorities_of_sequences_of_another_shape_are_refused() -> None:
    rem = memory()
    first = episode(rem, 12)
    with pytest.raises(RuntimeError, match=r"call sample_sequences\(\) first"):
        rem.update_priority(first, 1.0, sequences=True)
    rem.sample_sequences(1, 4)
    for priority, options, kind, text in [
        (np.ones((1, 3)), {}, ValueError, "a column per step that is learned from, or a mask"),
        (np.ones((2, 4)), {}, ValueError, r"priority: expected errors of shape \(1, length\)"),
        (np.ones((1, 4)), {"mask": np.ones((1, 3), bool)}, ValueError, "mask: expected the shape"),
        (np.ones((1, 4)), {"mask": np.ones((1, 4))}, TypeError, "mask: expected bool, got float64"),
        (np.full((1, 4), -1.0), {}, ValueError, "priority: expected finite numbers >= 0"),
        (np.full((1, 4), np.nan), {}, ValueError, "priority: expected finite numbers >= 0"),
        (np.ones((1, 4)), {"absolute": True}, ValueError, "absolute: expected False"),
    ]:
        with pytest.raises(kind, match=text):
            rem.update_priority([first], priority, **options)


def test_memory_whose_sequences_were_all_given_names_the_limit() -> None:
    rem = memory(max_times_sampled=1)
    episode(rem, 8)
    assert len(rem.sample_sequences(2, 4, period=4, sampler="fifo").anchor_id) == 2
    with pytest.raises(RuntimeError, match="max_times_sampled=1"):
        rem.sample_sequences(1, 4, period=4, sampler="fifo")


def test_too_few_steps_after_the_learned_ones_are_refused_before_a_wait() -> None:
    rem = memory(limiter=RateLimiter.min_size(50))
    episode(rem, 12)
    with pytest.raises(ValueError, match="after: expected at least multi_step=1"):
        rem.sample_sequences(2, 4, nstep_return=True, wait=0.1)


def test_importance_weights_by_the_memory_count_anchors_that_the_batch_uses_up() -> None:
    rem = plain_memory(64, max_times_sampled=1, priority_exponent=1.0)
    episode_of_8 = steps(8, r=np.float32(range(8)), v=np.zeros(8, np.float32))
    rem.add_episode(**episode_of_8, final_state=9)
    left = 7
    unlimited = plain_memory(64, priority_exponent=1.0)
    unlimited.add_episode(**episode_of_8, final_state=9)
    weights = unlimited.sample_sequences(left, 2, sampler="fifo").weight.tolist()
    for _ in range(left):
        drawn = rem.sample_sequences(1, 2, beta=0.5, normalize="memory")
        expected = (drawn.weight / min(weights)) ** -0.5
        np.testing.assert_allclose(drawn.importance_weight, expected, rtol=1e-6)
        weights.remove(drawn.weight.item())
