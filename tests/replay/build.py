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

_PADDED = np.dtype({"names": ["a", "b"], "formats": ["u1", "<f8"], "offsets": [0, 8]})
ODD_TEMPLATES = [
    np.zeros((), bool),
    np.zeros((84, 84), np.uint8),
    np.zeros((), ">f8"),
    np.zeros((0,), np.int16),
    np.zeros((2, 0, 3), np.float64),
    np.zeros((), "U7"),
    np.zeros((3,), "S5"),
    np.zeros((), "V9"),
    np.zeros((), "M8[ms]"),
    np.zeros((), "m8[ns]"),
    np.zeros((), np.complex64),
    np.zeros((), np.float16),
    np.zeros((2,), [("x", "<f4", (2, 2)), ("y", "S3")]),
    np.zeros((), [("höhe", "<i8"), ("inner", [("z", "?"), ("w", ">u2")])]),
    np.zeros((), _PADDED),
    np.zeros((), np.dtype([("a", "u1"), ("b", "f8")], align=True)),
]
"""Arrays of dtypes and shapes that few memories have."""
OTHER_SETTINGS = {
    "priority_exponent": 0.25,
    "mix_lambda": 0.125,
    "frame_stack": 3,
    "multi_step": 5,
    "cache_size": 7,
    "max_episode": 11,
    "reuse_cache": True,
    "discount_factor": [0.5, 0.75],
    "reward_coeff": [-1.0, 2.0],
    "cache_flags": [True, False] * 7,
    "new_priority": "max",
    "priority_epsilon": 0.375,
    "frame_padding": "zero",
    "sequence_eta": 0.25,
    "sampler": "lifo",
    "max_times_sampled": 3,
    "remover": "lowest",
}
"""Settings, none of which is the default; the reward has two dimensions."""


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
