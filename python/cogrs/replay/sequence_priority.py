"""Sequences in caches: which ones, and how errors of their steps become priorities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cogrs._core import cache_sequences, set_cache_sequences
from cogrs.replay.convert import sequence_errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from cogrs._core import ReplayMemory


class SequencePriority(NamedTuple):
    """How errors of the steps of a sequence become one.

    Fields:
        eta: Share of the largest error, the rest is the mean's.
        length: Steps that a sequence learns from.
    """

    eta: float
    length: int

    @classmethod
    def of(cls, memory: ReplayMemory) -> SequencePriority | None:
        """Return that of a memory whose caches hold sequences; None for another."""
        sequences = cache_sequences(memory)
        return None if sequences is None else cls(memory.sequence_eta, sequences["length"])

    def mixed(
        self, given: npt.NDArray[Any], mask: Any, rows: int
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64]]:
        """Return which rows have an error that counts, and the error of each of these.

        Raises:
            ValueError: Shapes differ, or an error that counts is negative or not finite.
            TypeError: The mask is not of bool.
        """
        errors, made = sequence_errors(given, mask, rows)
        if made is None:
            if errors.shape[1] != self.length:
                expected = f"shape ({rows}, {self.length}), or a mask"
                raise ValueError(f"priority: expected {expected}, got {errors.shape}")
            made = np.ones(errors.shape, np.bool_)
        counted = errors[made]
        if not (sound := np.isfinite(counted) & (counted >= 0)).all():
            raise ValueError(
                f"priority: expected finite numbers >= 0 in float32, got {counted[~sound][0]}"
            )
        counts = made.sum(1)
        kept = counts > 0
        errors = np.where(made, errors, 0.0)[kept]
        mean = errors.sum(1) / counts[kept]
        largest = errors.max(1, initial=0.0)
        return kept, self.eta * largest + (1 - self.eta) * mean


def learned_steps(memory: ReplayMemory) -> int:
    """Return the steps to learn from in a row of a memory's caches: 1 of transitions."""
    sequences = cache_sequences(memory)
    return 1 if sequences is None else int(sequences["length"])


def set_sequences(memory: ReplayMemory, given: Mapping[str, Any], *, nstep: bool) -> None:
    """Make the caches of a memory hold sequences, with `nstep` also their n-step returns.

    Raises:
        TypeError, ValueError: `given` does not name arguments of `sample_sequences`, or one of them
            is out of range; or `after` is below `multi_step` with `nstep`.
    """
    if not hasattr(given, "keys"):
        raise TypeError(f"sequences: expected a dict, got {type(given).__name__}")
    names = ("length", "burn_in", "after", "period", "border")
    for name in given:
        if name not in names:
            raise ValueError(f"sequences: expected {', '.join(names)}, got {name!r}")
    if "length" not in given:
        raise ValueError("sequences: expected a length, got none")
    set_cache_sequences(memory, **given, nstep=nstep)
