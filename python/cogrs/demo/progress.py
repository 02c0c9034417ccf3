"""What the demo knows of its run, and how that is shown."""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from pathlib import Path

    from cogrs.demo.options import Options


@dataclass
class Progress:
    """Figures of a run."""

    options: Options
    started: float = field(default_factory=time.monotonic)
    trials: int = 0
    steps: int = 0
    updates: int = 0
    caches: int = 0
    loss: float | None = None
    returns: deque[float] = field(init=False)
    curve: list[tuple[int, float]] = field(default_factory=list)
    """Steps, and the mean return at that time."""
    _rate: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=20))

    def __post_init__(self) -> None:
        """Begin with no returns."""
        self.returns = deque(maxlen=self.options.window)

    def take(self, said: dict[str, Any]) -> None:
        """Take in what a process said."""
        if "episode" in said:
            self.trials += 1
            self.steps += said["episode"]
            self.returns.append(said["total_reward"])
            self.curve.append((self.steps, self.mean))
            self._rate.append((time.monotonic(), self.steps))
        elif "updates" in said:
            self.updates, self.caches = said["updates"], said["caches"]
            self.loss = self.loss if said["loss"] is None else said["loss"]

    @property
    def mean(self) -> float:
        """Mean return of the last trials; 0 before the first."""
        return sum(self.returns) / len(self.returns) if self.returns else 0.0

    @property
    def reached(self) -> bool:
        """Whether enough trials have the mean that is the goal."""
        return len(self.returns) == self.options.window and self.mean >= self.options.goal

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    @property
    def rate(self) -> float:
        """Steps a second of late."""
        if len(self._rate) < 2:
            return 0.0
        (first, before), (last, now) = self._rate[0], self._rate[-1]
        return (now - before) / max(last - first, 1e-9)

    def figures(self) -> dict[str, Any]:
        """Return all figures of now."""
        return {
            "seconds": round(self.seconds, 2),
            "trials": self.trials,
            "steps": self.steps,
            "steps_per_second": round(self.rate),
            "caches": self.caches,
            "updates": self.updates,
            "loss": self.loss,
            "mean_return": round(self.mean, 2),
        }

    def line(self) -> str:
        """Return one line that tells them."""
        loss = "-" if self.loss is None else f"{self.loss:.3f}"
        return (
            f"{self.seconds:5.0f} s  trials {self.trials}  {self.rate:5.0f} steps/s  replay "
            f"{self.steps} steps, {self.caches} caches  updates {self.updates}  loss {loss}  mean "
            f"return {self.mean:.1f} of {self.options.goal:g}"
        )


class Display:
    """Shows progress: live on a terminal, else as a line now and then; and keeps the metrics."""

    def __init__(self, progress: Progress, folder: Path) -> None:
        """Begin to show."""
        self._progress = progress
        self._metrics = (folder / "metrics.jsonl").open("w", encoding="utf-8")
        self._live: Any = None
        self._due = 0.0

    def __enter__(self) -> Self:
        """Take the terminal, if there is one."""
        if sys.stdout.isatty():
            from rich.progress import BarColumn, Progress, TextColumn

            self._live = Progress(BarColumn(30), TextColumn("{task.description}"))
            self._task = self._live.add_task("starting", total=self._progress.options.goal)
            self._live.start()
        return self

    def show(self) -> None:
        """Show the present figures."""
        now = time.monotonic()
        if self._live is not None:
            mean = min(self._progress.mean, self._progress.options.goal)
            self._live.update(self._task, description=self._progress.line(), completed=mean)
        if now < self._due:
            return
        self._due = now + 1.0
        self._metrics.write(json.dumps(self._progress.figures()) + "\n")
        self._metrics.flush()
        if self._live is None:
            print(self._progress.line(), flush=True)

    def __exit__(self, *_exc: object) -> None:
        """Give the terminal back."""
        if self._live is not None:
            self._live.stop()
        self._metrics.close()


def draw_curve(progress: Progress, path: Path) -> None:
    """Draw the learning curve."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    if progress.curve:
        axes.plot(*zip(*progress.curve, strict=True))
    axes.axhline(progress.options.goal, linestyle="--", color="grey", label="goal")
    axes.set_xlabel("steps")
    axes.set_ylabel(f"mean return of the last {progress.options.window} trials")
    axes.set_title(f"{progress.options.env}, seed {progress.options.seed}")
    axes.legend()
    figure.savefig(path, dpi=120)
