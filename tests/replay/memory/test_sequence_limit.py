"""Sequences under `max_times_sampled`: their counts, and how often each is given."""

from typing import Any

import numpy as np
import pytest

from cogrs import ReplayMemory
from cogrs.replay import (
    CountedSequences,
    CountedWeightedSequences,
    NStepCountedSequences,
    NStepCountedWeightedSequences,
    Sequences,
)
from tests.replay.sequence_steps import episode, memory


def given(rem: ReplayMemory) -> dict[int, list[int]]:
    """Draw until nothing is left; return the counts that came with each anchor, in order."""
    counts: dict[int, list[int]] = {}
    while True:
        try:
            drawn: Any = rem.sample_sequences(1, 4, period=4)
        except RuntimeError:
            return counts
        counts.setdefault(int(drawn.anchor_id[0]), []).append(int(drawn.times_sampled[0]))


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (CountedSequences, {}),
        (NStepCountedSequences, {"nstep_return": True}),
        (CountedWeightedSequences, {"beta": 0.5}),
        (NStepCountedWeightedSequences, {"nstep_return": True, "beta": 0.5}),
    ],
)
def test_sequences_of_a_memory_with_a_limit_have_times_sampled(
    kind: type, options: dict[str, Any]
) -> None:
    rem = memory(max_times_sampled=3)
    first = episode(rem, 12)
    drawn: Any = rem.sample_sequences(5, 4, after=1, period=4, **options)
    assert type(drawn) is kind
    assert drawn.times_sampled.dtype == np.uint32
    seen: dict[int, int] = {}
    for anchor, times in zip(drawn.anchor_id.tolist(), drawn.times_sampled.tolist(), strict=True):
        seen[anchor] = seen.get(anchor, 0) + 1
        assert times == seen[anchor]
    left = given(rem)
    assert {a: seen.get(a, 0) + len(left.get(a, [])) for a in range(first, first + 9, 4)} == {
        first: 3,
        first + 4: 3,
        first + 8: 3,
    }
    rem.max_times_sampled = 0
    assert type(rem.sample_sequences(1, 4)) is Sequences


def test_counts_and_priorities_of_sequences_outlast_another_limit() -> None:
    rem = memory(max_times_sampled=1)
    first = episode(rem, 8)
    ids = [first, first + 4]
    rem.sample_sequences(1, 4, period=4, sampler="fifo")
    rem.update_priority(ids, [3.0, 7.0], sequences=True, absolute=True)
    rem.max_times_sampled = 2
    assert given(rem) == {first: [2], first + 4: [1, 2]}
    rem.max_times_sampled = 0
    drawn = rem.sample_sequences(50, 4, period=4)
    weights = dict(zip(drawn.anchor_id.tolist(), drawn.weight.tolist(), strict=True))
    assert weights == {first: 3.0, first + 4: 7.0}


def test_importance_weight_of_a_smallest_sequence_that_its_batch_used_up_is_one() -> None:
    rem = memory(max_times_sampled=1)
    first = episode(rem, 8)
    rem.sample_sequences(1, 4, period=4, sampler="fifo")
    rem.max_times_sampled = 2
    rem.update_priority([first, first + 4], [1.0, 4.0], sequences=True, absolute=True)
    drawn = rem.sample_sequences(3, 4, period=4, beta=1.0, normalize="memory")
    assert drawn.importance_weight.tolist() == (1 / drawn.weight).tolist()
