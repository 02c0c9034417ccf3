"""The memory against recorded scripts of operations and their results."""

from typing import Any

import numpy as np
import pytest

from cogrs import ReplayMemory, Sample
from tests.replay import golden

DRAWS_OF_STATISTICS = 200_000


def made(case: golden.Case, seed: int = 0) -> ReplayMemory:
    max_step = case.about["params"]["max_step"]
    memory = ReplayMemory(*case.templates().values(), max_step, seed=seed)
    return golden.configure(case, memory)


@pytest.fixture(params=golden.CASES, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> golden.Case:
    return request.param


def test_entry_size_equals_the_recorded_size(case: golden.Case) -> None:
    assert made(case).entry_size == case.about["entry_size"]


def test_shapes_and_dtypes_of_a_batch_of_five(case: golden.Case) -> None:
    memory = made(case)
    checkpoints = golden.play_counted(case, memory)
    next(checkpoint for checkpoint in checkpoints if len(checkpoint.row))
    prev, after, weight = memory.get_batch(5)
    dtypes = [template.dtype for template in case.templates().values()]
    for side, shapes in ((prev, "batch5_prev_shapes"), (after, "batch5_next_shapes")):
        assert [list(column.shape) for column in side] == case.about[shapes]
        assert [column.dtype for column in side] == dtypes
    assert (weight.shape, weight.dtype) == ((5,), np.float32)


def test_every_entry_that_can_be_drawn(case: golden.Case) -> None:
    memory = made(case)
    for expected in golden.play_counted(case, memory):
        golden.check_drawable(case, memory, expected)
        assert memory.num_sampleable == len(expected.row)


def test_every_drawn_sample_equals_a_recorded_sample(case: golden.Case) -> None:
    memory = made(case)
    for expected in golden.play_counted(case, memory):
        if len(expected.row):
            check_sample(case, memory, expected)
        else:
            check_nothing_to_draw(memory)


def check_nothing_to_draw(memory: ReplayMemory) -> None:
    with pytest.raises(RuntimeError):
        memory.get_batch(1)


def check_sample(case: golden.Case, memory: ReplayMemory, expected: golden.Checkpoint) -> None:
    sample = memory.sample(64 + 4 * len(expected.row))
    at = positions(memory, sample, expected)
    flags = case.about["params"]["cache_flags"]
    check_side(case, sample.prev, flags[:7], expected.prev_rows[at], expected.prev_q[at])
    check_side(case, sample.next, flags[7:], expected.next_rows[at], expected.next_q[at])
    assert case.weights_agree(sample.weight, expected.weight[at])


def positions(memory: ReplayMemory, sample: Sample, expected: golden.Checkpoint) -> np.ndarray:
    """Where each drawn row is in the expected set; ids tell rows also when info is switched off."""
    row_of = {stored.id: stored.row for stored in golden.drawable(memory)}
    rows = np.array([row_of[id_] for id_ in sample.id.tolist()])
    at = np.searchsorted(expected.row, rows)
    assert np.array_equal(expected.row[at], rows)
    return at


def check_side(
    case: golden.Case, side: Any, flags: list[int], stacks: np.ndarray, q: np.ndarray
) -> None:
    given = {name: case.data[name][stacks[:, -1]] for name in "arpvi"}
    given["s"] = case.data["s"][stacks]
    for name, shown in zip(side._fields, flags, strict=True):
        column = getattr(side, name)
        if not shown:
            assert len(column) == 0
        elif name == "q":
            assert case.returns_agree(column, q)
        else:
            assert column.tobytes() == given[name].tobytes()


@pytest.mark.parametrize("case", golden.STATS, ids=lambda case: case.name)
def test_frequencies_of_draws_equal_recorded_probabilities(case: golden.Case) -> None:
    memory = made(case, seed=1)
    for _ in golden.play(case, memory):
        pass
    drawn = memory.sample(DRAWS_OF_STATISTICS).prev.i[:, 0] - golden.FIRST_ROW
    counts = np.bincount(drawn, minlength=case.about["rows"])
    allowed = case.data["stat_row"]
    assert counts[allowed].sum() == DRAWS_OF_STATISTICS
    chi2, df = golden.pooled_chi2(counts[allowed], case.data["stat_prob"] * DRAWS_OF_STATISTICS)
    assert chi2 <= golden.chi2_limit(df)
