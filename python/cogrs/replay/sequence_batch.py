"""Samples of sequences: named tuples of arrays.

`rust/src/python/sequence_plan.rs` makes them by position, from its table of these classes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from cogrs.replay.entry import Entry


class Sequences(NamedTuple):
    """n sequences of T steps: burn-in, learned steps, and steps after those.

    T is burn_in + length + after, and recurrent_period - 1 more. The first learned step, the
    anchor, stands at index burn_in + recurrent_period - 1, unless border="shift" moved the window;
    `learn` says where. Rows that hold no step of the episode repeat the nearest one's record.
    `array.swapaxes(0, 1)` is a time-major view.

    Fields:
        steps: The seven fields, each (n, T, *field), and the state (n, T, frame_stack, *state). A
            stack that begins before its episode repeats the first frame, or has zeros with
            frame_padding="zero".
        valid: Whether the row is a step of the episode, bool (n, T).
        learn: Whether it is a step to learn from, bool (n, T): an action of the learned part.
        is_first: Whether it is step 0 of its episode, bool (n, T).
        terminated: Whether its action ended the episode in a terminal state, bool (n, T).
        truncated: Whether the episode was cut off after its action, bool (n, T).
        recurrent: The recurrent state before the first valid step, (n, *recurrent) of its
            template's dtype; float32 (n, 0) where the memory stores none.
        id: The entry's id, uint64 (n, T); of rows that are not valid that of the record repeated.
        anchor_id: The id of the first learned step, for `update_priority`, uint64 (n,).
        weight: Sampling weight of the anchor, float32 (n,).
        probability: Probability of each draw, float64 (n,).
    """

    steps: Entry
    valid: npt.NDArray[np.bool_]
    learn: npt.NDArray[np.bool_]
    is_first: npt.NDArray[np.bool_]
    terminated: npt.NDArray[np.bool_]
    truncated: npt.NDArray[np.bool_]
    recurrent: npt.NDArray[Any]
    id: npt.NDArray[np.uint64]
    anchor_id: npt.NDArray[np.uint64]
    weight: npt.NDArray[np.float32]
    probability: npt.NDArray[np.float64]


class NStepSequences(NamedTuple):
    """`Sequences` with n-step returns, as of `sample_sequences(nstep_return=True)`.

    The target of a learned step at index i is `nstep_return + nstep_discount * V`, with V the value
    of the state at index min(i + multi_step, T - 1): rows behind an episode repeat its final state.

    Fields:
        nstep_return: The sum over k < m of discount_factor ** k times the reward k steps later,
            float32 (n, T, *reward), where m is multi_step, or fewer at the end of the episode; 0
            where `learn` is False. If the episode was truncated without a final state within them,
            the value that it was closed with is part of the sum.
        nstep_discount: discount_factor ** m, float32 (n, T, *reward); 0 where the episode
            terminated within the m steps, or its last value is part of the sum.
    """

    steps: Entry
    valid: npt.NDArray[np.bool_]
    learn: npt.NDArray[np.bool_]
    is_first: npt.NDArray[np.bool_]
    terminated: npt.NDArray[np.bool_]
    truncated: npt.NDArray[np.bool_]
    recurrent: npt.NDArray[Any]
    id: npt.NDArray[np.uint64]
    anchor_id: npt.NDArray[np.uint64]
    weight: npt.NDArray[np.float32]
    probability: npt.NDArray[np.float64]
    nstep_return: npt.NDArray[np.float32]
    nstep_discount: npt.NDArray[np.float32]


class WeightedSequences(NamedTuple):
    """`Sequences` with importance weights, as of `sample_sequences(beta=...)`.

    Fields:
        importance_weight: (count * probability) ** -beta, divided by the largest, float32 (n,),
            where count is the number of anchors with a weight above 0.
    """

    steps: Entry
    valid: npt.NDArray[np.bool_]
    learn: npt.NDArray[np.bool_]
    is_first: npt.NDArray[np.bool_]
    terminated: npt.NDArray[np.bool_]
    truncated: npt.NDArray[np.bool_]
    recurrent: npt.NDArray[Any]
    id: npt.NDArray[np.uint64]
    anchor_id: npt.NDArray[np.uint64]
    weight: npt.NDArray[np.float32]
    probability: npt.NDArray[np.float64]
    importance_weight: npt.NDArray[np.float32]


class NStepWeightedSequences(NamedTuple):
    """`NStepSequences` with the importance weights of `WeightedSequences`."""

    steps: Entry
    valid: npt.NDArray[np.bool_]
    learn: npt.NDArray[np.bool_]
    is_first: npt.NDArray[np.bool_]
    terminated: npt.NDArray[np.bool_]
    truncated: npt.NDArray[np.bool_]
    recurrent: npt.NDArray[Any]
    id: npt.NDArray[np.uint64]
    anchor_id: npt.NDArray[np.uint64]
    weight: npt.NDArray[np.float32]
    probability: npt.NDArray[np.float64]
    nstep_return: npt.NDArray[np.float32]
    nstep_discount: npt.NDArray[np.float32]
    importance_weight: npt.NDArray[np.float32]


class SequenceBatch(NamedTuple):
    """Sequences out of caches, as of `get_batch` of a server with `sequences`: see `Sequences`."""

    steps: Entry
    valid: npt.NDArray[np.bool_]
    learn: npt.NDArray[np.bool_]
    is_first: npt.NDArray[np.bool_]
    terminated: npt.NDArray[np.bool_]
    truncated: npt.NDArray[np.bool_]
    recurrent: npt.NDArray[Any]
    id: npt.NDArray[np.uint64]
    anchor_id: npt.NDArray[np.uint64]
    weight: npt.NDArray[np.float32]


class IdSequenceBatch(NamedTuple):
    """A `SequenceBatch` of a server with `ids=True`.

    Fields:
        sender: The uuid of the client of each sequence, uint32 (n,); `anchor_id` is of its memory.
    """

    steps: Entry
    valid: npt.NDArray[np.bool_]
    learn: npt.NDArray[np.bool_]
    is_first: npt.NDArray[np.bool_]
    terminated: npt.NDArray[np.bool_]
    truncated: npt.NDArray[np.bool_]
    recurrent: npt.NDArray[Any]
    id: npt.NDArray[np.uint64]
    anchor_id: npt.NDArray[np.uint64]
    weight: npt.NDArray[np.float32]
    sender: npt.NDArray[np.uint32]


class NStepSequenceBatch(NamedTuple):
    """A `SequenceBatch` of a server with `nstep=True`: see `NStepSequences`."""

    steps: Entry
    valid: npt.NDArray[np.bool_]
    learn: npt.NDArray[np.bool_]
    is_first: npt.NDArray[np.bool_]
    terminated: npt.NDArray[np.bool_]
    truncated: npt.NDArray[np.bool_]
    recurrent: npt.NDArray[Any]
    id: npt.NDArray[np.uint64]
    anchor_id: npt.NDArray[np.uint64]
    weight: npt.NDArray[np.float32]
    nstep_return: npt.NDArray[np.float32]
    nstep_discount: npt.NDArray[np.float32]


class NStepIdSequenceBatch(NamedTuple):
    """A batch of sequences of a server with `ids=True` and `nstep=True`."""

    steps: Entry
    valid: npt.NDArray[np.bool_]
    learn: npt.NDArray[np.bool_]
    is_first: npt.NDArray[np.bool_]
    terminated: npt.NDArray[np.bool_]
    truncated: npt.NDArray[np.bool_]
    recurrent: npt.NDArray[Any]
    id: npt.NDArray[np.uint64]
    anchor_id: npt.NDArray[np.uint64]
    weight: npt.NDArray[np.float32]
    sender: npt.NDArray[np.uint32]
    nstep_return: npt.NDArray[np.float32]
    nstep_discount: npt.NDArray[np.float32]
