"""Interquartile means and bootstrap intervals, compared with naive forms; plots of curves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from benchmarks.learning import curves
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from pathlib import Path

FINITE = st.floats(-1e6, 1e6, allow_nan=False)


def naive_mean(values: list[float]) -> float:
    """Sort, drop a quarter at each end, and take the mean: as `scipy.stats.trim_mean` does."""
    kept, cut = sorted(values), int(0.25 * len(values))
    kept = kept[cut : len(kept) - cut]
    return sum(kept) / len(kept)


@given(st.lists(FINITE, min_size=1, max_size=40))
def test_interquartile_mean_equals_the_naive_form(values):
    assert curves.interquartile_mean(values) == pytest.approx(naive_mean(values), abs=1e-6)


def naive_interval(groups: list[list[float]], seed: int) -> tuple[float, float]:
    """Draw each group again by itself, one repetition after the other."""
    rng = np.random.default_rng(seed)
    drawn = [rng.integers(len(group), size=(curves.REPETITIONS, len(group))) for group in groups]
    means = []
    for at in range(curves.REPETITIONS):
        pairs = zip(groups, drawn, strict=True)
        means.append(naive_mean([group[k] for group, rows in pairs for k in rows[at]]))
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


@pytest.mark.parametrize("groups", [[[1.0, 2.0, 9.0]], [[1.0, 5.0, 2.0, 8.0], [100.0, 90.0]]])
def test_interval_equals_the_naive_form_and_holds_the_mean(groups):
    low, high = curves.interval(groups, seed=3)
    assert (low, high) == pytest.approx(naive_interval(groups, 3))
    assert low < curves.interquartile_mean([each for group in groups for each in group]) < high


def test_interval_draws_from_each_group_as_many_as_the_group_has():
    # If all values were in one pot, 0 or 100 alone would be drawn in a few of 2,000 repetitions.
    low, high = curves.interval([[0.0, 0.0], [100.0, 100.0]])
    assert low == high == 50.0


def test_interval_of_equal_values_is_that_value():
    assert curves.interval([[7.0] * 5]) == (7.0, 7.0)


@pytest.mark.parametrize("groups", [[], [[]]])
def test_interval_of_nothing_is_refused(groups):
    with pytest.raises(ValueError, match="groups: expected at least one value"):
        curves.interval(groups)


def test_interquartile_mean_of_nothing_is_refused():
    with pytest.raises(ValueError, match="values: expected at least one value"):
        curves.interquartile_mean([])


def test_bands_end_with_the_shortest_curve_and_hold_the_middle():
    several = [[(0, 0.0), (100, 10.0)], [(0, 2.0), (50, 12.0)], [(0, 1.0), (200, 1.0)]]
    grid, middle, low, high = curves.bands(several)
    assert (grid[0], grid[-1]) == (0, 50)
    assert middle[-1] == pytest.approx((5 + 12 + 1) / 3)
    assert (low <= middle).all()
    assert (middle <= high).all()


def test_plot_of_the_same_curves_is_the_same_file(tmp_path: Path):
    lines = {"ours": [[(0, 0.0), (9, 5.0)], [(0, 1.0), (9, 4.0)]], "not run": []}
    files = [tmp_path / "first.svg", tmp_path / "second.svg"]
    for file in files:
        curves.plot(file, "a title", lines, 5.0)
    text = files[0].read_text(encoding="utf-8")
    assert text == files[1].read_text(encoding="utf-8")
    assert "ours (2 seeds)" in text
    assert "not run" not in text
