"""How things are timed here: in turn, several rounds, so that all meet the same machine."""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ROUNDS = 11
TURN_SECONDS = 0.05


@dataclass(frozen=True)
class Job:
    """Something to time.

    Attributes:
        run: Does `count` units of work.
        count: Entries, batches or leaves, whatever the figure is about.
        before: What each run needs first; it is not timed.
    """

    run: Callable[[], object]
    count: float = 1
    before: Callable[[], object] | None = None

    def seconds(self) -> float:
        """Seconds of one run."""
        if self.before is not None:
            self.before()
        start = time.perf_counter()
        self.run()
        return time.perf_counter() - start


def in_turn(jobs: Mapping[str, Job], rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Units per second of each job in each round.

    Within a round one job runs after the other, each for about `TURN_SECONDS`, so a machine that is
    slow for a while is slow for all. A run or two ahead of the rounds are not counted.
    """
    runs = {name: _runs_of_a_turn(job) for name, job in jobs.items()}
    rates: dict[str, list[float]] = {name: [] for name in jobs}
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for name, job in jobs.items():
                spent = sum(job.seconds() for _ in range(runs[name]))
                rates[name].append(job.count * runs[name] / spent)
    finally:
        gc.enable()
    return rates


def _runs_of_a_turn(job: Job) -> int:
    if job.seconds() > TURN_SECONDS:
        return 1
    return max(1, min(1_000, int(TURN_SECONDS / job.seconds())))
