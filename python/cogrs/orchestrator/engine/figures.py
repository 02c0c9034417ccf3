"""What an orchestrator counts while trials run."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

TICK_BOUNDS = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)
"""Upper bounds of the buckets of ticks' durations, in seconds."""


class Figures:
    """Counts over all trials since the start, of which most are forgotten by now."""

    def __init__(self) -> None:
        """Have seen nothing."""
        self.started = 0
        """Trials that were registered."""
        self.concluded = 0
        """Trials that their environment ended."""
        self.cut = 0
        """Trials that ended for another reason."""
        self.dropped: Counter[str] = Counter()
        """What trials dropped or made up, by what it was; counted when they end."""
        self.tick_buckets = [0] * (len(TICK_BOUNDS) + 1)
        """Ticks by duration; the last bucket is for those beyond all bounds."""
        self.tick_seconds = 0.0
        """Sum of the durations."""

    def tick(self, seconds: float) -> None:
        """Count a tick: from one observation set to the next."""
        self.tick_buckets[bisect_left(TICK_BOUNDS, seconds)] += 1
        self.tick_seconds += seconds

    def end(self, dropped: Counter[str], *, concluded: bool) -> None:
        """Count the end of a trial."""
        if concluded:
            self.concluded += 1
        else:
            self.cut += 1
        self.dropped.update(dropped)
