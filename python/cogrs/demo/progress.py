"""The progress of a run of the demo, and how it is displayed."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import RenderableType
    from rich.live import Live

    from cogrs.demo.options import Options
    from cogrs.stop_signal import StopSignal

_EVERY = 1.0
"""Seconds between two lines of metrics."""
_PRINT_EVERY = 5.0
"""Seconds between two printed lines, if the phase does not change."""
_RATE_SPAN = 10.0
"""Seconds over which steps per second are measured."""


@dataclass
class Progress:
    """Metrics of a run."""

    options: Options
    started: float = field(default_factory=time.monotonic)
    ended: float | None = None
    trials: int = 0
    steps: int = 0
    steps_before: int = 0
    """Steps of the run that this one continues."""
    stored: dict[int, int] = field(default_factory=dict)
    """Entries in the memory of each actor process."""
    updates: int = 0
    caches: int = 0
    loss: float | None = None
    limiter: dict[str, Any] = field(default_factory=dict)
    """Figures of the replay server's rate limiter; empty before the first report."""
    learner_up: bool = False
    curve: list[tuple[int, float]] = field(default_factory=list)
    """Steps and mean return after each trial."""
    returns: deque[float] = field(init=False)
    _recent: deque[tuple[float, int]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.returns = deque(maxlen=self.options.window)

    def take(self, report: dict[str, Any]) -> None:
        """Take in a report of a process."""
        if "episode" in report:
            self.trials += 1
            self.steps += report["episode"]
            self.stored[report.get("worker", 0)] = report["stored"]
            self.returns.append(report["total_reward"])
            self.curve.append((self.steps, self.mean))
            now = time.monotonic()
            self._recent.append((now, self.steps))
            while len(self._recent) > 1 and self._recent[1][0] <= now - _RATE_SPAN:
                self._recent.popleft()
        else:
            self.learner_up = True
            self.updates, self.caches = report["updates"], report["caches"]
            self.limiter = report.get("limiter") or {}
            self.loss = self.loss if report["loss"] is None else report["loss"]

    @property
    def mean(self) -> float:
        """Mean return of the last trials; 0 before the first."""
        return sum(self.returns) / len(self.returns) if self.returns else 0.0

    @property
    def reached(self) -> bool:
        """Whether the goal was reached."""
        return len(self.returns) == self.options.window and self.mean >= self.options.goal

    @property
    def late(self) -> bool:
        """Whether the maximum run time is over."""
        return self.seconds >= self.options.max_seconds

    @property
    def share(self) -> float:
        """Progress from the first mean, which may be negative, to the goal: 0 to 1."""
        if not self.curve:
            return 0.0
        first = self.curve[0][1]
        way = self.options.goal - first
        return 1.0 if way <= 0 else min(max((self.mean - first) / way, 0.0), 1.0)

    @property
    def seconds(self) -> float:
        """Seconds since the start, up to the end."""
        return (self.ended or time.monotonic()) - self.started

    @property
    def rate(self) -> float:
        """Steps per second over the last `_RATE_SPAN` seconds."""
        now = self.ended or time.monotonic()
        # Measured from the last trial that ended before the span, or from the start.
        since, before = self.started, self.steps_before
        for moment, steps in self._recent:
            if moment > now - _RATE_SPAN:
                break
            since, before = moment, steps
        return (self.steps - before) / (now - since) if now > since else 0.0

    @property
    def phase(self) -> str:
        """What the learner does at present."""
        if self.updates or self.ended is not None:
            return "learning"
        return "compiling" if self.learner_up else "importing JAX"

    def figures(self) -> dict[str, Any]:
        """Return the present metrics."""
        return {
            "seconds": round(self.seconds, 2),
            "trials": self.trials,
            "steps": self.steps,
            "steps_per_second": round(self.rate),
            "replay_size": sum(self.stored.values()),
            "caches": self.caches,
            "updates": self.updates,
            "loss": self.loss,
            "mean_return": round(self.mean, 3),
            "samples_per_insert": round(self._of_limiter("samples_per_insert"), 3),
            "insert_wait_seconds": round(self._of_limiter("insert_wait_seconds"), 2),
            "sample_wait_seconds": round(self._of_limiter("sample_wait_seconds"), 2),
        }

    def _of_limiter(self, name: str) -> float:
        return float(self.limiter.get(name, 0.0))

    def rows(self) -> list[tuple[str, str]]:
        """Return the most important metrics as names and texts."""
        loss = "-" if self.loss is None else f"{self.loss:.3f}"
        return [
            ("seconds", f"{self.seconds:.0f}"),
            ("trials", f"{self.trials}"),
            ("steps", f"{self.steps}, {self.rate:.0f} per second"),
            ("replay", f"{sum(self.stored.values())} entries, {self.caches} caches sent"),
            ("updates", f"{self.updates}"),
            ("samples", f"{self._of_limiter('samples_per_insert'):.1f} per step"),
            (
                "waits",
                f"actors {self._of_limiter('insert_wait_seconds'):.1f} s to insert, "
                f"learner {self._of_limiter('sample_wait_seconds'):.1f} s for samples",
            ),
            ("loss", loss),
            ("mean return", f"{self.mean:.1f}, goal {self.options.goal:g}"),
        ]

    def line(self) -> str:
        """Return the most important metrics in one line."""
        learned = f"updates {self.updates}" if self.updates else f"learner {self.phase}"
        return (
            f"{self.seconds:3.0f} s  trials {self.trials}  steps {self.steps}, {self.rate:.0f}/s  "
            f"{learned}  mean return {self.mean:.1f}, goal {self.options.goal:g}"
        )


class Display:
    """Shows progress, live on a terminal and else line by line, and writes the metrics."""

    def __init__(self, progress: Progress, folder: Path, stop: StopSignal) -> None:
        self._progress = progress
        self._stop = stop
        self._metrics = (folder / "metrics.jsonl").open("w", encoding="utf-8")
        self._live: Live | None = None
        self._due = self._print_due = 0.0
        self._printed: tuple[str, bool] | None = None

    def __enter__(self) -> Self:
        return self

    def show(self) -> None:
        """Show the present metrics."""
        now = time.monotonic()
        if now >= self._due:
            self._due = now + _EVERY
            self._write()
        if sys.stdout.isatty():
            self._draw()
            return
        phase = self._progress.phase, self._progress.trials > 0
        if now >= self._print_due or phase != self._printed:
            self._print_due, self._printed = now + _PRINT_EVERY, phase
            print(self._progress.line(), flush=True)

    def stop(self) -> None:
        """Release the terminal, and print that the end has begun."""
        self._leave()
        self._stop.announce()

    def __exit__(self, *_exc: object) -> None:
        """Release the terminal, and write the last metrics."""
        self._leave()
        with self._metrics:
            self._write()

    def _draw(self) -> None:
        if self._live is None:
            from rich.live import Live

            self._stop.quiet = True
            self._live = Live(transient=True, auto_refresh=False)
            self._live.start()
        self._live.update(_drawn(self._progress), refresh=True)

    def _leave(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        self._stop.quiet = False

    def _write(self) -> None:
        self._metrics.write(json.dumps(self._progress.figures()) + "\n")
        self._metrics.flush()


def _drawn(progress: Progress) -> RenderableType:
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for row in progress.rows():
        table.add_row(*row)
    table.add_row("learner", progress.phase)
    return Group(table, ProgressBar(total=1.0, completed=progress.share, width=40))


def draw_curve(progress: Progress, path: Path) -> None:
    """Draw the learning curve."""
    # The first time it warns that it creates its cache of fonts.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    axes.plot(*zip(*progress.curve, strict=True))
    axes.axhline(progress.options.goal, linestyle="--", color="grey", label="goal")
    axes.set_xlabel("steps")
    axes.set_ylabel(f"mean return of the last {progress.options.window} trials")
    axes.set_title(f"{progress.options.env}, seed {progress.options.seed}")
    axes.legend()
    figure.savefig(path, dpi=120)
