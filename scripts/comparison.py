"""Compare the figures of two versions: `python scripts/comparison.py OLD NEW`.

OLD and NEW are files of `benchmarks/results`, or folders of which the newest version is taken. A
figure is worse if its median moved in the bad direction by more than its noise: the spans between
the quartiles of both, added, and at least 5 % of the old median. Figures with fewer than three
values have no noise to compare with, and rates and times of two different machines, or of a busy
one, say nothing: they are counted and not judged. Figures that are gone are named; a run without
the long proofs lacks theirs. Exit codes: 0 nothing is worse, 1 something is, 2 nothing to compare.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from pathlib import Path
from typing import Any, NamedTuple

LEAST_NOISE = 0.05
"""Share of the old median that is noise at any rate."""
LEAST_VALUES = 3
SAME_EVERYWHERE = {"x", "return", "bytes"}
"""Units of figures that can be compared across machines."""


class Change(NamedTuple):
    """What became of a figure.

    Fields:
        name: The figure.
        state: "worse", "better", "same", "gone", or why it is not judged.
        text: Both medians and the noise.
    """

    name: str
    state: str
    text: str


def compare(old: dict[str, Any], new: dict[str, Any]) -> list[Change]:
    """Return what became of each figure of the old file."""
    return [
        _change(name, before, new[name]) if name in new else Change(name, "gone", "")
        for name, before in sorted(old.items())
    ]


def _change(name: str, before: dict[str, Any], after: dict[str, Any]) -> Change:
    medians = [statistics.median(each["values"]) for each in (before, after)]
    noise = max(_span(before["values"]) + _span(after["values"]), LEAST_NOISE * abs(medians[0]))
    text = f"{medians[0]:.4g} -> {medians[1]:.4g} {after['unit']}, noise {noise:.2g}"
    if before["unit"] != after["unit"] or before["less"] != after["less"]:
        return Change(name, "another figure", text)
    if after["unit"] not in SAME_EVERYWHERE and before["machine"] != after["machine"]:
        return Change(name, "another machine", text)
    if after["unit"] not in SAME_EVERYWHERE and (before["busy"] or after["busy"]):
        return Change(name, "busy machine", text)
    if min(len(before["values"]), len(after["values"])) < LEAST_VALUES:
        return Change(name, "too few values", text)
    gain = (medians[1] - medians[0]) * (-1 if after["less"] else 1)
    state = "worse" if gain < -noise else "better" if gain > noise else "same"
    return Change(name, state, text)


def _span(values: list[float]) -> float:
    """Return the span between the quartiles; 0 for one value."""
    if len(values) < 2:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return high - low


def newest(path: Path) -> Path:
    """Return the file of the newest version in a folder; a file as it is.

    Raises:
        FileNotFoundError: There is no such file.
    """
    if not path.is_dir():
        return path
    found = list(path.glob("*.json"))
    if not found:
        raise FileNotFoundError(f"{path}: expected files such as 0.1.0.json")
    return max(found, key=lambda file: [int(part) for part in re.findall(r"\d+", file.stem)])


def main(argv: list[str] | None = None) -> int:
    """Print what became worse, better or is gone; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    args = parser.parse_args(argv)
    try:
        files = [
            json.loads(newest(path).read_text(encoding="utf-8"))["figures"]
            for path in (args.old, args.new)
        ]
    except (OSError, ValueError, KeyError) as error:
        print(f"cannot compare: {error}", file=sys.stderr)
        return 2
    changes = compare(*files)
    for state in ("worse", "gone", "better"):
        for change in changes:
            if change.state == state:
                print(f"{state:8}{change.name}: {change.text}")
    states = [change.state for change in changes]
    print(*(f"{states.count(state)} {state}" for state in sorted(set(states))), sep=", ")
    return 1 if "worse" in states else 0 if states else 2


if __name__ == "__main__":
    sys.exit(main())
