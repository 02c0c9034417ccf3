"""Episodes of Minari's data sets: what a memory needs of them, and no more.

Minari's own reader takes most of its time for the objects of h5py around each array, and reads
infos too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cogrs.datasets.minari_files import MAIN_FILE
from cogrs.optional_dependency import import_optional
from cogrs.spaces import parts_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt


class MinariEpisode(NamedTuple):
    """An episode of T steps.

    Fields:
        id: Its number.
        observations: T + 1 of them; a dict or tuple of arrays for a Dict or Tuple.
        actions: T of them, likewise.
        rewards: (T,).
        terminations: (T,).
    """

    id: int
    observations: Any
    actions: Any
    rewards: npt.NDArray[Any]
    terminations: npt.NDArray[Any]


def episodes_of(dataset: Any) -> Iterator[MinariEpisode]:
    """Yield the episodes of a `MinariDataset`."""
    spaces = dataset.observation_space, dataset.action_space
    if dataset.storage.FORMAT != "hdf5" or any(_has_jpeg(dataset, each) for each in spaces):
        yield from _read_by_minari(dataset)
        return
    h5py = import_optional("h5py", "data sets of Minari need h5py", "'cogrs[minari]'")
    with h5py.File(dataset.storage.data_path / MAIN_FILE, "r") as file:
        for number in map(int, dataset.episode_indices):
            where = f"episode_{number}"
            yield MinariEpisode(
                number,
                _values(h5py, file.id, f"{where}/observations", spaces[0]),
                _values(h5py, file.id, f"{where}/actions", spaces[1]),
                _array(h5py, file.id, f"{where}/rewards"),
                _array(h5py, file.id, f"{where}/terminations"),
            )


def _read_by_minari(dataset: Any) -> Iterator[MinariEpisode]:
    episodes: Iterator[Any] | None = None
    while True:
        try:
            episodes = episodes or iter(dataset.iterate_episodes())
            each = next(episodes, None)
        except (MemoryError, OSError):
            raise
        except Exception as error:  # of a set that Minari wrote and cannot read: it says not which
            raise ValueError(
                f"dataset: expected one that Minari can read, got {dataset.spec.dataset_id!r}: "
                f"{error}"
            ) from error
        if each is None:
            return
        values = (getattr(each, name) for name in MinariEpisode._fields)
        yield MinariEpisode(*values)


def _has_jpeg(dataset: Any, space: Any) -> bool:
    parts = parts_of(space)
    if parts is None:
        storage = import_optional(
            "minari.dataset.minari_storage", "data sets of Minari need Minari", "'cogrs[minari]'"
        )
        return bool(dataset.storage.jpeg_encoding and storage.is_image_space(space))
    return any(
        _has_jpeg(dataset, each) for each in (parts.values() if isinstance(parts, dict) else parts)
    )


def _values(h5py: Any, file: Any, path: str, space: Any) -> Any:
    parts = parts_of(space)
    if parts is None:
        return _array(h5py, file, path)
    if isinstance(parts, dict):
        return {key: _values(h5py, file, f"{path}/{key}", part) for key, part in parts.items()}
    return tuple(_values(h5py, file, f"{path}/_index_{at}", part) for at, part in enumerate(parts))


def _array(h5py: Any, file: Any, path: str) -> npt.NDArray[Any]:
    try:
        found = h5py.h5d.open(file, path.encode())
    except KeyError as error:
        raise ValueError(f"{path}: expected an array in the data set, got nothing") from error
    made = np.empty(found.shape, found.dtype)
    if made.size:
        found.read(h5py.h5s.ALL, h5py.h5s.ALL, made)
    return made
