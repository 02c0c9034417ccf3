"""Results of runs: JSON lines, one per finished run.

A row has `proof`, `setting`, `seed`, `steps` (of environments), `score` (a return), `figures`,
`curve` (pairs of steps and mean return), `wall_s` and `cpu_s` (seconds), `short` (a short try,
which counts nowhere), `error` (None, or the text of an exception), `machine` and `versions`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

Row = dict[str, Any]
Key = tuple[str, str, int]


def append(path: Path, row: Row) -> None:
    """Add a row to a file, which is made if it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def read(path: Path) -> list[Row]:
    """Return the rows of a file; of runs that were repeated only the last row.

    A last line that was cut short, by a kill, is left out.

    Raises:
        ValueError: Another line is not a row.
    """
    if not path.exists():
        return []
    rows: dict[Key, Row] = {}
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    for number, line in enumerate(lines, 1):
        if number == len(lines) and not line.endswith("\n"):
            continue
        try:
            row = json.loads(line)
            rows[row["proof"], row["setting"], row["seed"]] = row
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"{path}, line {number}: expected a row, got {line[:60]!r}") from error
    return list(rows.values())


def finished(rows: Iterable[Row]) -> set[Key]:
    """Return the runs that need not be made again."""
    return {
        (row["proof"], row["setting"], row["seed"])
        for row in rows
        if row["error"] is None and not row["short"]
    }


@dataclass(frozen=True)
class Rows:
    """The finished runs of one proof.

    Attributes:
        rows: Rows without errors.
    """

    rows: Sequence[Row]

    def of(self, setting: str) -> list[Row]:
        """Return the runs of a setting, by seed."""
        found = (row for row in self.rows if row["setting"] == setting)
        return sorted(found, key=lambda row: row["seed"])

    def scores(self, setting: str) -> list[float]:
        """Return the score of each seed."""
        return [row["score"] for row in self.of(setting)]

    def figures(self, setting: str, name: str) -> list[float]:
        """Return a figure of each seed; `wall_s`, `cpu_s` and `steps` are figures too."""
        return [row[name] if name in row else row["figures"][name] for row in self.of(setting)]

    def ratios(self, name: str, one: str, other: str) -> list[float]:
        """Return how many times a setting's figure is another's, for each seed that both have."""
        pairs = [
            {row["seed"]: value for row, value in zip(self.of(each), found, strict=True)}
            for each, found in ((one, self.figures(one, name)), (other, self.figures(other, name)))
        ]
        return [pairs[0][seed] / pairs[1][seed] for seed in sorted(pairs[0].keys() & pairs[1])]


def chosen(rows: Iterable[Row], name: str) -> Rows:
    """Return the finished runs of a proof."""
    return Rows([r for r in rows if r["proof"] == name and r["error"] is None and not r["short"]])
