"""Closed episodes of a memory as episodes of a data set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cogrs.datasets.dataset_episode import DatasetEpisode, as_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cogrs import Episode, ReplayMemory


def episodes_of(
    memory: ReplayMemory, observation_space: Any, action_space: Any
) -> Iterator[tuple[DatasetEpisode | None, int]]:
    """Yield each closed episode, oldest first, and how many of its actions are left out.

    None stands for an episode of which no action is left.

    Raises:
        TypeError, ValueError: Values are not of these spaces.
        RuntimeError: The memory was written meanwhile.
    """
    state = _state(memory)
    for index in range(memory.num_episode()):
        episode = memory.episode(index)
        if _state(memory) != state:
            raise RuntimeError(
                "memory: expected no writes while its episodes are exported, got some"
            )
        length = len(episode.weight)
        if length == 0:
            continue
        left_out = 0 if episode.has_final_state else 1
        if length == 1:
            yield None, left_out
            continue
        made = _made(episode, length - 1, index, observation_space, action_space)
        yield made, left_out


def _state(memory: ReplayMemory) -> tuple[int, int]:
    return memory.total_episodes, memory.num_episode()


def _made(
    episode: Episode, steps: int, index: int, observation_space: Any, action_space: Any
) -> DatasetEpisode:
    entries, where = episode.entries, f"of episode {index}"
    infos = {"prob": entries.p, "value": entries.v, "info": entries.i}
    return DatasetEpisode(
        as_of(observation_space, entries.s, f"observations {where}"),
        as_of(action_space, _first(entries.a, steps), f"actions {where}"),
        entries.r[:steps],
        episode.has_final_state and not episode.truncated,
        {
            name: np.ascontiguousarray(column)
            for name, column in infos.items()
            if column.size and column.dtype.kind in "biuf"
        },
        {"first_id": int(episode.id[0])},
    )


def _first(values: Any, rows: int) -> Any:
    if isinstance(values, dict):
        return {key: _first(each, rows) for key, each in values.items()}
    if isinstance(values, tuple):
        return tuple(_first(each, rows) for each in values)
    return values[:rows]
