"""Figures of the replay memory on this machine: medians of runs taken one after the other."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

import numpy as np

import cogrs
from cogrs import _core

if TYPE_CHECKING:
    from collections.abc import Callable

EMPTY = np.zeros(0, np.float32)
EPISODE = 1_000


def memory(state: np.ndarray, max_step: int) -> cogrs.ReplayMemory:
    """A memory with a scalar int action and scalar rewards."""
    zero = np.float32(0)
    return cogrs.ReplayMemory(state, np.int64(0), zero, zero, zero, zero, EMPTY, max_step, seed=1)


def rate(count: int, run: Callable[[], object], repeats: int = 5) -> float:
    """The median of `count` / seconds over some runs, after one that is not counted."""
    run()
    rates = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        rates.append(count / (time.perf_counter() - start))
    return statistics.median(rates)


def add_episode(rem: cogrs.ReplayMemory, state: np.ndarray) -> None:
    """Add an episode entry by entry."""
    rem.new_episode()
    add = rem.add_entry
    for _ in range(EPISODE):
        add(state, 1, 1.0, 0.5, 0.3, EMPTY, 1.0)
    rem.close_episode()


def vectors() -> None:
    """W1: states of four floats, a million entries."""
    rem = memory(np.zeros(4, np.float32), 1_000_000)
    rng = np.random.default_rng(0)
    state = rng.random(4, np.float32)
    report("add_entry, one by one", rate(EPISODE, lambda: add_episode(rem, state), 50), "entries/s")
    states, reward = rng.random((EPISODE, 4), np.float32), rng.random(EPISODE, np.float32)
    action, info = np.zeros(EPISODE, np.int64), np.zeros((EPISODE, 0), np.float32)
    columns = (states, action, reward, reward, reward, info, 1.0)
    for _ in range(1_000):
        rem.add_episode(*columns)
    bulk = rate(EPISODE, lambda: rem.add_episode(*columns), 500)
    report("add_episode of 1,000, returns and weights included", bulk, "entries/s")
    for size in (32, 256, 1024):
        batches = rate(200, lambda size=size: [rem.get_batch(size) for _ in range(200)])
        report(f"get_batch({size})", batches, "batches/s")
    for size in (256, 1024):
        ids, errors = rem.sample(size).id, rng.random(size)
        updates = rate(size, lambda i=ids, e=errors: rem.update_priority(i, e), 500)
        report(f"update_priority of {size}", updates, "leaves/s")
    middle = int(rem.episode(-1).id[500])
    late = rate(1, lambda: rem.add_reward(middle, 0.01), 500)
    report("add_reward to step 500 of 1,000", 1e6 / late, "us")


def frames() -> None:
    """W2: frames of 84 x 84 bytes, stacks of four, 50,000 entries."""
    rem = memory(np.zeros((84, 84), np.uint8), 50_000)
    rem.frame_stack = 4
    rng = np.random.default_rng(0)
    frame = rng.integers(0, 255, (84, 84), np.uint8)
    for _ in range(50):
        add_episode(rem, frame)
    report("add_entry, one by one", rate(EPISODE, lambda: add_episode(rem, frame), 20), "entries/s")
    samples = rate(256 * 20, lambda: [rem.get_batch(256) for _ in range(20)])
    report("get_batch(256), prev and next stacks", samples, "transitions/s")
    store, out = np.zeros((50_000, 7056), np.uint8), np.zeros((512 * 4, 7056), np.uint8)
    starts = rng.integers(0, 49_996, 512)

    def plain() -> None:
        for row, start in enumerate(starts):
            out[4 * row : 4 * row + 4] = store[start : start + 4]

    report("  a plain gather of as many bytes into ready memory", rate(256, plain), "transitions/s")


def report(name: str, figure: float, unit: str) -> None:
    """Print one figure."""
    print(f"  {name:<55} {figure:>14,.0f} {unit}", flush=True)


if __name__ == "__main__":
    if _core.__debug_build__:
        print("this is a debug build: its figures mean nothing")
    for workload in (vectors, frames):
        print(workload.__doc__)
        workload()
