"""Going through the members of batches."""

from typing import Any, NamedTuple

import numpy as np
import pytest

from cogrs.namedtuples import replace_arrays
from tests.replay import build
from tests.replay.build import memory


class Pair(NamedTuple):
    one: Any
    other: Any


def names(batch: Any) -> list[str]:
    seen = []
    replace_arrays(batch, lambda name, _: seen.append(name))
    return seen


def test_fields_of_batches_have_long_names() -> None:
    rem = memory()
    build.add_uniform(rem, 3)
    fields = ["state", "action", "reward", "prob", "value", "qvest", "info"]
    ends = [f"{end}.{field}" for end in ("prev", "next") for field in fields]
    assert names(rem.get_batch(2)) == [*ends, "weight"]
    assert names(rem.sample(2)) == [*ends, "weight", "id", "probability", "next_terminated"]
    assert names(rem.episode(0)) == [*(f"entries.{field}" for field in fields), "weight", "id"]


def test_members_that_are_not_arrays_stay() -> None:
    given = Pair(Pair(None, True), Pair(7, np.zeros(2)))
    made = replace_arrays(given, lambda _, array: array.tolist())
    assert made == Pair(Pair(None, True), Pair(7, [0, 0]))
    assert type(made.one) is Pair


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ([np.zeros(2)], "batch: expected a named tuple of arrays, got list"),
        ((np.zeros(2),), "batch: expected a named tuple of arrays, got tuple"),
        (Pair(1, "text"), "other: expected an array, a named tuple or None, got str"),
        (Pair(1, Pair({}, 2)), "other.one: expected an array, a named tuple or None, got dict"),
        (Pair(1, 0.5), "other: expected an array, a named tuple or None, got float"),
    ],
    ids=str,
)
def test_value_that_is_not_a_batch_is_refused_by_name(given: Any, match: str) -> None:
    with pytest.raises(TypeError, match=match):
        replace_arrays(given, lambda _, array: array)
