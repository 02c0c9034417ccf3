"""A memory needs sequences: R2D2 on the T-maze, beside the same net without stored states.

The cue is shown in the first step and needed at the end of the corridor, so chance is 0. Settings
are those of examples/r2d2.py; "zero-state" begins its sequences with zeros, without burn-in.
"""

from __future__ import annotations

import argparse
import math
from functools import partial
from statistics import fmean
from typing import TYPE_CHECKING

import r2d2 as example
from benchmarks.learning.proof import Check, Outcome, Proof, at_least, at_most

if TYPE_CHECKING:
    from benchmarks.learning.rows import Rows
    from benchmarks.learning.run import Run

GOAL = 0.95
STEPS = {20: 150_000, 50: 600_000}
"""Steps by the length of the corridor, at most."""


def learn(run: Run, variant: str, length: int) -> Outcome:
    """Learn until four tests in a row reach the goal; the score is the mean of the last four."""
    steps = run.budget(STEPS[length])
    options = {"seed": run.seed, "length": length, "max_steps": steps, "goal": GOAL}
    tests, code = example.train(variant, argparse.Namespace(**options, max_seconds=math.inf))
    for at, value in tests:
        run.episode(at, value)
    last = [value for _, value in tests[-4:]]
    figures = {"reached": code == 0}
    return Outcome(tests[-1][0] if tests else steps, fmean(last) if last else 0.0, figures)


def judge(rows: Rows) -> list[Check]:
    """Compare both variants with the goal, for both lengths."""
    checks = []
    for length in STEPS:
        whole, without = (rows.scores(f"{name}, {length} cells") for name in ("r2d2", "zero-state"))
        checks.append(at_least(f"least of R2D2, {length} cells", min(whole), GOAL))
        checks.append(at_most(f"mean without stored states, {length} cells", fmean(without), 0.5))
    return checks


PROOF = Proof(
    title="R2D2 remembers a cue through the T-maze; without stored states the net does not",
    source="examples/r2d2.py, after Kapturowski et al. 2019",
    settings={
        f"{variant}, {length} cells": partial(learn, variant=variant, length=length)
        for length in STEPS
        for variant in ("r2d2", "zero-state")
    },
    seeds=(1, 2, 3),
    judge=judge,
    long=True,
)
