"""Stores of caches that the tests share: their caches carry prev's info alone."""

from typing import Any

import numpy as np

from cogrs import ReplayMemory
from cogrs._core import CacheStore
from tests.replay.build import memory

ONLY_INFO = [at == 6 for at in range(14)]


def empty(n_caches: int = 2, *, seed: int = 0, **settings: Any) -> tuple[ReplayMemory, CacheStore]:
    """A store for caches that carry prev's info alone, and the memory that it goes by."""
    rem = memory(0, cache_flags=ONLY_INFO, **settings)
    return rem, CacheStore(rem, n_caches, seed=seed)


def columns(infos: Any) -> list[np.ndarray]:
    infos = np.asarray(infos, np.int64)
    return [np.ones(len(infos), np.float32).view(np.uint8), infos.view(np.uint8)]


def push(to: CacheStore, *infos: int, weight_sum: float = 1.0) -> None:
    to.push(len(infos), weight_sum, columns(infos))
