"""The table of a proof's results, and its verdict."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from benchmarks.learning.curves import interquartile_mean, interval
from benchmarks.learning.rows import chosen, finished

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks.learning.proof import Check, Proof
    from benchmarks.learning.rows import Row


def markdown(name: str, proof: Proof, rows: Iterable[Row]) -> list[str]:
    """Return the lines of a proof's table: a line for each setting."""
    found = chosen(rows, name)
    head = ["setting", "seeds", "env steps", "returns by seed", "mean", "sd", "IQM", "95 %"]
    lines = [_line([*head, "wall s", "CPU s"]), _line(["---"] * 10)]
    for setting in proof.settings:
        of = found.of(setting)
        if not of:
            lines.append(_line([setting, "not run", *["-"] * 8]))
            continue
        scores = found.scores(setting)
        spread, bounds = "-", "-"  # one seed says nothing of either
        if len(scores) > 1:
            spread = short(statistics.stdev(scores))
            bounds = " to ".join(map(short, interval([scores])))
        lines.append(
            _line(
                [
                    setting,
                    ", ".join(str(row["seed"]) for row in of),
                    f"{statistics.median(row['steps'] for row in of):,.0f}",
                    ", ".join(short(score) for score in scores),
                    short(statistics.fmean(scores)),
                    spread,
                    short(interquartile_mean(scores)),
                    bounds,
                    f"{statistics.median(found.figures(setting, 'wall_s')):.0f}",
                    f"{statistics.median(found.figures(setting, 'cpu_s')):.0f}",
                ]
            )
        )
    return lines


def verdict(name: str, proof: Proof, rows: Iterable[Row]) -> tuple[str, list[Check]]:
    """Return "passed", "failed", "incomplete" or "not run" of a proof, with its checks.

    A run that ended with an error makes the proof fail; while runs are missing it is incomplete.
    """
    rows = list(rows)
    errors = [r for r in rows if r["proof"] == name and r["error"] is not None and not r["short"]]
    if errors:
        return "failed", []
    done = finished(rows)
    wanted = {(name, setting, seed) for setting in proof.settings for seed in proof.seeds}
    if not wanted <= done:
        return ("incomplete" if wanted & done else "not run"), []
    checks = proof.judge(chosen(rows, name))
    return ("passed" if all(check.passed for check in checks) else "failed"), checks


def short(value: float) -> str:
    """Return a number with as many digits as its size needs."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
