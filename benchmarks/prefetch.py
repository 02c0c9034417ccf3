"""Steps of a learner that takes as long as a draw: with batches drawn ahead, and without.

The learner waits, as one does whose network is on a GPU: its processor has nothing to do meanwhile.
Rounds alternate, and the figure is the ratio of the least times.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import storage

import cogrs

if TYPE_CHECKING:
    from collections.abc import Callable

_ROWS = 256


def learner(seconds: float) -> Callable[[Any], None]:
    """Return a step that takes so long."""

    def step(batch: Any) -> None:
        del batch
        time.sleep(seconds)

    return step


def rate(memory: cogrs.ReplayMemory, step: Callable[[Any], None], steps: int, ahead: bool) -> float:
    """Return seconds per step."""
    if not ahead:
        before = time.perf_counter()
        for _ in range(steps):
            step(memory.sample(_ROWS))
        return (time.perf_counter() - before) / steps
    with memory.prefetch(_ROWS, depth=2) as batches:
        step(next(batches))
        before = time.perf_counter()
        for _ in range(steps):
            step(next(batches))
        return (time.perf_counter() - before) / steps


def main() -> None:
    """Print a line per way to store frames."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=10_000, help="frames of a memory")
    parser.add_argument("--steps", type=int, default=50, help="steps of a round")
    parser.add_argument("--rounds", type=int, default=10, help="rounds to take the least of")
    options = parser.parse_args()
    frames = storage.frames_of(options.frames)
    scalar, empty = np.float32(0), np.zeros(0, np.float32)
    for name, compress in (("plain", None), ("delta+lz4", {"state": "delta+lz4"})):
        memory = cogrs.ReplayMemory(
            *(frames[0], np.int32(0), scalar, scalar, scalar, scalar, empty, len(frames)),
            compress=compress,
            frame_stack=4,
            seed=0,
        )
        storage.fill(memory, frames)
        draw = min(storage.seconds(lambda memory=memory: memory.sample(_ROWS)) for _ in range(30))
        step = learner(draw)
        least = {False: float("inf"), True: float("inf")}
        for _ in range(options.rounds):
            for way in least:
                least[way] = min(least[way], rate(memory, step, options.steps, way))
        alone, ahead = (least[each] * 1e3 for each in (False, True))
        print(
            f"{name:10} draw {draw * 1e3:.2f} ms, step without prefetch {alone:.2f} ms, "
            f"with {ahead:.2f} ms: {alone / ahead:.2f}x"
        )


if __name__ == "__main__":
    main()
