"""Rows of figures, what is asked of them, and how both are printed."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from record import Figure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

OURS = "cogrs"
PLAIN = "plain"
NONE = "-"


@dataclass(frozen=True)
class Row:
    """A figure and its targets.

    Attributes:
        name: What is measured.
        unit: Of figures and targets.
        least: What it must reach on a quiet machine of two cores.
        aim: What it should reach there.
        peer: Figure of the best peer there. In any other run what counts is the ratio to the best
            peer of that run, which must be `least / peer`.
        original: Figure of the C++ original there; it cannot be installed here.
        beside: `least` and `aim` are shares of this participant's figure: `PLAIN` moves as many
            bytes without any replay memory, others are draws of ours by another sampler.
        less: Less is better.
    """

    name: str
    unit: str
    least: float | None = None
    aim: float | None = None
    peer: float | None = None
    original: float | None = None
    beside: str | None = None
    less: bool = False


@dataclass(frozen=True)
class Result:
    """What a row's participants came to, in each round.

    Attributes:
        row: The row.
        figures: Of each participant, in `row.unit`, one a round.
    """

    row: Row
    figures: Mapping[str, list[float]]

    def median(self, name: str) -> float:
        """The median of a participant's rounds."""
        return statistics.median(self.figures[name])

    @property
    def rival(self) -> str | None:
        """The participant of `beside`, or the best peer of this run; None if there is neither."""
        if self.row.beside is not None:
            return self.row.beside
        peers = [name for name in self.figures if name != OURS]
        best = min if self.row.less else max
        return best(peers, key=self.median) if peers else None

    def ratio_to(self, name: str) -> float:
        """How many times as good ours is: the median of the ratios within a round."""
        return statistics.median(self.ratios_to(name))

    def ratios_to(self, name: str) -> list[float]:
        """How many times as good ours is, in each round."""
        pairs = zip(self.figures[OURS], self.figures[name], strict=True)
        return [b / a if self.row.less else a / b for a, b in pairs]

    def needed(self, target: float) -> float | None:
        """The ratio to `rival` that a target comes to; None if it comes to none."""
        if self.row.beside is not None:
            return target
        if self.row.peer is None:
            return None
        return self.row.peer / target if self.row.less else target / self.row.peer

    @property
    def absolute(self) -> str:
        """Which targets the figure itself reaches."""
        if self.row.beside is not None:
            return NONE
        sign = -1 if self.row.less else 1
        return self._reached(lambda target: sign * self.median(OURS) >= sign * target)

    @property
    def relative(self) -> str:
        """Which targets the ratio to `rival` reaches."""
        rival = self.rival
        if rival is None or self.row.least is None or self.needed(self.row.least) is None:
            return NONE
        ratio = self.ratio_to(rival)
        return self._reached(lambda target: ratio >= (self.needed(target) or 0))

    def _reached(self, reaches: Callable[[float], bool]) -> str:
        if self.row.least is None or self.row.aim is None:
            return NONE
        if reaches(self.row.aim):
            return "aim"
        return "least" if reaches(self.row.least) else "MISSED"


def targets(results: Iterable[Result]) -> str:
    """The table of targets."""
    head = ("figure", "here", "least", "aim", "is", "best beside it", "ratio", "least", "aim", "is")
    return _grid([head, *(_target_cells(result) for result in results)])


def _target_cells(result: Result) -> tuple[str, ...]:
    row, rival = result.row, result.rival
    wanted = (row.least, row.aim)
    cells = [f"{row.name}, {row.unit}", short(result.median(OURS))]
    cells += [NONE if row.beside is not None else short(target) for target in wanted]
    cells.append(result.absolute)
    if rival is None:
        return (*cells, NONE, NONE, NONE, NONE, NONE)
    needed = [None if target is None else result.needed(target) for target in wanted]
    cells += [rival, f"{result.ratio_to(rival):.2f}x"]
    cells += [NONE if ratio is None else f"{ratio:.2f}x" for ratio in needed]
    return (*cells, result.relative)


def kept(results: Iterable[Result]) -> list[Figure]:
    """The figures of ours, and their ratios to each participant beside it, for the record."""
    figures = []
    for result in results:
        row, name = result.row, f"replay/{result.row.name}"
        figures.append(Figure(name, row.unit, result.figures[OURS], row.less))
        figures += [
            Figure(f"{name}, to {peer}", "x", result.ratios_to(peer))
            for peer in result.figures
            if peer != OURS
        ]
    return figures


def participants(results: Iterable[Result]) -> str:
    """The table of all figures, and of what was seen elsewhere."""
    results = list(results)
    names = list(dict.fromkeys(name for result in results for name in result.figures))
    head = ["figure", *names, "best peer elsewhere", "original elsewhere"]
    lines = [
        (
            f"{result.row.name}, {result.row.unit}",
            *(short(result.median(n)) if n in result.figures else NONE for n in names),
            short(result.row.peer),
            short(result.row.original),
        )
        for result in results
    ]
    return _grid([head, *lines])


def verdict(results: Iterable[Result]) -> str:
    """Which targets are missed: by the ratio where there is one, else by the figure itself."""
    results = list(results)
    lines = []
    for level, states in (("least", ("MISSED",)), ("aim", ("MISSED", "least"))):
        missed = [r for r in results if _state(r) in states]
        lines.append(f"{level} missed by {len(missed)}:")
        lines += [f"- {r.row.name} ({_how(r)})" for r in missed]
    return "\n".join(lines)


def _state(result: Result) -> str:
    return result.absolute if result.relative == NONE else result.relative


def _how(result: Result) -> str:
    return "figure" if result.relative == NONE else f"ratio to {result.rival}"


def short(figure: float | None) -> str:
    """Three digits, thousands as k and millions as M."""
    if figure is None:
        return NONE
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(figure) >= size:
            return f"{_digits(figure / size)}{letter}"
    return _digits(figure)


def _digits(figure: float) -> str:
    return f"{figure:.0f}" if abs(figure) >= 100 else f"{figure:.3g}"


def _grid(lines: list[Sequence[str]]) -> str:
    """A table in Markdown, its columns aligned."""
    widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
    rule = ["-" * width for width in widths]
    return "\n".join(
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) + " |"
        for line in (lines[0], rule, *lines[1:])
    )
