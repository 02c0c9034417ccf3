"""An episode on its way into a data set, and values of spaces as its arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cogrs.nested import apart
from cogrs.replay.convert import convert
from cogrs.replay.spaces import template
from cogrs.spaces import parts_of

if TYPE_CHECKING:
    import numpy.typing as npt


class DatasetEpisode(NamedTuple):
    """An episode of T actions.

    Fields:
        observations: T + 1 of them; a dict or tuple of arrays where the space is a Dict or a Tuple.
        actions: T of them, likewise.
        rewards: (T,), or (T, R) of a memory with R rewards.
        terminated: Whether the environment said that the last observation is terminal.
        infos: Arrays of T + 1 rows.
        metadata: Of the episode: text and numbers.
    """

    observations: Any
    actions: Any
    rewards: npt.NDArray[Any]
    terminated: bool
    infos: dict[str, npt.NDArray[Any]]
    metadata: dict[str, Any]

    def arrays(self) -> dict[str, Any]:
        """Return the fields of Minari's `EpisodeBuffer`."""
        length = len(self.rewards)
        terminations, truncations = np.zeros(length, bool), np.zeros(length, bool)
        (terminations if self.terminated else truncations)[-1] = True
        return {
            "observations": self.observations,
            "actions": self.actions,
            "rewards": self.rewards,
            "terminations": terminations,
            "truncations": truncations,
            "infos": self.infos,
        }


def as_of(space: Any, values: Any, name: str) -> Any:
    """Return rows of values as arrays of a space's own dtypes.

    Args:
        space: The space.
        values: An array of rows; a dict or tuple of such arrays for a Dict or Tuple.
        name: Their name in errors.

    Raises:
        TypeError: A dtype cannot be converted by the 'same_kind' rule.
        ValueError: A shape or a key differs, or a choice by number is not in the space.
    """
    parts = parts_of(space)
    if parts is None:
        return _column(space, values, name)
    keys = list(parts) if isinstance(parts, dict) else list(range(len(parts)))
    if type(values) is not type(parts) or len(values) != len(parts):
        raise ValueError(f"{name}: expected values of {space}, got {type(values).__name__}")
    if isinstance(parts, dict) and set(values) != set(parts):
        expected, got = ", ".join(map(repr, parts)), ", ".join(map(repr, values))
        raise ValueError(f"{name}: expected keys {expected}, got {got}")
    made = [as_of(parts[key], values[key], f"{name}[{key!r}]") for key in keys]
    return dict(zip(keys, made, strict=True)) if isinstance(parts, dict) else tuple(made)


def _column(space: Any, values: Any, name: str) -> npt.NDArray[Any]:
    dtype = np.dtype(space.dtype)
    made = convert(name, values, dtype, (len(values), *space.shape))
    if dtype.kind == "f" and values.dtype != dtype and np.any(made != values):
        first = values[(made != values) & ~np.isnan(values)]
        if first.size:
            raise ValueError(f"{name}: expected values that {dtype} holds, got {first.flat[0]!r}")
    if hasattr(space, "nvec") or hasattr(space, "n"):
        start = getattr(space, "start", 0)
        most = space.nvec if hasattr(space, "nvec") else 2 if space.shape else space.n
        # MultiBinary has a shape and no start.
        wrong = (made < start) | (made >= np.asarray(start) + most)
        if wrong.any():
            raise ValueError(f"{name}: expected values of {space}, got {made[wrong].flat[0]}")
    return made


def check_fits(name: str, space: Any, own: npt.NDArray[Any]) -> None:
    """Refuse a space whose values do not fit a memory's field, with the difference in the error.

    Raises:
        TypeError: The space is not one of arrays, or their dtype cannot be converted.
        ValueError: A shape or a key differs.
    """
    made = apart(template(space, name))
    if isinstance(made, (dict, tuple)) and own.dtype.names is None:
        raise ValueError(f"{name}: expected {own.dtype} {own.shape}, got {space}")
    convert(name, made, own.dtype, own.shape)
