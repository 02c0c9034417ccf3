"""A data set saves online steps: half of each batch from it, half from new steps.

After Ball et al. 2023 (symmetric sampling), by a `cogrs.MixedSampler`: the parts of
examples/offline_to_online.py, with the settings of the example.
"""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

import offline_to_online as example
from benchmarks.learning.proof import Check, Outcome, Proof, at_least

if TYPE_CHECKING:
    from benchmarks.learning.rows import Rows
    from benchmarks.learning.run import Run

GOAL, STEPS, EPISODES = 475.0, 60_000, 100
ALONE, MIXED = "online alone", "offline and online"


def learn(run: Run, *, mixed: bool) -> Outcome:
    """Learn until the goal; the score is the mean return of the last test, 20 greedy episodes."""
    most = run.budget(STEPS)
    episodes = 2 if run.is_short else EPISODES
    # The script plays with other seeds than the learner.
    dataset: Any = example.collect(run.seed + 100, episodes) if mixed else None
    curve = example.learn(run.seed, dataset, GOAL, most)
    for steps, value in curve:
        run.episode(steps, value)
    last = curve[-1] if curve else (most, 0.0)
    return Outcome(last[0], last[1], {"reached": last[1] >= GOAL})


def judge(rows: Rows) -> list[Check]:
    """Compare the online steps to the goal, and see that it was reached."""
    needed = {name: rows.figures(name, "steps") for name in (ALONE, MIXED)}
    saved = sum(mixed < alone for mixed, alone in zip(needed[MIXED], needed[ALONE], strict=True))
    found = f"{median(needed[MIXED]):,.0f} to {median(needed[ALONE]):,.0f}"
    return [
        at_least("least return with the data set", min(rows.scores(MIXED)), GOAL),
        Check(
            "fewer online steps with every seed",
            f"{saved} seeds, medians {found}",
            saved == len(needed[ALONE]),
        ),
    ]


PROOF = Proof(
    title="A data set saves online steps on the way to 475",
    source="examples/offline_to_online.py, after Ball et al. 2023",
    settings={
        MIXED: lambda run: learn(run, mixed=True),
        ALONE: lambda run: learn(run, mixed=False),
    },
    seeds=(1, 2, 3, 4, 5),
    judge=judge,
)
