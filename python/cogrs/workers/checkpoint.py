"""What a learner and its actors need to go on where they were, in files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from cogrs.replay import ReplayMemory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cogrs.replay import Entry


def write_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file aside, and give it its name when it is whole.

    Raises:
        OSError: It cannot be written. What was there before is there still.
    """
    where = Path(path)
    descriptor, name = tempfile.mkstemp(dir=where.parent, prefix=f"{where.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(where)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def restore_episodes(memory: ReplayMemory, path: str | os.PathLike[str]) -> int:
    """Add the closed episodes of a file of `ReplayMemory.save` to a memory that is there.

    For memories that `ActorWorker` fills: episodes with a final state, whose steps all have the
    initial weight 1. Returns and weights are made anew by the memory's own settings, and ids are
    new. Where there are more than fit, the oldest are evicted.

    Returns:
        How many episodes were added.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is damaged, or of other fields, or has an episode without a final state.
    """
    saved = ReplayMemory.load(path)
    for name in ("state", "action", "reward", "prob", "value", "info"):
        ours, theirs = (getattr(each, f"{name}_buf") for each in (memory, saved))
        if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
            expected, got = f"{ours.dtype} {ours.shape}", f"{theirs.dtype} {theirs.shape}"
            raise ValueError(f"{path}: {name}: expected {expected}, got {got}")
    count = 0
    for entries, truncated in _episodes(saved, path):
        memory.add_episode(
            entries.state[:-1],
            entries.action[:-1],
            entries.reward[:-1],
            entries.prob[:-1],
            entries.value[:-1],
            entries.info[:-1],
            1.0,
            bootstrap_value=entries.value[-1] if truncated else None,
            final_state=entries.state[-1],
            final_info=entries.info[-1],
        )
        count += 1
    return count


def _episodes(saved: ReplayMemory, path: object) -> Iterator[tuple[Entry, bool]]:
    for index in range(saved.num_episode()):
        episode = saved.episode(index)
        if not episode.has_final_state:
            raise ValueError(f"{path}: episode {index}: expected a final state, got none")
        yield episode.entries, episode.truncated
