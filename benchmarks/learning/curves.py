"""Interquartile means over seeds, their bootstrap intervals, and plots of learning curves.

Agarwal et al. 2021, "Deep reinforcement learning at the edge of the statistical precipice": the
mean of the middle half of all runs is less of a matter of luck than the median, and less of a
matter of a single bad seed than the mean; and a figure of a few seeds needs its interval.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy.typing as npt

Curve = "Sequence[tuple[float, float]]"
REPETITIONS = 2_000
GRID = 100


def interquartile_mean(values: npt.ArrayLike) -> float:
    """Return the mean without the least and the largest quarter, each rounded down.

    Raises:
        ValueError: There are no values.
    """
    return float(_middle_means(np.ravel(values)[None])[0])


def interval(
    groups: Sequence[Sequence[float]], share: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """Return the bootstrap interval of the interquartile mean over all groups.

    Stratified: each repetition draws as many runs from each group, such as the runs of one
    environment, as it has. The bounds are percentiles.

    Raises:
        ValueError: There are no values.
    """
    rng = np.random.default_rng(seed)
    drawn = [
        np.asarray(group)[rng.integers(len(group), size=(REPETITIONS, len(group)))]
        for group in groups
        if len(group)
    ]
    if not drawn:
        raise ValueError("groups: expected at least one value, got none")
    means = _middle_means(np.concatenate(drawn, axis=1))
    low, high = np.quantile(means, [(1 - share) / 2, (1 + share) / 2])
    return float(low), float(high)


def _middle_means(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the interquartile mean of each row."""
    count = rows.shape[1]
    if count == 0:
        raise ValueError("values: expected at least one value, got none")
    cut = count // 4
    return np.asarray(np.sort(rows, axis=1)[:, cut : count - cut].mean(axis=1))


def at_steps(curve: Curve, grid: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return a curve's value at each of these steps: linear between points, level outside."""
    steps, values = np.array(curve, float).T
    return np.interp(grid, steps, values)


def bands(curves: Sequence[Curve]) -> tuple[npt.NDArray[np.float64], ...]:
    """Return steps, and the interquartile mean of the curves of several seeds with its interval.

    The steps end where the first of the curves ends.
    """
    last = min(curve[-1][0] for curve in curves)
    grid = np.linspace(0, last, GRID)
    values = np.array([at_steps(curve, grid) for curve in curves])
    bounds = np.array([interval([column.tolist()]) for column in values.T])
    return grid, _middle_means(values.T), bounds[:, 0], bounds[:, 1]


def plot(path: Path, title: str, curves: Mapping[str, Sequence[Curve]], goal: float | None) -> None:
    """Draw the curves of each setting as one line with its interval, as SVG."""
    import matplotlib

    # The same curves make the same file, to the byte.
    matplotlib.rcParams.update({"svg.hashsalt": "cogrs", "svg.fonttype": "none"})
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.subplots()
    for setting, several in curves.items():
        if several := [curve for curve in several if curve]:
            grid, middle, low, high = bands(several)
            (line,) = axes.plot(grid, middle, label=f"{setting} ({len(several)} seeds)")
            axes.fill_between(grid, low, high, alpha=0.2, color=line.get_color(), linewidth=0)
    if goal is not None:
        axes.axhline(goal, color="0.4", linestyle="--", linewidth=1)
    axes.set(xlabel="environment steps", ylabel="return", title=title)
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
