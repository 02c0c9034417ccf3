"""How many rows of each batch come from each of several sources, so that shares are exact.

Row k, from 1 on, of a source with share f of all rows may come once T * f > k - 1, where T rows
have been given, and has to have come when T * f = k. Rows in the order of these deadlines keep
every source within one row of T * f, whatever the sizes of the batches are (Tijdeman 1980, "The
chairman assignment problem"). Largest remainders taken anew for each T could take a row back.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from cogrs.suggest import suggestion
from cogrs.validation import check_kind, check_number

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROUNDING = Fraction(1, 10**6)
"""How far a sum of fractions may be from 1, as that of ten times 0.1 is."""


class Shares:
    """The fractions of sources, and the rows that each has given since the fractions were set."""

    def __init__(self, fractions: Sequence[Fraction]) -> None:
        """Count from now on; fractions are >= 0 and add up to 1."""
        self.fractions = tuple(fractions)
        self._given = [0] * len(self.fractions)

    def next(self, rows: int) -> list[int]:
        """Return how many of the next rows come from each source."""
        total = sum(self._given) + rows
        due = [fraction * total for fraction in self.fractions]
        counts = [max(int(each) - given, 0) for each, given in zip(due, self._given, strict=True)]
        # Beyond what is due, each source may give the row whose share has begun.
        early = [
            (Fraction(given + count + 1) / self.fractions[at], at)
            for at, (given, count) in enumerate(zip(self._given, counts, strict=True))
            if given + count < due[at]
        ]
        for _, at in sorted(early)[: rows - sum(counts)]:
            counts[at] += 1
        return counts

    def count(self, rows: Sequence[int]) -> None:
        """Count rows that were given."""
        self._given = [given + each for given, each in zip(self._given, rows, strict=True)]


def fractions_of(name: str, given: object, names: Sequence[str]) -> list[Fraction]:
    """Return the fractions of sources in the order of `names`, which add up to 1.

    Raises:
        TypeError: `given` is not a mapping from names to numbers.
        ValueError: Names differ, a number is not in [0, 1], or their sum is not 1.
    """
    check_kind(name, given, Mapping, "a mapping from names of sources to fractions")
    assert isinstance(given, Mapping)
    for each in given:
        if each not in names:
            hint = suggestion(each, names)
            got = f"{each!r}{'; ' if hint else ''}{hint}"
            raise ValueError(f"{name}: expected {', '.join(map(repr, names))}, got {got}")
    if missing := [each for each in names if each not in given]:
        raise ValueError(f"{name}: expected a fraction of every source, got none of {missing[0]!r}")
    made = []
    for each in names:
        fraction = check_number(f"{name}[{each!r}]", given[each])
        if not 0 <= fraction <= 1:
            raise ValueError(f"{name}[{each!r}]: expected a number from 0 to 1, got {fraction:g}")
        made.append(Fraction(fraction))
    total = sum(made, Fraction())
    if abs(total - 1) > _ROUNDING:
        raise ValueError(f"{name}: expected fractions that add up to 1, got {float(total):g}")
    return [each / total for each in made]
