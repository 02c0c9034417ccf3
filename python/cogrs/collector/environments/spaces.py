"""Spaces of Gymnasium as keys of a game."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cogrs.action_mask import ACTION_MASK, MaskLayout
from cogrs.collector.description import RESERVED, GameSpec
from cogrs.collector.environments.factory import gymnasium_module
from cogrs.dtypes import dtype_of, dtype_text
from cogrs.spaces import array_of, parts_of

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True)
class Leaf:
    """One array of an observation.

    Attributes:
        key: Its key in a batch.
        path: How to get there from the observation: keys of dicts, positions in tuples.
        dtype: The dtype's text.
        shape: Its shape.
    """

    key: str
    path: tuple[str | int, ...]
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Spaces:
    """What an environment takes and shows.

    Attributes:
        leaves: The arrays of an observation.
        dtype: dtype of an action, as text.
        shape: Shape of an action.
        num_action: Actions to choose from, or the length of one.
        start: The first of numbered actions.
        count: How many numbered actions there are; 0 where they are not numbered.
        mask: The layout of `info["action_mask"]`; None if the action space takes no mask.
    """

    leaves: tuple[Leaf, ...]
    dtype: str
    shape: tuple[int, ...]
    num_action: int
    start: int = 0
    count: int = 0
    mask: MaskLayout | None = None

    def game(self) -> GameSpec:
        """The same as a game's description."""
        keys = {leaf.key: (dtype_of(leaf.dtype), leaf.shape) for leaf in self.leaves}
        if self.mask is not None:
            keys.setdefault(ACTION_MASK, (np.dtype(np.int8), (self.mask.size,)))
        action = (dtype_of(self.dtype), self.shape)
        return GameSpec(keys, action, self.num_action, ("player",))

    def illegal(self, actions: npt.NDArray[Any]) -> dict[int, str]:
        """Rows whose action is no number of the space, and what to say of each."""
        if not self.count:
            return {}
        end = self.start + self.count
        wrong = np.flatnonzero((actions < self.start) | (actions >= end))
        expected = f"a: expected an integer in [{self.start}, {end})"
        return {row: f"{expected}, got {actions[row]}" for row in wrong.tolist()}

    def as_json(self) -> dict[str, Any]:
        """The same for another process."""
        return asdict(self)

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Spaces:
        """What `as_json` gave, after a way through JSON."""
        leaves = [
            Leaf(each["key"], tuple(each["path"]), each["dtype"], tuple(each["shape"]))
            for each in given.pop("leaves")
        ]
        mask = given.pop("mask")
        layout = None if mask is None else MaskLayout.from_json(mask)
        return cls(tuple(leaves), shape=tuple(given.pop("shape")), mask=layout, **given)


def spaces_of(env: Any) -> Spaces:
    """What an environment takes and shows.

    Raises:
        TypeError: It has no spaces of Gymnasium, or some that are no arrays.
        ValueError: A key of a Dict space is that of something else in a batch, or two parts of the
            observation space have the same key.
    """
    for name in ("reset", "step", "observation_space", "action_space"):
        if not hasattr(env, name):
            got = type(env).__name__
            raise TypeError(f"env: expected an environment of Gymnasium, got {got} without {name}")
    leaves = _leaves(env.observation_space, ())
    _refuse_collisions(leaves)
    for leaf in leaves:
        if leaf.key in RESERVED or leaf.key.startswith("_"):
            raise ValueError(
                f"observation_space: {leaf.key!r} means something else in a batch, rename it"
            )
    return Spaces(tuple(leaves), **_action(env.action_space))


def _leaves(space: Any, path: tuple[str | int, ...]) -> list[Leaf]:
    parts = parts_of(space)
    if parts is not None:
        named = parts.items() if isinstance(parts, dict) else enumerate(parts)
        return [leaf for key, part in named for leaf in _leaves(part, (*path, key))]
    dtype, shape = array_of(space, f"observation_space{_described(path)}")
    return [Leaf(".".join(map(str, path)) or "s", path, dtype_text(dtype), shape)]


def _refuse_collisions(leaves: list[Leaf]) -> None:
    known: dict[str, Leaf] = {}
    for leaf in leaves:
        first = known.setdefault(leaf.key, leaf)
        if first is not leaf:
            raise ValueError(
                "observation_space: expected parts with different keys, got "
                f"{_described(first.path)} and {_described(leaf.path)}, which are both "
                f"{leaf.key!r} in a batch: rename one"
            )


def _described(path: tuple[str | int, ...]) -> str:
    return "".join(f"[{part!r}]" for part in path)


def _action(space: Any) -> dict[str, Any]:
    spaces = gymnasium_module().spaces
    if isinstance(space, spaces.Discrete):
        count = int(space.n)
        numbers = {"num_action": count, "start": int(space.start), "count": count}
        kind = {"dtype": np.dtype(np.int64).str, "shape": (), **numbers}
        return {**kind, "mask": MaskLayout.of(space)}
    kind = {"dtype": dtype_text(np.dtype(space.dtype)) if space.dtype else "", "shape": space.shape}
    if isinstance(space, spaces.MultiDiscrete):
        return {**kind, "num_action": int(np.sum(space.nvec)), "mask": MaskLayout.of(space)}
    if isinstance(space, spaces.MultiBinary):
        return {**kind, "num_action": math.prod(space.shape), "mask": MaskLayout.of(space)}
    if isinstance(space, spaces.Box):
        return {**kind, "num_action": math.prod(space.shape)}
    raise TypeError(
        f"action_space: expected Discrete, MultiDiscrete, MultiBinary or Box, got {space}"
    )


def dumped(value: Any) -> bytes:
    """A line of JSON."""
    return json.dumps(value).encode() + b"\n"
