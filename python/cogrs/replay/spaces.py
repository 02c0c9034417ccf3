"""Memories for the spaces of Gymnasium environments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from cogrs._core import ReplayMemory
from cogrs.nested import record_dtype
from cogrs.spaces import array_of, parts_of, reward_shape_of

if TYPE_CHECKING:
    import numpy.typing as npt

    Part = tuple[np.dtype[Any], tuple[int, ...]]

_NAMES = {"gamma": "discount_factor", "n_step": "multi_step", "alpha": "priority_exponent"}
"""Usual names of settings, and the memory's names."""
_ARGUMENTS = {
    "max_step": "capacity",
    "state_buf": "observation_space",
    "action_buf": "action_space",
    "reward_buf": "reward_space",
}
"""Arguments of the constructor, and the arguments of `from_spaces` that give them."""
_DEFAULTS: dict[str, Any] = {
    "discount_factor": 0.99,
    "multi_step": 1,
    "priority_exponent": 0.6,
    "priority_epsilon": 1e-3,
    "new_priority": "max",
    "frame_padding": "repeat",
}

_SPACES: WeakKeyDictionary[ReplayMemory, tuple[Any, Any]] = WeakKeyDictionary()
"""Spaces of observations and actions of the memories that were made for them."""


def from_spaces(
    observation_space: Any, action_space: Any, capacity: int, **settings: Any
) -> ReplayMemory:
    """See `ReplayMemory.from_spaces`."""
    return _made(observation_space, action_space, (), capacity, settings)


def _made(
    observation_space: Any,
    action_space: Any,
    reward_shape: tuple[int, ...],
    capacity: int,
    settings: dict[str, Any],
) -> ReplayMemory:
    state = template(observation_space, "observation_space")
    action = template(action_space, "action_space")
    reward, prob, empty = np.zeros(reward_shape, np.float32), np.float32(0), np.zeros(0, np.float32)
    given = {}
    for name, value in settings.items():
        own = _NAMES.get(name, name)
        if own in given:
            usual = next(usual for usual, long in _NAMES.items() if long == own)
            raise TypeError(f"{name}: expected only one of {usual} and {own}, got both")
        given[own] = value
    try:
        made = ReplayMemory(
            *(state, action, reward, prob, reward, reward, empty), capacity, **_DEFAULTS | given
        )
    except (TypeError, ValueError, MemoryError) as error:
        kinds = TypeError, ValueError, MemoryError
        kind = next(kind for kind in kinds if isinstance(error, kind))
        raise kind(_in_words_of(settings, str(error))) from error
    _SPACES[made] = observation_space, action_space
    return made


def spaces_of(memory: ReplayMemory) -> tuple[Any, Any] | None:
    """Return the spaces for which a memory was made; None if it was made from templates or a file.

    Loading loses them, and `restore` keeps them.
    """
    return _SPACES.get(memory)


def from_env(env: Any, capacity: int, **settings: Any) -> ReplayMemory:
    """See `ReplayMemory.from_env`."""
    # Vector environments have spaces of the batch, too.
    prefix = "single_" if hasattr(env, "single_observation_space") else ""
    names = f"{prefix}observation_space", f"{prefix}action_space"
    for name in names:
        if not hasattr(env, name):
            got = type(env).__name__
            raise TypeError(f"env: expected an environment of Gymnasium, got {got} without {name}")
    observation_space, action_space = (getattr(env, name) for name in names)
    return _made(observation_space, action_space, reward_shape_of(env), capacity, settings)


def template(space: Any, name: str) -> npt.NDArray[Any]:
    """Return a template for the values of a space: records where it is a Dict or a Tuple.

    Raises:
        TypeError, ValueError: As `ReplayMemory.from_spaces`.
    """
    dtype, shape = _part(space, name)
    return np.zeros(shape, dtype)


def _part(space: Any, name: str) -> Part:
    parts = parts_of(space)
    if parts is None:
        dtype, shape = array_of(space, name)
        return _narrowed(space, dtype), shape
    if not parts:
        raise ValueError(f"{name}: expected at least one part, got {space}")
    of_tuple = isinstance(parts, tuple)
    made = {}
    for key, part in enumerate(parts) if isinstance(parts, tuple) else parts.items():
        if not of_tuple and (not isinstance(key, str) or not key):
            raise TypeError(f"{name}: expected keys that are text and not empty, got {key!r}")
        made[str(key)] = _part(part, f"{name}[{key!r}]")
    try:
        return record_dtype(made, of_tuple=of_tuple), ()
    except ValueError as error:
        raise ValueError(f"{name}: expected keys that NumPy has for fields: {error}") from error


def _narrowed(space: Any, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return int32 for choices by number where it holds all: JAX has no int64 unless told so."""
    start = getattr(space, "start", None)
    if start is None or dtype != np.int64:
        return dtype
    first = np.asarray(start, object)
    last = first + np.asarray(space.nvec if hasattr(space, "nvec") else space.n, object) - 1
    bounds = np.iinfo(np.int32)
    fits = np.all(first >= bounds.min) and np.all(last <= bounds.max)
    return np.dtype(np.int32) if fits else dtype


def _in_words_of(settings: dict[str, Any], text: str) -> str:
    """Return the text of an error with the names of arguments that the caller used."""
    named = _ARGUMENTS | {own: name for name, own in _NAMES.items() if name in settings}
    name, colon, rest = text.partition(":")
    return named.get(name, name) + colon + rest
