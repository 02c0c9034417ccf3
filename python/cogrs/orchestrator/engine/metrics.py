"""The counters of an orchestrator, over all trials since its start."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

TICK_BOUNDS = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)
"""Upper bounds of the buckets of ticks' durations, in seconds."""


class TrialMetrics:
    """Counts trials and ticks as they happen; most of the trials are forgotten by now."""

    def __init__(self) -> None:
        """Create counters at 0."""
        self.started = 0
        """Trials that were registered."""
        self.concluded = 0
        """Trials that their environment ended."""
        self.cut = 0
        """Trials that ended for another reason."""
        self.dropped: Counter[str] = Counter()
        """Rewards, messages and actions dropped or made up, by kind; counted when trials end."""
        self.tick_buckets = [0] * (len(TICK_BOUNDS) + 1)
        """Ticks by duration; the last bucket is for those beyond all bounds."""
        self.tick_seconds = 0.0
        """Sum of the durations."""

    def add_tick(self, seconds: float) -> None:
        """Count a tick: from one observation set to the next."""
        self.tick_buckets[bisect_left(TICK_BOUNDS, seconds)] += 1
        self.tick_seconds += seconds

    def add_end(self, dropped: Counter[str], *, concluded: bool) -> None:
        """Count the end of a trial."""
        self.concluded += concluded
        self.cut += not concluded
        self.dropped.update(dropped)
