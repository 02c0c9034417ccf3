"""Memories on disk beside those in memory: time to add and to sample frames, and to save them.

With `--limit` it also draws from a memory on disk that is four times as large as a control group
lets this process use, and reads as many bytes at random places of a plain file for comparison. That
needs the right to create control groups.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import cogrs

if TYPE_CHECKING:
    from collections.abc import Callable

_STACK = 4
_EPISODE = 500
_FRAME = 84 * 84
_WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "lz4": {"compress": {"state": "lz4"}},
    "delta+lz4": {"compress": {"state": "delta+lz4"}},
    "disk": {"storage": True},
    "disk, delta+lz4": {"compress": {"state": "delta+lz4"}, "storage": True},
}


def made(count: int, folder: Path, options: dict[str, Any]) -> cogrs.ReplayMemory:
    """Return an empty memory for so many frames."""
    scalar, empty = np.float32(0), np.zeros(0, np.float32)
    image = np.zeros((84, 84), np.uint8)
    storage = folder if options.get("storage") else None
    return cogrs.ReplayMemory(
        *(image, np.int32(0), scalar, scalar, scalar, scalar, empty, count),
        **options | {"storage": storage},
        frame_stack=_STACK,
        seed=0,
    )


def frames_of(count: int) -> np.ndarray[Any, Any]:
    """Return frames that change little, as those of games do."""
    rng = np.random.default_rng(0)
    frames = np.zeros((count, 84, 84), np.uint8)
    frames[:, 20:30] = 87
    for frame in frames:
        for row, column in rng.integers(0, 76, (8, 2)):
            frame[row : row + 8, column : column + 8] = rng.integers(0, 256)
    return frames


def fill(memory: cogrs.ReplayMemory, frames: np.ndarray[Any, Any]) -> None:
    """Add the frames one by one, in episodes."""
    empty = np.zeros(0, np.float32)
    for first in range(0, len(frames), _EPISODE):
        memory.new_episode()
        for frame in frames[first : first + _EPISODE]:
            memory.add_entry(frame, 0, 0.0, 1.0, 0.0, empty, 1.0)
        memory.close_episode(do_update_value=False, do_update_weight=False)


def seconds(call: Callable[[], Any]) -> float:
    """Return how long a call takes."""
    before = time.perf_counter()
    call()
    return time.perf_counter() - before


def compare(count: int, rounds: int, folder: Path) -> None:
    """Print the least time of each way, and its ratio to the plain memory."""
    frames = frames_of(count)
    memories = {
        name: made(count, folder / str(at), options)
        for at, (name, options) in enumerate(_WAYS.items())
    }
    least: dict[tuple[str, str], float] = {}
    for round_ in range(rounds + 4):
        for name, memory in memories.items():
            calls: dict[str, Callable[[], Any]] = {
                "add": lambda memory=memory: fill(memory, frames),
                "sample": lambda memory=memory: memory.sample(256),
            }
            if round_ > rounds:
                # Apart: the system protects pages that it has written, and each costs the next
                # entry there a fault.
                calls = {"save": lambda memory=memory: memory.save(folder / "saved")}
            for what, call in calls.items():
                took = seconds(call)
                # In the first round memory is new: a full ring is what lasts.
                if round_:
                    least[name, what] = min(took, least.get((name, what), took))
    print(f"{count} frames of 84 x 84, frame_stack={_STACK}, least of {rounds} rounds")
    print("way               in memory    on disk   add_entry  speed  sample(256)  speed      save")
    for name, memory in memories.items():
        stats = memory.stats()
        held = sum(field.bytes for field in stats.compression.values())
        in_memory = (count * (memory.entry_size - (_FRAME if held else 0)) + held) / 1e6
        on_disk = stats.storage.bytes / 1e6 if stats.storage else 0.0
        if stats.storage:
            in_memory = memory.nbytes / 1e6
        add, draw = least[name, "add"], least[name, "sample"]
        print(
            f"{name:16} {in_memory:8.1f} MB {on_disk:7.1f} MB {add / count * 1e6:8.2f} us "
            f"{least['plain', 'add'] / add:5.2f}x {draw * 1e3:9.2f} ms "
            f"{least['plain', 'sample'] / draw:5.2f}x {least[name, 'save']:8.2f} s"
        )


def limited(limit: int, folder: Path) -> None:
    """Print draws per second from a memory of four times `limit` bytes, beside plain reads."""
    count = 4 * limit // _FRAME
    frames = np.random.default_rng(0).integers(0, 256, (_EPISODE, 84, 84), np.uint8)
    memory = made(count, folder, {"storage": True, "allow_overcommit": True})
    for _ in range(count // _EPISODE):
        fill(memory, frames)
    stacks = 2 * 64
    size = _STACK * _FRAME
    memory.sample(64)
    took = [seconds(lambda: memory.sample(64)) for _ in range(20)]
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(count // _EPISODE):
            file.write(frames.data)
        file.flush()
        os.fsync(file.fileno())
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        rng = np.random.default_rng(1)

        def read() -> None:
            for at in rng.integers(0, count * _FRAME - size, stacks).tolist():
                os.pread(file.fileno(), size, at)

        plain = [seconds(read) for _ in range(20)]
    of_memory, of_file = (stacks * size / np.median(each) / 1e6 for each in (took, plain))
    print(
        f"memory of {4 * limit >> 20} MiB under a limit of {limit >> 20} MiB: "
        f"{of_memory:.0f} MB/s, plain random reads {of_file:.0f} MB/s, "
        f"{of_memory / of_file:.2f}x"
    )


def group(limit: int) -> Path | None:
    """Create a control group with this limit; None where that is not permitted."""
    for mount, name in (("memory", "memory.limit_in_bytes"), ("", "memory.max")):
        path = Path("/sys/fs/cgroup") / mount / f"cogrs-benchmark-{os.getpid()}"
        try:
            path.mkdir()
            (path / name).write_text(str(limit))
        except OSError:
            continue
        return path
    return None


def main() -> None:
    """Print a table, and with a limit a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", type=int, default=10_000, help="frames of a memory")
    parser.add_argument("--rounds", type=int, default=10, help="rounds to take the least of")
    parser.add_argument("--limit", type=int, default=0, help="MiB of the control group; 0: none")
    parser.add_argument("--folder", type=Path, help="where the files lie; default: a new one")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        if options.inside:
            limited(options.limit << 20, Path(name))
            return
        compare(options.frames, options.rounds, Path(name))
        made_group = group(options.limit << 20) if options.limit else None
        if options.limit and made_group is None:
            print("no control group can be created here: draws under a limit are skipped")
        if made_group is not None:
            script = ["sh", "-c", f'echo $$ > {made_group}/cgroup.procs && exec "$@"', "sh"]
            own = [sys.executable, __file__, "--inside", "--limit", str(options.limit)]
            try:
                subprocess.run([*script, *own, "--folder", name], check=True)
            finally:
                made_group.rmdir()


if __name__ == "__main__":
    main()
