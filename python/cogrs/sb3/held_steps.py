"""What a buffer holds, in the order of time, for callers that look into it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from cogrs._core import TransitionWriter
    from cogrs.sb3.layout import Layout

_END_BITS = 2
"""Bits of an entry's info below its number: whether an episode ended, and was truncated."""


class HeldSteps(NamedTuple):
    """The newest steps that a memory has of all environments, (steps, num_envs, ...) each.

    Attributes:
        first: How many steps of each environment were added before.
        observations: Arrays, or dicts of arrays; None where they were not asked for.
        next_observations: Likewise, one step later.
        actions: Actions.
        rewards: Rewards of one step.
        dones: Whether the episode ended.
        timeouts: Whether it was truncated.
    """

    first: int
    observations: Any
    next_observations: Any
    actions: npt.NDArray[Any]
    rewards: npt.NDArray[np.float32]
    dones: npt.NDArray[np.float32]
    timeouts: npt.NDArray[np.float32]


def held_steps(
    writer: TransitionWriter, layout: Layout, num_envs: int, most: int, *, observations: bool
) -> HeldSteps:
    """Return at most `most` of the newest steps of each environment."""
    held: Any = writer.held(observations=observations)
    numbers = held.prev.i >> _END_BITS
    calls, envs = np.divmod(numbers.astype(np.int64), num_envs)
    oldest = np.full(num_envs, writer.added)
    np.minimum.at(oldest, envs, calls)
    # Each environment has all steps from its oldest on.
    first = max(int(oldest.max()), writer.added - most)
    order = np.argsort(numbers, kind="stable")
    order = order[calls[order] >= first]

    def ordered(part: Any) -> Any:
        return part[order].reshape(writer.added - first, num_envs, *part.shape[1:])

    ends = ordered(held.prev.i)
    obs, next_obs = (
        mapped(ordered, layout.shown(end.s)) if observations else None for end in held[:2]
    )
    done, timeout = ((ends >> np.uint64(bit) & np.uint64(1)).astype(np.float32) for bit in (0, 1))
    actions, rewards = ordered(held.prev.a), ordered(held.prev.r)
    return HeldSteps(first, obs, next_obs, actions, rewards, done, timeout)


def placed(part: Any, first: int, size: int) -> Any:
    """Return rows of a ring of `size` rows: row t, counted from `first`, lies at t % size."""

    def ring(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        made = np.zeros((size, *rows.shape[1:]), rows.dtype)
        made[np.arange(first, first + len(rows)) % size] = rows
        return made

    return mapped(ring, part)


def mapped(function: Any, part: Any) -> Any:
    """Apply a function to an array, or to each of a dict."""
    if isinstance(part, dict):
        return {key: function(each) for key, each in part.items()}
    return function(part)
