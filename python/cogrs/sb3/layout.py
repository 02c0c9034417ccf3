"""Observations of Stable-Baselines3 as states of a memory, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from cogrs.nested import apart, record_dtype

if TYPE_CHECKING:
    import numpy.typing as npt

_IMAGE_DIMS = 3
"""Dimensions of an image, whose first may be a stack of frames."""


class Layout:
    """How observations lie in a memory: as they are, as records, or as stacks of frames.

    Attributes:
        state: Template of the memory's state.
        stack: Frames of an observation, of which the memory stores each once.
        by_key: Whether observations are dicts.
    """

    def __init__(self, space: spaces.Space[Any], shape: Any, stack: int = 1) -> None:
        """Lay observations of a space out, whose arrays have this shape, or these by key."""
        self._shape = shape
        self.stack = stack
        self.by_key = isinstance(space, spaces.Dict)
        if isinstance(space, spaces.Dict):
            parts = {str(key): (_dtype(space[key]), shape[key]) for key in space}
            self.state: npt.NDArray[Any] = np.zeros((), record_dtype(parts))
        else:
            frame = (shape[0] // stack, *shape[1:]) if stack > 1 else shape
            self.state = np.zeros(frame, _dtype(space))

    def records(self, obs: Any, num_envs: int) -> npt.NDArray[Any]:
        """Return observations by key as records (num_envs,)."""
        rows = np.zeros(num_envs, self.state.dtype)
        for key, shape in self._shape.items():
            rows[key] = np.reshape(obs[key], (num_envs, *shape))
        return rows

    def shown(self, states: Any) -> Any:
        """Return stacked states of a batch (B, stack, ...) as observations, without a copy."""
        if isinstance(states, dict):
            return {key: part[:, 0] for key, part in states.items()}
        return states.reshape(len(states), *self._shape)

    def parts(self, records: npt.NDArray[Any]) -> Any:
        """Return records as observations by key, without a copy; other arrays as they are."""
        return apart(records) if self.by_key else records

    def stacks(self, obs: Any, next_obs: Any, done: Any) -> list[int]:
        """Return how many frames observations may consist of, whose successors these are.

        All frames but the oldest are also in the next observation, one place further; but where an
        episode ended, `next_obs` may be the first one of another.
        """
        if self.by_key or len(self._shape) != _IMAGE_DIMS:
            return [1]
        follow = np.asarray(done) == 0
        obs, next_obs = np.asarray(obs)[follow], np.asarray(next_obs)[follow]
        channels = self._shape[0]
        found = [1]
        for stack in range(2, channels + 1):
            size = channels // stack
            if channels % stack == 0 and np.array_equal(obs[:, size:], next_obs[:, :-size]):
                found.append(stack)
        return found


def _dtype(space: spaces.Space[Any]) -> np.dtype[Any]:
    return np.dtype(space.dtype)
