"""The plain model against the recorded cases: an oracle must be right first."""

import numpy as np
import pytest

from tests.replay import golden
from tests.replay.model import NaiveMemory


def played(case: golden.Case) -> NaiveMemory:
    return golden.configure(case, NaiveMemory(case.templates(), case.about["params"]["max_step"]))


@pytest.mark.parametrize("case", golden.CASES, ids=lambda case: case.name)
def test_agrees_with_recorded_case(case: golden.Case) -> None:
    memory = played(case)
    for expected in golden.play_counted(case, memory):
        golden.check_drawable(case, memory, expected)
        check_transitions(case, memory, expected)


def check_transitions(case: golden.Case, memory: NaiveMemory, expected: golden.Checkpoint) -> None:
    found = [memory.transition(*at) for at in memory.drawable()]
    found = [transition for transition in found if transition.weight[1] > 0]
    found.sort(key=lambda transition: transition.prev["i"].flat[0])
    rows = zip(found, expected.prev_rows, expected.next_rows, strict=True)
    for transition, prev_rows, next_rows in rows:
        for side, stack in ((transition.prev, prev_rows), (transition.next, next_rows)):
            assert side["s"].tobytes() == case.data["s"][stack].tobytes()
            assert side["a"].tobytes() == case.data["a"][stack[-1]].tobytes()


@pytest.mark.parametrize("case", golden.STATS, ids=lambda case: case.name)
def test_probabilities_agree_with_recorded_ones(case: golden.Case) -> None:
    memory = played(case)
    for _ in golden.play(case, memory):
        pass
    found = golden.drawable(memory)
    probability = np.array([stored.weight for stored in found]) / memory.weight_sum
    assert [stored.row for stored in found] == case.data["stat_row"].tolist()
    np.testing.assert_allclose(probability, case.data["stat_prob"], rtol=1e-9)
