"""Memories and steps that the tests share: step k holds k in every field."""

import os
from typing import Any

import numpy as np

from cogrs import Episode, ReplayMemory
from tests.replay.model import FIELDS

TEMPLATES = {
    "s": np.int64(0),
    "a": np.int64(0),
    "r": np.float32(0),
    "p": np.float32(0),
    "v": np.float32(0),
    "q": np.float32(0),
    "i": np.int64(0),
}
SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
"""Whether tests are to take their long forms."""
NAMES = list(zip("sarpvi", ["state", "action", "reward", "prob", "value", "info"], strict=True))
"""Arguments of `add_entry` by their letter, and how errors name them."""
UNIFORM = {"do_update_value": False, "do_update_weight": False}


def memory(max_step: int = 16, *, seed: int | None = None, **changes: Any) -> ReplayMemory:
    """A memory; changes are templates by their letter, or settings."""
    templates = [changes.pop(name, TEMPLATES[name]) for name in FIELDS]
    made = ReplayMemory(*templates, max_step, seed=seed)
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def vector_memory(size: int, max_step: int = 16, **changes: Any) -> ReplayMemory:
    """A memory whose reward, value and qvest have one dimension."""
    zeros = np.zeros(size, np.float32)
    return memory(max_step, r=zeros, v=zeros, q=zeros, **changes)


def step(k: int = 0, **changes: Any) -> dict[str, Any]:
    """The arguments of `add_entry`."""
    return {**dict.fromkeys("sarpvi", k), "init_w": 1.0, **changes}


def steps(count: int, first: int = 0, **changes: Any) -> dict[str, Any]:
    """The arguments of `add_entries`."""
    k = np.arange(first, first + count)
    return {**dict.fromkeys("sai", k), **dict.fromkeys("rpv", np.float32(k)), "init_w": 1.0} | (
        changes
    )


def add_uniform(to: ReplayMemory, count: int, first: int = 0, **changes: Any) -> int:
    """A closed episode whose weights are its initial ones."""
    return to.add_episode(**steps(count, first, **changes), **UNIFORM)


def contents(of: ReplayMemory) -> list[list[int]]:
    """The states of the closed episodes."""
    return [of.episode(k).entries.s.tolist() for k in range(of.num_episode())]


def described(episode: Episode) -> tuple[Any, ...]:
    """All of an episode but its ids, which no other memory shares."""
    columns = (*episode.entries, episode.weight)
    return [column.tolist() for column in columns], episode.truncated, episode.has_final_state
