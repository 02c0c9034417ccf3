"""Compressed fields beside plain ones: bytes per frame, and the time to add and to sample frames.

Frames are those of random play of Atari games, of 84 x 84 bytes, if ale-py is installed, and noise.
Memories are measured in turn, by the processor time of this process, and each figure is the median
of the rounds' ratios to the plain memory.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import TYPE_CHECKING, Any

import numpy as np

import cogrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Frames = np.ndarray[Any, np.dtype[np.uint8]]

CODECS = ("lz4", "delta+lz4", "zstd:1", "zstd", "delta+zstd")
_STACK = 4
_EPISODE = 500


def played(game: str, count: int) -> Frames:
    """Return frames of random play."""
    from ale_py.vector_env import AtariVectorEnv

    env = AtariVectorEnv(game, num_envs=1, stack_num=1)
    env.action_space.seed(0)
    frames = [env.reset(seed=0)[0][0, 0].copy()]
    while len(frames) < count:
        frames.append(env.step(env.action_space.sample())[0][0, 0].copy())
    return np.stack(frames)


def workloads(count: int) -> Iterator[tuple[str, Frames]]:
    """Yield names and frames."""
    try:
        import ale_py  # noqa: F401
    except ImportError:
        print("ale-py is not installed: only noise is measured")
    else:
        for game in ("pong", "breakout"):
            yield game, played(game, count)
    yield "noise", np.random.default_rng(0).integers(0, 256, (count, 84, 84), np.uint8)


def made(frames: Frames, codec: str | None) -> cogrs.ReplayMemory:
    """Return an empty memory for these frames."""
    scalar, empty = np.float32(0), np.zeros(0, np.float32)
    return cogrs.ReplayMemory(
        *(frames[0], np.int32(0), scalar, scalar, scalar, scalar, empty, len(frames)),
        compress=None if codec is None else {"state": codec},
        frame_stack=_STACK,
        seed=0,
    )


def fill(memory: cogrs.ReplayMemory, frames: Frames) -> None:
    """Add the frames one by one, in episodes."""
    empty = np.zeros(0, np.float32)
    add = memory.add_entry
    for first in range(0, len(frames), _EPISODE):
        memory.new_episode()
        for frame in frames[first : first + _EPISODE]:
            add(frame, 0, 0.0, 1.0, 0.0, empty, 1.0)
        memory.close_episode(do_update_value=False, do_update_weight=False)


def cost(call: Callable[[], Any]) -> float:
    """Return the processor time of a call, in seconds."""
    before = time.process_time()
    call()
    return time.process_time() - before


def compare(frames: Frames, rounds: int) -> dict[str | None, dict[str, float]]:
    """Return for each codec microseconds per added frame and per batch, and the ratios to plain."""
    codecs = (None, *CODECS)
    memories = {codec: made(frames, codec) for codec in codecs}
    for memory in memories.values():
        fill(memory, frames)
        memory.sample(256)
    adds: dict[str | None, list[float]] = {codec: [] for codec in codecs}
    samples: dict[str | None, list[float]] = {codec: [] for codec in codecs}
    for _ in range(rounds):
        for codec, memory in memories.items():
            # The second time round, so that memory is not new: a full ring is what lasts.
            adds[codec].append(cost(lambda memory=memory: fill(memory, frames)))
        for codec, memory in memories.items():
            samples[codec].append(
                cost(lambda memory=memory: [memory.sample(256) for _ in range(5)])
            )

    def ratio(of: dict[str | None, list[float]], codec: str | None) -> float:
        pairs = zip(of[None], of[codec], strict=True)
        return statistics.median(plain / own for plain, own in pairs)

    figures: dict[str | None, dict[str, float]] = {}
    for codec, memory in memories.items():
        held = memory.stats().compression
        figures[codec] = {
            "bytes": held["state"].bytes / held["state"].values if held else frames[0].nbytes,
            "add": statistics.median(adds[codec]) / len(frames) * 1e6,
            "add_ratio": ratio(adds, codec),
            "sample": statistics.median(samples[codec]) / 5 * 1e3,
            "sample_ratio": ratio(samples, codec),
        }
    return figures


def main() -> None:
    """Print a table per workload."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=5000, help="frames of a memory")
    parser.add_argument("--rounds", type=int, default=5, help="rounds to take medians of")
    options = parser.parse_args()
    for name, frames in workloads(options.frames):
        print(f"\n{name}, 84 x 84, frame_stack={_STACK}")
        print("codec        bytes/frame  smaller   add_entry  speed   sample(256)  speed")
        for codec, of in compare(frames, options.rounds).items():
            smaller = frames[0].nbytes / of["bytes"]
            print(
                f"{codec or 'plain':12} {of['bytes']:11.0f} {smaller:7.1f}x {of['add']:8.2f} us "
                f"{of['add_ratio']:5.2f}x {of['sample']:10.2f} ms {of['sample_ratio']:5.2f}x"
            )


if __name__ == "__main__":
    main()
