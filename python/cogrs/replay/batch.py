"""Batches, samples and episodes: named tuples of arrays.

`rust/src/python/batch_kind.rs` makes them by position, from its table of these classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias, TypeVar, get_args

from cogrs.deprecation import renamed_argument, warn_renamed
from cogrs.replay.sequence_batch import (
    IdSequenceBatch,
    NStepIdSequenceBatch,
    NStepSequenceBatch,
    SequenceBatch,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from cogrs.replay.entry import Entry


class Batch(NamedTuple):
    """Transitions: `next` is `multi_step` steps after `prev` in the same episode.

    Where an episode with a final state ends before, `next` is that.

    Fields:
        prev: The step at which the action was taken.
        next: The step to which it led.
        weight: Sampling weight of prev, float32 (B,).
    """

    prev: Entry
    next: Entry
    weight: npt.NDArray[np.float32]


class IdBatch(NamedTuple):
    """A `Batch` of a server with `ids=True`, which tells the entry and the client of each row.

    Entries of two clients may have the same id, so id and sender go together.

    Fields:
        id: The id of prev's entry in its client's memory, uint64 (B,), below 2**63.
        sender: The uuid of that client, uint32 (B,).
    """

    prev: Entry
    next: Entry
    weight: npt.NDArray[np.float32]
    id: npt.NDArray[np.uint64]
    sender: npt.NDArray[np.uint32]

    @property
    def ids(self) -> npt.NDArray[np.uint64]:
        """The former name of `id`, deprecated."""
        warn_renamed("ids", "id")
        return self.id


class NStepBatch(NamedTuple):
    """A `Batch` of a server with `nstep=True`, for learners that bootstrap after n steps.

    Fields:
        nstep_return: As of `NStepSample`, float32 (B, *reward), by the client's settings when it
            drew the cache.
        nstep_discount: As of `NStepSample`, float32 (B, *reward).
    """

    prev: Entry
    next: Entry
    weight: npt.NDArray[np.float32]
    nstep_return: npt.NDArray[np.float32]
    nstep_discount: npt.NDArray[np.float32]


class NStepIdBatch(NamedTuple):
    """A batch of a server with `ids=True` and `nstep=True`: an `IdBatch` and an `NStepBatch`."""

    prev: Entry
    next: Entry
    weight: npt.NDArray[np.float32]
    id: npt.NDArray[np.uint64]
    sender: npt.NDArray[np.uint32]
    nstep_return: npt.NDArray[np.float32]
    nstep_discount: npt.NDArray[np.float32]

    @property
    def ids(self) -> npt.NDArray[np.uint64]:
        """The former name of `id`, deprecated."""
        warn_renamed("ids", "id")
        return self.id


# `ids` as a keyword argument; the body of a NamedTuple may not have these methods.
for _class in (IdBatch, NStepIdBatch):
    _take_ids = renamed_argument("ids", "id")
    _class.__new__ = staticmethod(_take_ids(_class.__new__))  # type: ignore[assignment]
    _class._replace = _take_ids(_class._replace)  # type: ignore[assignment,method-assign]


AnyBatch: TypeAlias = (
    Batch
    | IdBatch
    | NStepBatch
    | NStepIdBatch
    | SequenceBatch
    | IdSequenceBatch
    | NStepSequenceBatch
    | NStepIdSequenceBatch
)
"""The types that `get_batch` of a server may return."""

if TYPE_CHECKING:
    # At run time, only Python 3.13 and later know defaults.
    from typing_extensions import TypeVar as DefaultTypeVar

    BatchT = DefaultTypeVar(
        "BatchT",
        Batch,
        IdBatch,
        NStepBatch,
        NStepIdBatch,
        SequenceBatch,
        IdSequenceBatch,
        NStepSequenceBatch,
        NStepIdSequenceBatch,
        default=Batch,
    )
else:
    BatchT = TypeVar("BatchT", *get_args(AnyBatch))
"""The type that `get_batch` returns: a `Batch`, or with `ids=True` of the server an `IdBatch`, with
`nstep=True` an `NStepBatch`, with both an `NStepIdBatch`; with `sequences` a `SequenceBatch`,
`IdSequenceBatch`, ..."""


class Sample(NamedTuple):
    """A `Batch` with the columns for importance weights and for `update_priority`.

    Fields:
        id: The id of prev's entry, uint64 (B,).
        probability: weight / weight_sum before the draw, or as the sampler says, float64 (B,).
        next_terminated: Whether next is the final state of a terminated episode, bool (B,).
    """

    prev: Entry
    next: Entry
    weight: npt.NDArray[np.float32]
    id: npt.NDArray[np.uint64]
    probability: npt.NDArray[np.float64]
    next_terminated: npt.NDArray[np.bool_]

    @property
    def times_sampled(self) -> npt.NDArray[np.uint32]:
        """Of samples of a memory or view with `max_times_sampled`; else an AttributeError."""
        _missing_column(self, "times_sampled")


class NStepSample(NamedTuple):
    """A `Sample` for learners that bootstrap after n steps.

    n is `multi_step`, or as many steps as there are to the final state. The target of each row is
    `nstep_return + nstep_discount * V(next.state)`, for episodes that terminated and for truncated
    ones alike (Sutton and Barto, *Reinforcement Learning*, section 7.1).

    Fields:
        next: Where it led, n steps later: `multi_step`, or as many as there are to the final state.
        nstep_return: The sum over k < n of discount_factor ** k times the reward k steps after
            prev's, float32 (B, *reward), by the present discount_factor.
        nstep_discount: discount_factor ** n, and 0 where the episode terminated within the n steps,
            float32 (B, *reward).
    """

    prev: Entry
    next: Entry
    weight: npt.NDArray[np.float32]
    id: npt.NDArray[np.uint64]
    probability: npt.NDArray[np.float64]
    next_terminated: npt.NDArray[np.bool_]
    nstep_return: npt.NDArray[np.float32]
    nstep_discount: npt.NDArray[np.float32]

    @property
    def times_sampled(self) -> npt.NDArray[np.uint32]:
        """Of samples of a memory or view with `max_times_sampled`; else an AttributeError."""
        _missing_column(self, "times_sampled")


class WeightedSample(NamedTuple):
    """A `Sample` with importance weights, as of `sample(beta=...)`.

    Fields:
        importance_weight: (count * probability) ** -beta, divided by the largest, float32 (B,): the
            loss of each row is multiplied by it (Schaul et al. 2016, section 3.4).
    """

    prev: Entry
    next: Entry
    weight: npt.NDArray[np.float32]
    id: npt.NDArray[np.uint64]
    probability: npt.NDArray[np.float64]
    next_terminated: npt.NDArray[np.bool_]
    importance_weight: npt.NDArray[np.float32]

    @property
    def times_sampled(self) -> npt.NDArray[np.uint32]:
        """Of samples of a memory or view with `max_times_sampled`; else an AttributeError."""
        _missing_column(self, "times_sampled")


class NStepWeightedSample(NamedTuple):
    """An `NStepSample` with the importance weights of a `WeightedSample`.

    `sample(nstep_return=True, beta=...)` returns it.
    """

    prev: Entry
    next: Entry
    weight: npt.NDArray[np.float32]
    id: npt.NDArray[np.uint64]
    probability: npt.NDArray[np.float64]
    next_terminated: npt.NDArray[np.bool_]
    nstep_return: npt.NDArray[np.float32]
    nstep_discount: npt.NDArray[np.float32]
    importance_weight: npt.NDArray[np.float32]

    @property
    def times_sampled(self) -> npt.NDArray[np.uint32]:
        """Of samples of a memory or view with `max_times_sampled`; else an AttributeError."""
        _missing_column(self, "times_sampled")


class CountedSample(NamedTuple):
    """A `Sample` of a memory or view with `max_times_sampled`.

    Fields:
        times_sampled: How often prev's entry was given, this time included, uint32 (B,).
    """

    prev: Entry
    next: Entry
    weight: npt.NDArray[np.float32]
    id: npt.NDArray[np.uint64]
    probability: npt.NDArray[np.float64]
    next_terminated: npt.NDArray[np.bool_]
    times_sampled: npt.NDArray[np.uint32]


class NStepCountedSample(NamedTuple):
    """An `NStepSample` with the counts of a `CountedSample`."""

    prev: Entry
    next: Entry
    weight: npt.NDArray[np.float32]
    id: npt.NDArray[np.uint64]
    probability: npt.NDArray[np.float64]
    next_terminated: npt.NDArray[np.bool_]
    nstep_return: npt.NDArray[np.float32]
    nstep_discount: npt.NDArray[np.float32]
    times_sampled: npt.NDArray[np.uint32]


class CountedWeightedSample(NamedTuple):
    """A `WeightedSample` with the counts of a `CountedSample`."""

    prev: Entry
    next: Entry
    weight: npt.NDArray[np.float32]
    id: npt.NDArray[np.uint64]
    probability: npt.NDArray[np.float64]
    next_terminated: npt.NDArray[np.bool_]
    times_sampled: npt.NDArray[np.uint32]
    importance_weight: npt.NDArray[np.float32]


class NStepCountedWeightedSample(NamedTuple):
    """An `NStepWeightedSample` with the counts of a `CountedSample`."""

    prev: Entry
    next: Entry
    weight: npt.NDArray[np.float32]
    id: npt.NDArray[np.uint64]
    probability: npt.NDArray[np.float64]
    next_terminated: npt.NDArray[np.bool_]
    nstep_return: npt.NDArray[np.float32]
    nstep_discount: npt.NDArray[np.float32]
    times_sampled: npt.NDArray[np.uint32]
    importance_weight: npt.NDArray[np.float32]


class Episode(NamedTuple):
    """A closed episode of T entries, read back.

    Fields:
        entries: All fields, the final state's entry included.
        weight: Sampling weights, float32 (T,); 0 at the borders.
        id: Ids, uint64 (T,).
        truncated: Whether it was closed with a bootstrap value.
        has_final_state: Whether the last entry is the final state.
    """

    entries: Entry
    weight: npt.NDArray[np.float32]
    id: npt.NDArray[np.uint64]
    truncated: bool
    has_final_state: bool


_OPTIONS = {
    "nstep_return": "sample with nstep_return=True",
    "nstep_discount": "sample with nstep_return=True",
    "importance_weight": "sample with beta=0.4",
    "times_sampled": "set max_times_sampled of the memory or view",
}


def _missing_column(batch: Any, name: str) -> NoReturn:
    text = f"{type(batch).__name__!r} object has no attribute {name!r}"
    if name in _OPTIONS:
        text += f": {_OPTIONS[name]}"
    raise AttributeError(text, name=name, obj=batch)


if not TYPE_CHECKING:  # type checkers would take any attribute
    for _class in (
        Sample,
        NStepSample,
        WeightedSample,
        NStepWeightedSample,
        CountedSample,
        NStepCountedSample,
        CountedWeightedSample,
    ):
        _class.__getattr__ = _missing_column
