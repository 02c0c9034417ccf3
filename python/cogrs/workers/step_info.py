"""The info of a stored step: its trial, actor and tick."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

STEP_INFO: np.dtype[Any] = np.dtype(
    [("trial", "<u8"), ("actor", "<u4"), ("tick", "<i4"), ("terminated", "?")]
)
"""dtype of `info` in memories that `ActorWorker` fills.

Fields:
    trial: `trial_number` of the trial's id.
    actor: Position of the actor in the trial's list.
    tick: Tick of the observation.
    terminated: The state is terminal; only in the entry of a final state.
"""


@lru_cache(4096)
def trial_number(trial_id: str) -> int:
    """Return the number that stands for a trial in stored steps, 0 <= number < 2**64."""
    digest = hashlib.blake2b(trial_id.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def step_info(
    trial_id: str, actor: int, tick: int, *, terminated: bool = False
) -> npt.NDArray[Any]:
    """Return the info of a step: one value of `STEP_INFO`."""
    return np.array((trial_number(trial_id), actor, tick, terminated), STEP_INFO)
