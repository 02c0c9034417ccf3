"""What the naive replay memory is made of: entries, episodes, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np


class NaiveFields(NamedTuple):
    s: np.ndarray
    a: np.ndarray
    r: np.ndarray
    p: np.ndarray
    v: np.ndarray
    q: np.ndarray
    i: np.ndarray


class NaiveView(NamedTuple):
    entries: NaiveFields
    weight: np.ndarray
    id: np.ndarray
    truncated: bool
    has_final_state: bool


class NaiveTransition(NamedTuple):
    """Fields of one sample; `weight` is a range, see `NaiveEntry.weight_range`."""

    prev: dict[str, np.ndarray]
    next: dict[str, np.ndarray]
    weight: tuple[float, float]
    next_terminated: bool
    nstep_return: np.ndarray
    nstep_discount: np.ndarray


@dataclass(eq=False)
class NaiveEntry:
    """One entry, with all that its weight is made of."""

    fields: dict[str, np.ndarray]
    id: int
    base: float
    error: float | None = None
    slop: float = 0.0
    epsilon: float = 0.0
    exponent: float = 1.0
    given: float | None = None
    """A weight that is not made of an error."""
    times: int = 0
    """How often it was drawn under a limit."""

    def _weight(self, error: float | None) -> float:
        if self.base == 0:
            return 0.0
        if self.given is not None:
            return self.given
        if error is None:
            return self.base
        return self.base * (max(error, 0.0) + self.epsilon) ** self.exponent

    @property
    def weight(self) -> float:
        return self._weight(self.error)

    def weight_range(self) -> tuple[float, float]:
        """Smallest and largest weight that roundings of q may lead to.

        Where q and v nearly cancel, it depends on them whether a weight is 0 or a tiny number.
        """
        if self.error is None or self.given is not None:
            return self.weight, self.weight
        return self._weight(self.error - self.slop), self._weight(self.error + self.slop)


@dataclass(eq=False)
class NaiveEpisode:
    entries: list[NaiveEntry] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    updates_value: bool = False
    updates_weight: bool = False
    bootstrap: np.ndarray | None = None
    has_final_state: bool = False

    def __len__(self) -> int:
        return len(self.entries)

    def steps(self) -> list[NaiveEntry]:
        return self.entries[:-1] if self.has_final_state else self.entries
