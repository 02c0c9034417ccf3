"""One run of a proof: its seed, its steps, and the returns of its episodes."""

from __future__ import annotations

import time
from collections import deque
from statistics import fmean

POINTS = 50
"""Points of a learning curve, at most."""
WINDOW = 100
"""Episodes in the mean return that is shown, and with which most runs are scored."""
PERIOD = 10.0
"""Seconds from one line of progress to the next."""


class Run:
    """What a setting's function is given: its seed, its number of steps, and where returns go."""

    def __init__(self, name: str, seed: int, limit: int | None = None) -> None:
        """Start a run of at most `limit` steps."""
        self.name, self.seed, self._limit = name, seed, limit
        self.returns: list[float] = []
        self._latest: deque[float] = deque(maxlen=WINDOW)
        self._points: list[tuple[int, float]] = []
        self._total = 0
        self._begin = self._told = time.monotonic()

    def budget(self, steps: int) -> int:
        """Return how many steps to take where this many are published."""
        self._total = steps if self._limit is None else min(steps, self._limit)
        return self._total

    @property
    def is_short(self) -> bool:
        """Whether this is a short try, whose score means nothing."""
        return self._limit is not None

    def episode(self, steps: int, total: float) -> None:
        """Note the return of an episode that ended after this many steps of the run."""
        self.returns.append(float(total))
        self._latest.append(float(total))
        self._points.append((int(steps), float(total)))
        if time.monotonic() - self._told >= PERIOD:
            self._told = time.monotonic()
            self.tell(steps)

    def tell(self, steps: int) -> None:
        """Print a line of progress."""
        seconds = time.monotonic() - self._begin
        shown = f"{steps:,} of {self._total:,} steps, mean return {self.score():.1f}"
        print(f"  {self.name}: {shown}, {seconds:.0f} s", flush=True)

    def score(self) -> float:
        """Return the mean return of the last 100 episodes; 0 before the first one."""
        return fmean(self._latest) if self._latest else 0.0

    def curve(self) -> list[tuple[int, float]]:
        """Return the mean returns within equal parts of the run, each at its last step."""
        if not self._points:
            return []
        width = max(1, -(-self._points[-1][0] // POINTS))
        parts: dict[int, list[tuple[int, float]]] = {}
        for steps, total in self._points:
            parts.setdefault(-(-steps // width), []).append((steps, total))
        return [
            (each[-1][0], round(fmean(total for _, total in each), 3)) for each in parts.values()
        ]
