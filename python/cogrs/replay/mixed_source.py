"""A source of a `MixedSampler`: a memory, a view or a server, and the rows that it gives.

Rows that were drawn for a batch which then failed, because another source had too few, are kept for
the next one: a server gives each sample only once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cogrs._core import ReplayMemory, ReplayView

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from cogrs.replay.entry import Entry

_BY_WEIGHT = ("prioritized", "stratified")
_LEFT_OUT = "nothing"

Fields = dict[str, str]
"""What rows consist of: dtype and shape of each array, by its name."""


class Rows(NamedTuple):
    """Rows of one source.

    Fields:
        prev, next, weight, next_terminated, nstep_return, nstep_discount: As of `NStepSample`.
        id: Ids as of `MixedIds`, uint64 (B,).
        probability: Of the row in its source, float64 (B,).
        ratio: The number of entries of the source times probability; 1 for samplers that do not
            choose by weight. Float64 (B,).
    """

    prev: Entry
    next: Entry
    weight: npt.NDArray[np.float32]
    id: npt.NDArray[np.uint64]
    probability: npt.NDArray[np.float64]
    next_terminated: npt.NDArray[np.bool_]
    nstep_return: npt.NDArray[np.float32]
    nstep_discount: npt.NDArray[np.float32]
    ratio: npt.NDArray[np.float64]


class MixedSource:
    """A source, and rows of it that wait for a batch."""

    def __init__(
        self, name: str, source: Any, encode: Callable[..., npt.NDArray[np.uint64]]
    ) -> None:
        """Draw from a source; `encode` makes ids of its ids, senders and number of rows.

        Raises:
            TypeError: It is not a source.
            ValueError: It is a server without n-step returns.
        """
        self.name = name
        self.source = source
        self._encode = encode
        self._held: Rows | None = None
        self.is_local = isinstance(source, (ReplayMemory, ReplayView))
        if not self.is_local and not all(
            hasattr(source, each) for each in ("get_batch", "update_priority", "weight_sum")
        ):
            expected = "a memory, a view, a server or a ReplaySampler"
            raise TypeError(f"sources[{name!r}]: expected {expected}, got {type(source).__name__}")
        if getattr(source, "nstep", True) is False:
            raise ValueError(self._needs_nstep())

    def hold(self, rows: int, wait: float | None) -> None:
        """Draw until so many rows are held; errors are those of the source."""
        have = 0 if self._held is None else len(self._held.weight)
        if have < rows:
            drawn = (self._drawn if self.is_local else self._given)(rows - have, wait)
            self._held = drawn if self._held is None else joined([self._held, drawn])

    def take(self, rows: int) -> Rows:
        """Return the oldest of the rows that are held."""
        held = self._held
        assert held is not None
        if rows == len(held.weight):
            self._held = None
            return held
        self._held = _each(lambda array: array[rows:], held)
        taken: Rows = _each(lambda array: array[:rows], held)
        return taken

    def fields(self) -> Fields:
        """Return the fields of the rows that are held."""
        held = self._held
        assert held is not None
        return {
            name: f"{array.dtype} {array.shape[1:]}"
            if len(array) or not len(held.weight)
            else _LEFT_OUT
            for name, array in _named("", held)
        }

    def _drawn(self, rows: int, wait: float | None) -> Rows:
        source = self.source
        drawn = source.sample(rows, nstep_return=True, wait=wait)
        ratio = self._ratio(source.sampler, drawn.probability, source.num_sampleable)
        return Rows(
            *(drawn.prev, drawn.next, drawn.weight),
            self._encode(drawn.id, None, rows),
            *(drawn.probability, drawn.next_terminated, drawn.nstep_return, drawn.nstep_discount),
            ratio,
        )

    def _given(self, rows: int, wait: float | None) -> Rows:
        batch = self.source.get_batch(rows, wait=wait)
        if not hasattr(batch, "prev"):
            got = type(batch).__name__
            raise ValueError(f"sources[{self.name!r}]: expected batches of transitions, got {got}")
        if not hasattr(batch, "nstep_discount"):
            raise ValueError(self._needs_nstep())
        sampler = self.source.rem.sampler
        shares = {"uniform": np.ones(rows)}.get(sampler, batch.weight.astype(np.float64))
        if sampler in (*_BY_WEIGHT, "uniform"):
            # The sum is of another moment than the draw.
            probability = shares / max(self.source.weight_sum, float(shares.max()))
        else:
            probability = np.ones(rows)
        # Servers do not know their clients' numbers of entries. 1 / probability is on average that.
        ratio = self._ratio(sampler, probability, float(np.mean(1 / probability)))
        over = batch.nstep_discount.reshape(rows, -1) == 0
        with_ids = (batch.id, batch.sender) if hasattr(batch, "sender") else (None, None)
        return Rows(
            *(batch.prev, batch.next, batch.weight),
            self._encode(*with_ids, rows),
            *(probability, over.all(1), batch.nstep_return, batch.nstep_discount),
            ratio,
        )

    @staticmethod
    def _ratio(
        sampler: str, probability: npt.NDArray[np.float64], count: float
    ) -> npt.NDArray[np.float64]:
        if sampler not in _BY_WEIGHT:
            return np.ones_like(probability)
        # Others may have changed the number since the draw.
        return probability * max(count, 1)

    def _needs_nstep(self) -> str:
        expected = "a server made with nstep=True, whose batches say where episodes terminated"
        return f"sources[{self.name!r}]: expected {expected}, got one made without"


def joined(parts: Sequence[Rows]) -> Rows:
    """Return the rows of all parts, one part after the other."""
    if len(parts) == 1:
        return parts[0]
    made: Rows = _each(lambda *arrays: np.concatenate(arrays), *parts)
    return made


def difference(one: Fields, other: Fields) -> tuple[str, str, str] | None:
    """Return the first array that differs, and what it is in each; None if all are equal."""
    for name in {**one, **other}:
        pair = one.get(name, _LEFT_OUT), other.get(name, _LEFT_OUT)
        if pair[0] != pair[1]:
            return name, *pair
    return None


def _each(call: Callable[..., Any], *trees: Any) -> Any:
    """Call for the arrays of trees of the same form, in dicts and tuples; return such a tree."""
    first = trees[0]
    if isinstance(first, dict):
        return {key: _each(call, *(tree[key] for tree in trees)) for key in first}
    if isinstance(first, tuple):
        parts = [_each(call, *each) for each in zip(*trees, strict=True)]
        return type(first)(*parts) if hasattr(first, "_fields") else tuple(parts)
    return call(*trees)


def _named(name: str, tree: Any) -> list[tuple[str, npt.NDArray[Any]]]:
    """Return the arrays of a tree with names such as `prev.s['image']`."""
    if isinstance(tree, dict):
        parts = [(f"{name}[{key!r}]", part) for key, part in tree.items()]
    elif isinstance(tree, tuple):
        names = getattr(tree, "_fields", None)
        parts = [
            (f"{name}.{names[at]}".lstrip(".") if names else f"{name}[{at}]", part)
            for at, part in enumerate(tree)
        ]
    else:
        return [(name, tree)]
    return [each for part in parts for each in _named(*part)]
