"""Figures of the replay memory on this machine beside those of its peers, and targets missed.

The participants of a row run in turn, several rounds; figures are medians, a ratio is the median of
the ratios within a round. Targets are for a quiet machine of two cores: on others, and under load,
what counts is the ratio to the best peer, or to plain work, of the same run.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import os
import shutil
import tempfile
from typing import TYPE_CHECKING, Any

import footprint
import numpy as np
import ours
import peers
import record
import table
import timing
import workload
from table import Row
from timing import Job

import cogrs
from cogrs import _core

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FILE_BYTES = 1_000_000_000
SAMPLERS = (
    ("uniform", "prioritized", 1.0, 1.5),
    ("stratified", "prioritized", 0.9, 1.0),
    ("fifo", "uniform", 1.0, 2.0),
    ("lifo", "uniform", 1.0, 2.0),
)
"""Samplers, each with the one beside it, and the shares of its figure that are asked for."""


class Bench:
    """Runs rows and keeps their results."""

    def __init__(
        self, only: str, rounds: int, directory: str | None, *, large: bool = False
    ) -> None:
        """Find out who takes part.

        Args:
            only: Rows whose name does not contain this are left out.
            rounds: Rounds of each row.
            directory: Where files are written; None is where temporary files go.
            large: Whether rows that take 8 GB are wanted too.
        """
        self.only = only
        self.large = large
        self.rounds = rounds
        self.directory = directory
        self.results: list[table.Result] = []
        self.peers, self.missing = peers.installed()

    def contest(
        self,
        row: Row,
        jobs: Callable[[], Mapping[str, Job | None]],
        scale: float = 1,
    ) -> None:
        """Time the jobs of a row; a job that is None does not take part.

        Args:
            row: The row; where less is better, its figures are times.
            jobs: Makes them, when the row is not left out.
            scale: Units of `row.unit` in what a job counts, or in a second where less is better.
        """
        if not self.takes(row):
            return
        some = {name: job for name, job in jobs().items() if job is not None}
        rates = timing.in_turn(some, self.rounds)
        figures = {
            name: [scale / rate if row.less else scale * rate for rate in of_rounds]
            for name, of_rounds in rates.items()
        }
        self.keep(row, figures)

    def takes(self, row: Row) -> bool:
        """Whether a row is wanted."""
        return self.only in row.name

    def keep(self, row: Row, figures: Mapping[str, list[float]]) -> None:
        """Take a result, and say that it is there."""
        result = table.Result(row, figures)
        self.results.append(result)
        all_of_it = (f"{name} {table.short(result.median(name))}" for name in figures)
        print(f"{row.name}, {row.unit}: {', '.join(all_of_it)}", flush=True)

    def buffers(self, kind: str) -> Callable[[], dict[str, Any]]:
        """Makes full buffers of all participants when they are first asked for."""

        @functools.cache
        def make() -> dict[str, Any]:
            load = getattr(workload, kind)()
            made = {peer.NAME: getattr(peer, kind)(load) for peer in self.peers}
            peers_there = {name: buffer for name, buffer in made.items() if buffer is not None}
            return {table.OURS: getattr(ours, kind)(load), **peers_there}

        return make


def every(
    full: Callable[[], dict[str, Any]], job: str, *args: int
) -> Callable[[], dict[str, Job | None]]:
    """Makes a job of every full buffer, by the name of its method."""
    return lambda: {name: getattr(buffer, job)(*args) for name, buffer in full().items()}


def vectors(bench: Bench) -> None:
    """W1: states of four floats, a million entries."""
    full = bench.buffers("vectors")
    bench.contest(
        Row("W1 add_entry one by one", "entries/s", 680e3, 1.8 * 680e3, 182e3, 680e3),
        every(full, "add"),
    )
    # The peers' episodes get neither returns nor priorities of their own.
    bench.contest(
        Row("W1 episodes of 1,000 in bulk", "entries/s", 1.3 * 11e6, 3 * 11e6, 11e6),
        every(full, "add_bulk"),
    )
    bench.contest(
        Row("W1 close of 1,000 steps", "ms", 0.47 / 7, 0.47 / 15, original=0.47, less=True),
        lambda: {table.OURS: full()[table.OURS].close()},
        scale=1e3,
    )
    for size, best, least, aim in (
        (32, 21e3, 60e3, 150e3),
        (256, 7e3, 25e3, 40e3),
        (1024, 2.5e3, 7e3, 10e3),
    ):
        bench.contest(
            Row(f"W1 get_batch({size})", "batches/s", least, aim, best),
            every(full, "batch", size),
        )
        bench.contest(
            Row(f"W1 get_batch({size}, out=)", "batches/s", least, aim),
            lambda size=size: {table.OURS: full()[table.OURS].batch_into(size)},
        )
    for sampler, beside, least, aim in SAMPLERS:
        bench.contest(
            Row(f"W1 sample(256), {sampler}", "batches/s", least, aim, beside=beside),
            lambda sampler=sampler, beside=beside: {
                table.OURS: full()[table.OURS].sample(256, sampler),
                beside: full()[table.OURS].sample(256, beside),
            },
        )
    for size, best in ((256, 17e6), (1024, 8e6)):
        bench.contest(
            Row(f"W1 update of {size} priorities", "leaves/s", 2 * best, 4 * best, best),
            every(full, "update", size),
        )
    bench.contest(
        Row("W1 add_reward to step 500 of 1,000, closed", "us", 100, 20, less=True),
        lambda: {table.OURS: full()[table.OURS].late_reward()},
        scale=1e6,
    )


def limiters(bench: Bench) -> None:
    """A rate limiter that never makes anything wait, and the same memory without one."""

    @functools.cache
    def both() -> dict[str, ours.Memory]:
        load = workload.vectors()
        limiter = cogrs.RateLimiter(1.0, 1, 1e15)
        return {table.OURS: ours.Memory(load, limiter), table.PLAIN: ours.Memory(load)}

    for name, unit, job, args in (
        ("sample(256)", "batches/s", "sample", (256,)),
        ("close of 1,000 steps", "closes/s", "close", ()),
    ):
        bench.contest(
            Row(f"W1 {name} with a limiter, without one", unit, 0.95, 1, beside=table.PLAIN),
            every(both, job, *args),
        )


def frames(bench: Bench) -> None:
    """W2: frames of 84 x 84 bytes, stacks of four, 50,000 entries."""
    full = bench.buffers("frames")
    # SB3 and tianshou add single frames, cpprb the stack of which it keeps the last.
    bench.contest(
        Row("W2 add_entry one by one", "entries/s", 1.1 * 268e3, 1.7 * 268e3, original=268e3),
        every(full, "add"),
    )
    bench.contest(
        Row(
            "W2 get_batch(256), plain gather", "transitions/s", 0.8, 0.95, 54e3, beside=table.PLAIN
        ),
        lambda: {
            **every(full, "batch", 256)(),
            table.PLAIN: gather(workload.frames(), 256),
        },
        scale=256,
    )
    bench.contest(
        Row(
            "W2 get_batch(256, out=), plain gather", "transitions/s", 0.8, 0.95, beside=table.PLAIN
        ),
        lambda: {
            table.OURS: full()[table.OURS].batch_into(256),
            table.PLAIN: gather(workload.frames(), 256),
        },
        scale=256,
    )


def sequences(bench: Bench) -> None:
    """Sequences of 80 learned steps and 40 of burn-in, 32 at a time."""
    for kind, name in (("vectors", "W1"), ("frames", "W2")):
        full = bench.buffers(kind)
        load = getattr(workload, kind)()
        least, aim = (0.5, 0.8) if kind == "vectors" else (0.8, 0.95)
        bench.contest(
            Row(
                f"{name} sample_sequences(32), plain slices",
                "batches/s",
                least,
                aim,
                beside=table.PLAIN,
            ),
            lambda full=full, load=load: {
                **every(full, "sequences", 32)(),
                table.PLAIN: slices(load, 32),
            },
        )
    bench.contest(
        Row("W1 sample_sequences(32) of 5M entries", "us", less=True),
        lambda: {table.OURS: ours.vectors(workload.vectors(5_000_000)).sequences(32)},
        scale=1e6,
    )
    if bench.large:
        bench.contest(
            Row("W1 sample_sequences(32) of 100M entries", "us", less=True),
            lambda: {table.OURS: ours.vectors(workload.vectors(100_000_000)).sequences(32)},
            scale=1e6,
        )


def slices(load: workload.Workload, count: int) -> Job:
    """Copies of as many bytes by slices of arrays into ready memory, field by field."""
    rng = np.random.default_rng(0)
    rows = workload.BURN_IN + workload.LEARNED
    fields: list[Any] = [load.states, load.actions, *[load.floats] * 4]
    stores = [np.tile(each, (load.episodes, *[1] * (each.ndim - 1))) for each in fields]
    shapes = [(count, rows, *each.shape[1:]) for each in fields]
    # As many bytes as ours has: a stack of states where there are stacks.
    stores[0] = np.concatenate([stores[0]] * load.stack, 1) if load.stack > 1 else stores[0]
    shapes[0] = (count, rows, *stores[0].shape[1:])
    outs = [np.ones(shape, each.dtype) for shape, each in zip(shapes, stores, strict=True)]
    starts = np.zeros(count, np.int64)

    def before() -> None:
        starts[:] = rng.integers(0, len(stores[0]) - rows, count)

    def run() -> None:
        for store, out in zip(stores, outs, strict=True):
            for row, start in enumerate(starts.tolist()):
                out[row] = store[start : start + rows]

    return Job(run, before=before)


def gather(load: workload.Workload, size: int) -> Job:
    """Copies of as many frames into ready memory: one call of NumPy, which copies frame by frame.

    A row's prev and next stacks lie side by side, so that frames they share are read once from far
    away: the fastest order that there is.
    """
    rng = np.random.default_rng(0)
    store = np.tile(load.states.reshape(workload.EPISODE, -1), (load.episodes, 1))
    steps = np.concatenate([np.arange(load.stack), np.arange(load.stack) + 1])
    out = np.ones((size * len(steps), store.shape[1]), store.dtype)
    rows = np.zeros(len(out), np.int64)

    def before() -> None:
        starts = rng.integers(0, len(store) - load.stack, size)
        rows[:] = (starts[:, None] + steps).ravel()

    return Job(lambda: np.take(store, rows, axis=0, out=out, mode="clip"), before=before)


def memory(bench: Bench) -> None:
    """What a full memory takes."""
    modules = {table.OURS: "ours"} | {peer.NAME: peer.__name__ for peer in bench.peers}
    for kind, name in (("vectors", "W1"), ("frames", "W2")):
        row = Row(f"{name} memory beyond an entry's size", "bytes", 40, 24, less=True)
        if bench.takes(row):
            taken = {who: footprint.beyond_entries(m, kind) for who, m in modules.items()}
            bench.keep(row, {who: [size] for who, size in taken.items() if size is not None})


def files(bench: Bench) -> None:
    """A gigabyte of frames to a file and back, and a plain copy of that file."""
    whole = Row("save and load of 1 GB, plain copy", "MB/s", 0.5, 0.8, beside=table.PLAIN)
    if not bench.takes(whole):
        return
    entries = FILE_BYTES // 7_080 // workload.EPISODE * workload.EPISODE
    rem = ours.frames(workload.frames(entries)).rem
    with tempfile.TemporaryDirectory(dir=bench.directory) as folder:
        path, other = os.path.join(folder, "memory"), os.path.join(folder, "copy")
        rem.save(path)
        size = os.path.getsize(path) / 1e6
        jobs = {
            "save": Job(lambda: rem.save(path), size),
            "load": Job(lambda: cogrs.ReplayMemory.load(path), size),
            table.PLAIN: Job(lambda: copy_file(path, other), size),
        }
        rates = timing.in_turn(jobs, min(5, bench.rounds))
    plain = {table.PLAIN: rates[table.PLAIN]}
    # A copy reads and writes as many bytes as load and save together do.
    pairs = zip(rates["save"], rates["load"], strict=True)
    both = [1 / (1 / save + 1 / load) for save, load in pairs]
    bench.keep(whole, {table.OURS: both, **plain})
    for part in ("save", "load"):
        row = Row(f"of it {part}", "MB/s", beside=table.PLAIN)
        bench.keep(row, {table.OURS: rates[part], **plain})


def copy_file(path: str, other: str) -> None:
    """Copy a file and wait until it is on the disk, as `save` does."""
    with open(path, "rb") as source, open(other, "wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
        target.flush()
        os.fsync(target.fileno())


def keep_freed_memory() -> None:
    """Keep freed memory in malloc, for the sake of its peers.

    They take fresh arrays for each batch, and large ones would be faulted in page by page: cpprb
    draws frames three times as fast this way. Ours does not use malloc for batches.
    """
    trim_threshold, mmap_threshold = -1, -3
    mallopt = ctypes.CDLL(None).mallopt
    mallopt(trim_threshold, 1 << 30)
    mallopt(mmap_threshold, 32 << 20)


def main() -> None:
    """Run what is asked for, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--rounds", type=int, default=timing.ROUNDS, help="rounds of each row")
    parser.add_argument("--large", action="store_true", help="rows that take 8 GB too")
    parser.add_argument("--directory", help="where files are written, on a disk")
    options = parser.parse_args()
    if _core.__debug_build__:
        print("this is a debug build: its figures mean nothing")
    bench = Bench(options.only, options.rounds, options.directory, large=options.large)
    for line in bench.missing:
        print(line)
    memory(bench)  # before malloc is tuned
    keep_freed_memory()
    for part in (vectors, limiters, frames, sequences, files):
        print(part.__doc__, flush=True)
        part(bench)
    print("", table.targets(bench.results), table.participants(bench.results), sep="\n\n")
    print("", table.verdict(bench.results), sep="\n")
    record.keep(table.kept(bench.results))


if __name__ == "__main__":
    main()
