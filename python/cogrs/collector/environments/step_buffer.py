"""Arrays that carry moves of environments out and their outcomes back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from cogrs.action_mask import ACTION_MASK
from cogrs.collector.description import REWARDS
from cogrs.collector.environments.outcome import reward_of
from cogrs.conversion import convert

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from cogrs.collector.environments.spaces import EnvSpaces

    Array = npt.NDArray[Any]


OWN_ARRAYS = 7
"""Arrays of a step buffer beside those of keys."""

OWN_BYTES = 8 + 8 + 8 + 1 + 4 + 4
"""Bytes of a row in these, without the action."""

GOES_ON = 4

_NO_REWARD = object()
"""In the place of the reward of a first state."""


@dataclass(frozen=True)
class StepBuffer:
    """Arrays that an env worker shares with the core; row k belongs to the k-th game to move.

    Attributes:
        games: int64: the game that the row belongs to.
        seeds: int64: the seed of the episode to begin, or -1 for a step.
        actions: The actions to take.
        rewards: float64: the rewards of those actions.
        ends: uint8: 0 not over, 1 terminated, 2 truncated; `GOES_ON` more where only the episode of
            the row's player is over.
        players: int32: the agents that the rows are for, by number.
        seqs: int32: states of this agent before this one.
        keys: The parts of the states, by key.
    """

    games: Array
    seeds: Array
    actions: Array
    rewards: Array
    ends: Array
    players: Array
    seqs: Array
    keys: Mapping[str, Array]

    @classmethod
    def of(cls, arrays: Sequence[Array], keys: Sequence[str]) -> StepBuffer:
        """Return a step buffer over the core's arrays, those of these keys last."""
        games, seeds, actions, rewards, ends, players, seqs = arrays[:OWN_ARRAYS]
        shown = dict(zip(keys, arrays[OWN_ARRAYS:], strict=True))
        return cls(games, seeds, actions, rewards, ends, players, seqs, shown)


class ObservationWriter:
    """Writes observations into rows of arrays: `show(row, observation, info)`.

    That raises a ValueError for an observation whose shape differs from the space's or whose values
    do not fit its dtype, and a TypeError for another kind of observation.
    """

    def __init__(self, spaces: EnvSpaces, keys: Mapping[str, Array]) -> None:
        """Write the parts whose keys have arrays."""
        self._parts = [
            (part.path, (_text_writer if part.is_text else _writer)(part.key, keys[part.key]))
            for part in spaces.parts
            if part.key in keys
        ]
        self._infos = [
            (info, keys[info.key], _writer(info.key, keys[info.key]))
            for info in spaces.infos
            if info.key in keys
        ]
        # Writes a reward that is a vector, zeros without one, and returns a number in its place.
        # None where rewards are numbers.
        shape = spaces.reward_shape
        self.pay = partial(_pay, keys.get(REWARDS), shape) if shape else None
        shown = {part.key for part in spaces.parts}
        self._mask = keys.get(ACTION_MASK) if ACTION_MASK not in shown else None
        self._mask_layout = spaces.mask
        plain = self._mask is None and not self._infos and [path for path, _ in self._parts] == [()]
        self.show = self._parts[0][1] if plain else self._show

    def _show(self, row: int, shown: Any, info: Any) -> None:
        for path, write in self._parts:
            value = shown
            for key in path:
                value = value[key]
            write(row, value, info)
        if self._mask is not None and self._mask_layout is not None:
            self._mask[row] = self._mask_layout.flatten(info.get(ACTION_MASK))
        for key_of_info, array, write in self._infos:
            value = key_of_info.find(info)
            if value is None:
                array[row] = 0
            else:
                write(row, value, info)


def _pay(array: Array | None, shape: tuple[int, ...], row: int, reward: Any = _NO_REWARD) -> float:
    vector = 0 if reward is _NO_REWARD else reward_of(reward, shape)
    if array is not None:
        array[row] = vector
    return 0.0


def _text_writer(key: str, array: Array) -> Callable[[int, Any, Any], None]:
    length = array.shape[1]

    def write(row: int, value: Any, _info: Any) -> None:
        if not isinstance(value, str):
            raise TypeError(f"{key}: expected text, got {type(value).__name__}")
        if len(value) > length:
            raise ValueError(f"{key}: expected at most {length} characters, got {len(value)}")
        codes = np.frombuffer(value.encode("utf-32-le", "surrogatepass"), "<u4")
        array[row] = 0
        array[row, : len(codes)] = codes

    return write


def _writer(key: str, array: Array) -> Callable[[int, Any, Any], None]:
    dtype, shape = array.dtype, array.shape[1:]
    numbers = (int, dtype.type) if shape == () and dtype.kind in "iu" else ()
    ndarray = np.ndarray

    def write(row: int, value: Any, _info: Any) -> None:
        kind = type(value)
        if kind is ndarray:
            fits = value.shape == shape and (value.dtype is dtype or value.dtype == dtype)
        else:
            fits = kind in numbers
        array[row] = value if fits else convert(key, value, dtype, shape)

    return write
