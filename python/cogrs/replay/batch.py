"""What a replay memory gives back: named tuples of arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Entry(NamedTuple):
    """The seven fields of entries, one row each; every field has a long name too.

    In a batch of B rows `s` has shape (B, frame_stack, *state), the others (B, *field). In an
    episode of T entries every field has shape (T, *field).

    Fields:
        s: State, the template's dtype.
        a: Action, the template's dtype.
        r: Reward, float32, undiscounted.
        p: Probability of the action, float32.
        v: Value, float32.
        q: Multi-step return, float32.
        i: Info, the template's dtype.
    """

    s: npt.NDArray[Any]
    a: npt.NDArray[Any]
    r: npt.NDArray[np.float32]
    p: npt.NDArray[np.float32]
    v: npt.NDArray[np.float32]
    q: npt.NDArray[np.float32]
    i: npt.NDArray[Any]

    @property
    def state(self) -> npt.NDArray[Any]:
        """`s`."""
        return self.s

    @property
    def action(self) -> npt.NDArray[Any]:
        """`a`."""
        return self.a

    @property
    def reward(self) -> npt.NDArray[np.float32]:
        """`r`."""
        return self.r

    @property
    def prob(self) -> npt.NDArray[np.float32]:
        """`p`."""
        return self.p

    @property
    def value(self) -> npt.NDArray[np.float32]:
        """`v`."""
        return self.v

    @property
    def qvest(self) -> npt.NDArray[np.float32]:
        """`q`."""
        return self.q

    @property
    def info(self) -> npt.NDArray[Any]:
        """`i`."""
        return self.i


class Batch(NamedTuple):
    """Transitions: `next` is `multi_step` steps after `prev` in the same episode.

    Fields:
        prev: Where the action was taken.
        next: Where it led.
        weight: Sampling weight of prev, float32 (B,).
    """

    prev: Entry
    next: Entry
    weight: npt.NDArray[np.float32]


class IdBatch(NamedTuple):
    """A batch of a server with `ids=True`: it says which entry of whose memory each row is.

    Two clients may have given the same id to entries of theirs, so it goes with the sender.

    Fields:
        prev: Where the action was taken.
        next: Where it led.
        weight: Sampling weight of prev, float32 (B,).
        ids: The id of prev's entry in its client's memory, uint64 (B,), below 2**63.
        sender: The uuid of that client, uint32 (B,).
    """

    prev: Entry
    next: Entry
    weight: npt.NDArray[np.float32]
    ids: npt.NDArray[np.uint64]
    sender: npt.NDArray[np.uint32]


if TYPE_CHECKING:
    # At run time, only Python 3.13 and later know defaults.
    from typing_extensions import TypeVar as DefaultTypeVar

    BatchT = DefaultTypeVar("BatchT", Batch, IdBatch, default=Batch)
else:
    BatchT = TypeVar("BatchT", Batch, IdBatch)
"""What `get_batch` returns: an `IdBatch` where the server has `ids=True`, else a `Batch`."""


class Sample(NamedTuple):
    """A batch with what is needed to weigh its rows and to send their errors back.

    Fields:
        prev: Where the action was taken.
        next: Where it led.
        weight: Sampling weight of prev, float32 (B,).
        id: The id of prev's entry, uint64 (B,).
        probability: weight / weight_sum at the draw, float64 (B,).
        next_terminated: Whether next is the final state of a terminated episode, bool (B,).
    """

    prev: Entry
    next: Entry
    weight: npt.NDArray[np.float32]
    id: npt.NDArray[np.uint64]
    probability: npt.NDArray[np.float64]
    next_terminated: npt.NDArray[np.bool_]


class NStepSample(NamedTuple):
    """A `Sample` for learners that bootstrap after `multi_step` steps.

    Their target is nstep_return + discount_factor ** multi_step * V(next.state), without the second
    term where next_terminated (Sutton and Barto, *Reinforcement Learning*, section 7.1).

    Fields:
        prev: Where the action was taken.
        next: Where it led, `multi_step` steps later.
        weight: Sampling weight of prev, float32 (B,).
        id: The id of prev's entry, uint64 (B,).
        probability: weight / weight_sum at the draw, float64 (B,).
        next_terminated: Whether next is the final state of a terminated episode, bool (B,).
        nstep_return: The sum over k < multi_step of discount_factor ** k times the reward k steps
            after prev's, float32 (B, *reward), by the present discount_factor.
    """

    prev: Entry
    next: Entry
    weight: npt.NDArray[np.float32]
    id: npt.NDArray[np.uint64]
    probability: npt.NDArray[np.float64]
    next_terminated: npt.NDArray[np.bool_]
    nstep_return: npt.NDArray[np.float32]


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
