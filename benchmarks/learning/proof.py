"""What a proof consists of, and when it passes."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.learning.rows import Rows
    from benchmarks.learning.run import Run


class Outcome(NamedTuple):
    """What one run came to.

    Fields:
        steps: Environment steps taken.
        score: The return that the proof is about, such as the mean of the last 100 episodes.
        figures: Other numbers of the run, by name.
    """

    steps: int
    score: float
    figures: Mapping[str, float] = {}


class Check(NamedTuple):
    """One claim of a proof, and what was found.

    Fields:
        claim: What has to hold, with its number.
        found: The figure that was found.
        passed: Whether it holds.
    """

    claim: str
    found: str
    passed: bool


@dataclass(frozen=True)
class Proof:
    """A question that runs of several settings and seeds answer.

    Attributes:
        title: What is shown, in one line.
        source: Where the settings are from, and what is published for them.
        settings: The function that makes one run, by the name of its setting.
        seeds: Seeds of each setting; all of them are shown.
        judge: Returns the checks of a proof whose runs are all there.
        long: Whether only `--all` and `--only` run it.
        needs: Modules without which it is left out.
    """

    title: str
    source: str
    settings: Mapping[str, Callable[[Run], Outcome]]
    seeds: Sequence[int]
    judge: Callable[[Rows], list[Check]]
    long: bool = False
    needs: Sequence[str] = ()

    def missing(self) -> list[str]:
        """Return the modules that are needed and not installed."""
        return [name for name in self.needs if find_spec(name) is None]


def at_least(claim: str, found: float, least: float, unit: str = "") -> Check:
    """Return the check that a figure is not below a number."""
    return Check(f"{claim} >= {least:g}{unit}", f"{found:.4g}{unit}", found >= least)


def at_most(claim: str, found: float, most: float, unit: str = "") -> Check:
    """Return the check that a figure is not above a number."""
    return Check(f"{claim} <= {most:g}{unit}", f"{found:.4g}{unit}", found <= most)
