"""Flat arrays of steps, one after the other, as D4RL's files have them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cogrs.datasets.memory_import import (
    Imported,
    ImportedEpisode,
    MemoryImport,
    column,
    rewards_of,
)
from cogrs.optional_dependency import import_optional
from cogrs.suggest import suggestion
from cogrs.validation import check_path

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import numpy.typing as npt

    from cogrs._core import ReplayMemory

_NEEDED = ("observations", "actions", "rewards", "terminals")
_OPTIONAL = ("timeouts", "next_observations")
_CHUNK = 1 << 12
"""Rows that are compared at a time."""


class _Span(NamedTuple):
    """Steps of one episode, from `first` to before `end`."""

    first: int
    end: int
    terminated: bool


def from_arrays(
    source: str | os.PathLike[str] | Mapping[str, npt.ArrayLike],
    memory: ReplayMemory,
    *,
    bootstrap: float | npt.ArrayLike | Callable[[Any], Any] | None = None,
    wait: float | None = None,
) -> Imported:
    """Store a data set of flat arrays in a memory: all of it or, after an error, nothing.

    The arrays have one row per step, N in all, as D4RL's files have them: `observations`, `actions`
    and `rewards`; `terminals`, whether the environment ended the episode with this step; and, where
    it is there, `timeouts`, whether the episode was cut short with this step. `next_observations`
    are the observations after the steps; where one is not the observation of the next step, the
    episode was cut short too, and so is what follows the last end. Other arrays are ignored.

    Without `next_observations` the observation after the last step of an episode is not known. A
    step that terminated is stored all the same, with its own observation as the final state, since
    nothing depends on that; samples say `next_terminated`. The last step of an episode that was cut
    short is left out, and its observation is the final state.

    Args:
        source: A file, `.npz` or `.h5` / `.hdf5`; or a mapping from names to arrays.
        memory: Its templates say the dtypes, to which arrays are converted by the 'same_kind' rule.
            Its `prob` is 1, its `value` and `info` are 0.
        bootstrap: Value of the last observation of episodes that were cut short, of reward's shape,
            or a function that returns it for an observation. Without one they are an error.
        wait: As of `ReplayMemory.add_episode`, for each episode.

    Returns:
        How many episodes and steps were stored, and how many steps were left out.

    Raises:
        TypeError: An argument has the wrong type, or a dtype cannot be converted.
        ValueError: An array is missing, lengths or shapes differ, a reward is not finite, flags are
            not 0 or 1; the memory cannot hold all; or there is no bootstrap value, or it is not
            finite. Nothing is stored.
        OSError: The file cannot be read.
        ImportError: The file is HDF5, and h5py is not installed.
        TimeoutError: The memory's rate limiter let no episode come for `wait` seconds; the episodes
            before stay stored.
    """
    target = MemoryImport(memory, bootstrap, wait)
    with _arrays_of(source) as found:
        pairs = ((name, found(name)) for name in (*_NEEDED, *_OPTIONAL))
        arrays = {name: array for name, array in pairs if array is not None}
    rows = len(arrays["rewards"])
    for name, array in arrays.items():
        if len(array) != rows:
            raise ValueError(f"{name}: expected {rows} rows, as rewards has, got {len(array)}")
    state, action, reward = memory.state_buf, memory.action_buf, memory.reward_buf
    states = column("observations", arrays["observations"], state, rows)
    actions = column("actions", arrays["actions"], action, rows)
    rewards = rewards_of("rewards", arrays["rewards"], reward, rows)
    ends = _flags("terminals", arrays["terminals"])
    cuts = np.zeros(rows, bool)
    if "timeouts" in arrays:
        cuts = _flags("timeouts", arrays["timeouts"])
    after = None
    if "next_observations" in arrays:
        after = column("next_observations", arrays["next_observations"], state, rows)
        cuts |= _breaks(states, after)
    spans = list(_spans(ends, cuts))

    def read() -> Iterator[ImportedEpisode]:
        for number, (first, end, terminated) in enumerate(spans):
            last = end if terminated or after is not None else end - 1
            if last == first:
                continue
            final = states[end - 1] if after is None else after[end - 1]
            yield ImportedEpisode(
                f"episode {number}",
                *(states[first:last], final, actions[first:last], rewards[first:last]),
                terminated,
            )

    kept = sum(span.end - span.first > (not span.terminated and after is None) for span in spans)
    entries = rows + kept
    target.check_room(kept, entries)
    episodes, steps = target.store(read, entries)
    return Imported(episodes, steps, rows - steps)


@contextmanager
def _arrays_of(source: Any) -> Iterator[Callable[[str], npt.NDArray[Any] | None]]:
    """Return a function that reads an array by name; None where an optional one is missing."""
    if isinstance(source, Mapping):
        yield lambda name: _found(source, name)
        return
    path = check_path("source", source)
    kind = path.suffix.lower()
    if kind == ".npz":
        with np.load(_there(path), allow_pickle=False) as file:
            yield lambda name: _found(file, name)
    elif kind in (".h5", ".hdf5"):
        h5py = import_optional("h5py", "HDF5 files need h5py", "'cogrs[minari]'")
        with h5py.File(_there(path), "r") as file:
            yield lambda name: _found(file, name)
    else:
        raise ValueError(f"source: expected a .npz, .h5 or .hdf5 file, got {path}")


def _there(path: Path) -> Path:
    if not path.is_file():
        raise FileNotFoundError(f"source: expected a file that exists, got {path}")
    return path


def _found(file: Mapping[str, Any], name: str) -> npt.NDArray[Any] | None:
    if name not in file:
        if name in _OPTIONAL:
            return None
        hint = suggestion(name, file)
        got = ", ".join(map(str, file)) or "nothing"
        raise ValueError(
            "; ".join(filter(None, (f"source: expected an array {name!r}, got {got}", hint)))
        )
    array = np.asarray(file[name])
    if array.ndim == 0:
        raise ValueError(f"{name}: expected one row per step, got a single value")
    return array


def _flags(name: str, given: Any) -> npt.NDArray[np.bool_]:
    if given.ndim != 1 or not ((given == 0) | (given == 1)).all():
        raise ValueError(
            f"{name}: expected flags 0 or 1 of shape (N,), got {given.dtype} {given.shape}"
        )
    flags: npt.NDArray[np.bool_] = given.astype(bool)
    return flags


def _breaks(states: npt.NDArray[Any], after: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return after which steps another episode begins, as the next observation is not theirs."""
    broken = np.ones(len(states), bool)
    for first in range(0, len(states) - 1, _CHUNK):
        end = min(first + _CHUNK, len(states) - 1)
        shape = (end - first, -1)
        one, other = after[first:end].reshape(shape), states[first + 1 : end + 1].reshape(shape)
        differs = one != other
        if one.dtype.kind == "f":
            differs &= ~(np.isnan(one) & np.isnan(other))
        broken[first:end] = differs.any(axis=1)
    return broken


def _spans(ends: npt.NDArray[np.bool_], cuts: npt.NDArray[np.bool_]) -> Iterator[_Span]:
    first = 0
    for at in np.flatnonzero(ends | cuts).tolist():
        yield _Span(first, at + 1, bool(ends[at]))
        first = at + 1
    if first < len(ends):
        yield _Span(first, len(ends), terminated=False)
