"""Memories for tests of sequences: step k of an episode has its first number + k in every field."""

from typing import Any

import numpy as np

from cogrs import ReplayMemory

F = np.float32
INITIAL = np.array([-7], np.float64)
"""A recurrent state before the first step."""


def memory(capacity: int = 400, **options: Any) -> ReplayMemory:
    templates = np.zeros(2, F), np.int64(0), F(0), F(0), F(0), F(0), np.zeros(0, F)
    return ReplayMemory(*templates, capacity, **{"seed": 3} | options)


def episode(
    rem: ReplayMemory, actions: int, first: int = 0, final: bool = True, **close: Any
) -> int:
    """Add an episode whose step k has first + k in every field; return the id of its first step."""
    numbers = np.arange(first, first + actions)
    state = np.stack([numbers, numbers], 1).astype(F)
    extra = {}
    if rem.recurrent is not None:
        extra["recurrent"] = numbers.astype(rem.recurrent.dtype)[:, None]
    if final:
        close["final_state"] = np.full(2, first + actions, F)
    fields = {"action": numbers, "reward": numbers.astype(F), "prob": np.ones(actions, F)}
    return rem.add_episode(
        state=state,
        value=np.zeros(actions, F),
        info=np.zeros((actions, 0), F),
        init_w=1.0,
        **fields,
        **extra,
        **close,
    )
