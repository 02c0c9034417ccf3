"""Importance weights of samples."""

from typing import Any

import numpy as np
import pytest

from cogrs import importance_weights
from tests.replay import build
from tests.replay.build import memory


@pytest.mark.parametrize(
    ("exponent", "expected"),
    [
        (0.4, [1, 0.644394, 0.574349, 0.435275]),
        (1.0, [1, 1 / 3, 0.25, 0.125]),
        (0.0, [1, 1, 1, 1]),
    ],
)
@pytest.mark.parametrize("normalize", ["batch", "all"])
def test_importance_weights_of_a_whole_memory(
    exponent: float, expected: list[float], normalize: str
) -> None:
    got = importance_weights(
        [1, 3, 4, 8], exponent=exponent, total=16, count=4, normalize=normalize, min_weight=1.0
    )
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_importance_weights_need_no_smallest_weight_when_all_are_given() -> None:
    got = importance_weights([1, 3, 4, 8], exponent=1, total=16, count=4, normalize="all")
    assert got.tolist() == [1, np.float32(1 / 3), 0.25, 0.125]


def test_importance_weights_of_a_part_are_divided_by_the_largest_of_the_part() -> None:
    got = importance_weights([4, 8], exponent=1.0, total=16, count=4)
    assert got.tolist() == [1, 0.5]


def test_importance_weights_of_a_part_are_divided_by_the_largest_of_all() -> None:
    got = importance_weights(
        [4, 8], exponent=1.0, total=16, count=4, normalize="all", min_weight=1.0
    )
    assert got.tolist() == [0.25, 0.125]


def test_importance_weights_correct_the_mean_of_a_sample() -> None:
    rem = memory(64, seed=0)
    build.add_uniform(rem, 11, init_w=[*range(1, 11), 1])
    sample = rem.sample(100_000)
    total, count = rem.weight_sum, rem.num_sampleable
    ratio = importance_weights(sample.weight, exponent=1.0, total=total, count=count)
    mean = np.average(sample.prev.i, weights=ratio)
    # The unweighted mean of the sample is 6.
    assert mean == pytest.approx(4.5, abs=0.1)


def test_importance_weights_keep_the_shape() -> None:
    got = importance_weights(np.ones((2, 3)), exponent=0.5, total=6, count=6)
    assert got.shape == (2, 3)


def test_importance_weights_leave_the_argument_unchanged() -> None:
    weight = np.float32([1, 2])
    importance_weights(weight, exponent=1.0, total=3, count=2)
    assert weight.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("weight", {"weight": [1.0, 0.0]}),
        ("weight", {"weight": [1.0, -1.0]}),
        ("weight", {"weight": [1.0, np.nan]}),
        ("exponent", {"exponent": -0.1}),
        ("exponent", {"exponent": np.nan}),
        ("total", {"total": 0.0}),
        ("total", {"total": np.nan}),
        ("count", {"count": 0}),
        ("normalize", {"normalize": "most"}),
        ("min_weight", {"normalize": "all"}),
        ("min_weight", {"normalize": "all", "min_weight": 0.0}),
    ],
)
def test_importance_weights_out_of_range(name: str, changes: dict[str, Any]) -> None:
    given = {"weight": [1.0, 2.0], "exponent": 1.0, "total": 16.0, "count": 4, **changes}
    with pytest.raises(ValueError, match=name):
        importance_weights(given.pop("weight"), **given)


def test_min_weight_above_a_weight_is_refused():
    with pytest.raises(ValueError, match="min_weight"):
        importance_weights(
            [1.0, 2.0], exponent=1, total=3, count=9, normalize="all", min_weight=1.5
        )


@pytest.mark.parametrize("normalize", [None, 1, b"all", ["all"]], ids=repr)
def test_normalize_of_another_type_is_refused_by_name(normalize: Any) -> None:
    with pytest.raises(TypeError, match=r"^normalize: expected 'batch', 'memory' or 'all', got"):
        importance_weights([1.0], exponent=1, total=1, count=1, normalize=normalize)


def test_count_that_is_a_flag_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^count: expected an integer, got bool"):
        importance_weights([1.0], exponent=1, total=1, count=True)
