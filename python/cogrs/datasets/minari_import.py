"""Data sets of Minari into a memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cogrs.datasets.dataset_episode import check_fits
from cogrs.datasets.memory_import import (
    Imported,
    ImportedEpisode,
    MemoryImport,
    column,
    rewards_of,
)
from cogrs.datasets.minari_files import minari
from cogrs.datasets.minari_reader import episodes_of
from cogrs.suggest import suggestion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from cogrs._core import ReplayMemory
    from cogrs.datasets.minari_reader import MinariEpisode


def from_minari(
    dataset: Any,
    memory: ReplayMemory,
    *,
    bootstrap: float | npt.ArrayLike | Callable[[Any], Any] | None = None,
    wait: float | None = None,
) -> Imported:
    """Store a data set of Minari in a memory: all of it or, after an error, nothing.

    Each episode becomes one of the memory, with its final observation, so that all of its actions
    can be drawn. One whose last step is not a termination was truncated.

    Args:
        dataset: A `minari.MinariDataset`, which may be filtered; or the id of a local one.
        memory: Its templates say the dtypes, to which arrays are converted by the 'same_kind' rule;
            `ReplayMemory.from_spaces` of the data set's spaces fits. Its `prob` is 1, its `value`
            and `info` are 0.
        bootstrap: Value of the last observation of truncated episodes, of reward's shape, or a
            function that returns it for an observation. Without one they are an error.
        wait: As of `ReplayMemory.add_episode`, for each episode.

    Returns:
        How many episodes and steps were stored; none are left out.

    Raises:
        TypeError: An argument has the wrong type, or a dtype cannot be converted.
        ValueError: A space does not fit the memory; the text names the difference. The memory
            cannot hold all, an episode is broken, or there is no bootstrap value, or it is not
            finite. Nothing is stored.
        FileNotFoundError: There is no local data set of this id.
        ImportError: Minari is not installed.
        TimeoutError: The memory's rate limiter let no episode come for `wait` seconds; the episodes
            before stay stored.
    """
    library = minari()
    target = MemoryImport(memory, bootstrap, wait)
    if isinstance(dataset, str):
        dataset = _local(library, dataset)
    elif not isinstance(dataset, library.MinariDataset):
        got = type(dataset).__name__
        raise TypeError(f"dataset: expected a MinariDataset or an id, got {got}")
    for name, field in (("observation_space", "state"), ("action_space", "action")):
        check_fits(name, getattr(dataset, name), getattr(memory, f"{field}_buf"))
    count = int(dataset.total_episodes)
    entries = int(dataset.total_steps) + count
    target.check_room(count, entries)

    def read() -> Iterator[ImportedEpisode]:
        for episode in episodes_of(dataset):
            yield _episode(memory, episode)

    episodes, steps = target.store(read, entries)
    return Imported(episodes, steps)


def _local(library: Any, dataset_id: str) -> Any:
    known = library.list_local_datasets()
    if dataset_id not in known:
        hint = suggestion(dataset_id, known)
        where = library.storage.datasets_root_dir.get_dataset_path()
        raise FileNotFoundError(
            f"dataset: expected the id of a data set in {where}, got {dataset_id!r}"
            f"{'; ' if hint else ''}{hint}"
        )
    return library.load_dataset(dataset_id)


def _episode(memory: ReplayMemory, episode: MinariEpisode) -> ImportedEpisode:
    where, steps = f"episode {episode.id}", len(episode.rewards)
    state = memory.state_buf
    states = column(f"observations of {where}", episode.observations, state, steps + 1)
    terminations = np.asarray(episode.terminations)
    if steps == 0 or terminations.shape != (steps,):
        expected = "at least one step, with a termination each"
        got = f"{steps} rewards and {len(terminations)} terminations"
        raise ValueError(f"{where}: expected {expected}, got {got}")
    return ImportedEpisode(
        where,
        states[:-1],
        states[-1],
        column(f"actions of {where}", episode.actions, memory.action_buf, steps),
        rewards_of(f"rewards of {where}", episode.rewards, memory.reward_buf, steps),
        bool(terminations[-1]),
    )
