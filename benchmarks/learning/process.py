"""A run in its own process: `python -m benchmarks.learning.process PROOF SETTING SEED FILE`."""

from __future__ import annotations

import argparse
import os
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.learning import catalogue, rows
from benchmarks.learning.run import Run
from benchmarks.record import machine, versions

if TYPE_CHECKING:
    from benchmarks.learning.rows import Row


def cpu_seconds() -> float:
    """Return the CPU time of this process and of its children that have ended."""
    return sum(os.times()[:4])


def perform(proof: str, setting: str, seed: int, limit: int | None = None) -> Row:
    """Make one run; return its row, which tells of an exception instead of raising it."""
    learn = catalogue.load(proof).settings[setting]  # its imports are not timed
    run = Run(f"{proof}, {setting}, seed {seed}", seed, limit)
    row: Row = {"proof": proof, "setting": setting, "seed": seed}
    wall, cpu = time.monotonic(), cpu_seconds()
    try:
        outcome = learn(run)
        row |= {"steps": outcome.steps, "score": round(outcome.score, 4), "error": None}
        row["figures"] = {name: round(float(v), 6) for name, v in outcome.figures.items()}
        row["curve"] = run.curve()
    except Exception as error:  # a proof is arbitrary code; its failure is a result to show
        traceback.print_exc()
        row["error"] = f"{type(error).__name__}: {error}"
    row["wall_s"] = round(time.monotonic() - wall, 2)
    row["cpu_s"] = round(cpu_seconds() - cpu, 2)
    return {**row, "short": limit is not None, "machine": machine(), "versions": versions()}


def main() -> None:
    """Make one run, and append its row to a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("proof", choices=catalogue.NAMES)
    parser.add_argument("setting")
    parser.add_argument("seed", type=int)
    parser.add_argument("file", type=Path)
    parser.add_argument("--limit", type=int)
    args = parser.parse_args()
    rows.append(args.file, perform(args.proof, args.setting, args.seed, args.limit))


if __name__ == "__main__":
    main()
