"""Files from which a learner and its actors go on where they were."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cogrs.files import replacing
from cogrs.replay import ReplayMemory
from cogrs.replay.recorder import unlimited_writer
from cogrs.replay.wire import FIELDS, SETTINGS

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from cogrs.replay import Episode


def write_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file in place of another, as a whole or not at all; an OSError if it cannot be."""
    with replacing(Path(path)) as file:
        file.write(data)


def restore_episodes(memory: ReplayMemory, path: str | os.PathLike[str]) -> int:
    """Add the closed episodes of a file of `ReplayMemory.save` to an existing memory.

    For memories that `ActorWorker` fills: episodes with a final state, whose steps all have the
    initial weight 1. Returns and weights are computed by the memory's own settings, and ids are
    new. The oldest episodes are evicted where not all fit.

    All episodes are tried on a memory of their own first: nothing is added if one is refused.

    Returns:
        How many episodes were added.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is damaged, or of other fields; or an episode has no final state, is longer
            than the memory, or has returns or weights that are not finite under its settings.
            Nothing is added.
        RuntimeError: The memory's fields do not allow returns, and nothing is added; or open
            episodes left no room, and the text says how many were added before.
    """
    saved = ReplayMemory.load(path)
    for name in FIELDS:
        ours, theirs = (getattr(each, f"{name}_buf") for each in (memory, saved))
        if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
            expected, got = f"{ours.dtype} {ours.shape}", f"{theirs.dtype} {theirs.shape}"
            raise ValueError(f"{path}: {name}: expected {expected}, got {got}")
    aside = _like(memory)
    for number, episode in enumerate(_episodes(saved, path)):
        size = len(episode.id)
        if size > memory.max_step:
            expected = f"at most max_step={memory.max_step} entries"
            raise ValueError(f"{path}: episode {number}: expected {expected}, got {size}")
        try:
            _add(aside, episode)
            aside.clear()
        except (ValueError, RuntimeError) as error:
            raise type(error)(f"{path}: episode {number}: {error}") from error
    count = saved.num_episode()
    for number, episode in enumerate(_episodes(saved, path)):
        try:
            _add(memory, episode)
        except RuntimeError as error:
            text = f"{path}: {number} of {count} episodes were added, then: {error}"
            raise RuntimeError(text) from error
    return count


def _like(memory: ReplayMemory) -> ReplayMemory:
    """Return an empty memory of the same fields and settings."""
    buffers = [getattr(memory, f"{name}_buf") for name in FIELDS]
    state, action, reward, prob, value, qvest, info = buffers
    made = ReplayMemory(
        state,
        action,
        reward,
        prob,
        value,
        qvest,
        info,
        memory.max_step,
        allow_overcommit=True,  # entries take memory once they are written, and one episode is
    )
    for name in SETTINGS:
        setattr(made, name, getattr(memory, name))
    return made


def _add(memory: ReplayMemory, episode: Episode) -> None:
    entries = episode.entries
    # All of a file or nothing: it does not wait for samples halfway.
    unlimited_writer(memory).add_episode(
        entries.state[:-1],
        entries.action[:-1],
        entries.reward[:-1],
        entries.prob[:-1],
        entries.value[:-1],
        entries.info[:-1],
        1.0,
        bootstrap_value=entries.value[-1] if episode.truncated else None,
        final_state=entries.state[-1],
        final_info=entries.info[-1],
    )


def _episodes(saved: ReplayMemory, path: object) -> Iterator[Episode]:
    for index in range(saved.num_episode()):
        episode = saved.episode(index)
        if not episode.has_final_state:
            raise ValueError(f"{path}: episode {index}: expected a final state")
        yield episode
