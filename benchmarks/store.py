"""How fast trials go into a store, are listed and shown; and what a store costs an orchestrator.

    python benchmarks/store.py [--trials 3000] [--rows 1000000] [--orchestrated 300]

`stored` writes trials of 100 ticks with four floats each, as fast as the writer takes them; CPU is
that of the whole process per trial. `orchestrated` runs CartPole trials with and without a store.
`ls` lists what fits a filter, among rows without files; `show` is the command, from start to end.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from cogrs import orchestrator, sdk
from cogrs.api.common_pb2 import ActorParams, TrialParams
from cogrs.api.datalog_pb2 import DatalogSample
from cogrs.store import TrialFilter, TrialRecord, open_store
from cogrs.store.location import Location
from cogrs.store.record import moment_of
from cogrs.store.sqlite_index import NAME, SqliteIndex
from cogrs.store.writer import StoreWriter

CODEC = sdk.ArrayCodec()
PARAMS = TrialParams(actors=[ActorParams(name="pole", actor_class="player")])


def samples(ticks: int) -> list[DatalogSample]:
    """Return the samples of a trial."""
    rng, made = np.random.default_rng(0), []
    for tick in range(ticks + 1):
        each = DatalogSample(user_id="ann", end_reason="done" if tick == ticks else "")
        each.observations.tick_id, each.observations.timestamp = tick, time.time_ns()
        content = CODEC.encode(rng.standard_normal(4).astype(np.float32))
        each.observations.observations.add(content=content, snapshot=True)
        each.observations.actors_map.append(0)
        each.actions.add(content=b"" if each.end_reason else CODEC.encode(np.int64(tick % 2)))
        reward = each.rewards.add(receiver_name="pole", tick_id=tick, value=1)
        reward.sources.add(sender_name="env", value=1, confidence=1)
        made.append(each)
    return made


def store(folder: Path, trials: int) -> None:
    """Write trials of 100 ticks as fast as they are taken."""
    made = samples(100)
    writer = StoreWriter(Location(folder))
    began, cpu = time.perf_counter(), time.process_time()
    for number in range(trials):
        while writer.waiting > 50_000:  # the producer waits here, and nowhere else
            time.sleep(0.001)
        log = writer.begin(f"trial-{number:08}", PARAMS, "")
        for each in made:
            log.sample(each)
        log.close()
    writer.close(600.0)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    size = sum(path.stat().st_size for path in folder.rglob("*.parquet")) / trials
    print(
        f"stored        {trials / seconds:8.0f} trials/s, {1e3 * cpu / trials:.2f} ms of CPU and "
        f"{size / 1024:.1f} KiB per trial, {writer.lost} samples lost"
    )


async def play(folder: Path | None, trials: int) -> float:
    """Run CartPole trials; return ticks per second."""
    environment = sdk.GymnasiumEnvironment.factory("CartPole-v1", seed=0)
    agent = lambda: sdk.FunctionAgent(lambda seen: seen.tick % 2, inline=True)  # noqa: E731
    local: dict[str, Any] = {
        "cartpole": sdk.local_environments({"": environment}),
        "policy": sdk.local_agents({"": agent}),
    }
    actor = {"name": "pole", "actor_class": "player", "endpoint": "local://policy"}
    config: dict[str, Any] = {
        "trial_params": {"environment": {"endpoint": "local://cartpole"}, "actors": [actor]}
    }
    if folder is not None:
        config["datalog"] = {"type": "store", "url": str(folder)}
    async with (
        await orchestrator.serve(config, port=0, local=local) as server,
        sdk.TrialController(f"127.0.0.1:{server.port}") as controller,
    ):

        async def one() -> None:
            await controller.wait_ended((await controller.start_trial()).id)

        began = time.perf_counter()
        for _ in range(0, trials, 16):
            await asyncio.gather(*(one() for _ in range(16)))
        return server.stats().ticks / (time.perf_counter() - began)


def listing(folder: Path, rows: int) -> None:
    """Fill an index, and time filters."""
    folder.mkdir()
    with closing(SqliteIndex(folder / NAME, create=True)) as index:
        began = time.perf_counter()
        for at in range(0, rows, 10_000):
            index.add([record(number) for number in range(at, min(at + 10_000, rows))])
        print(f"rows          {rows / (time.perf_counter() - began):8.0f} rows/s into the index")
    filters = {
        "newest 100": TrialFilter(limit=100),
        "class, newest 100": TrialFilter(actor_class="judge", limit=100),
        "since": TrialFilter(since=1_700_000_000 + rows - 100),
        "return": TrialFilter(min_return=999.9),
        "reason": TrialFilter(ended_by="rare"),
        "user": TrialFilter(user="user-77777"),
        "partial": TrialFilter(partial=True),
        "people, newest 100": TrialFilter(people=True, limit=100),
        "class and return": TrialFilter(actor_class="judge", min_return=999.5),
        "nothing fits": TrialFilter(actor_class="nobody"),
    }
    for name, wanted in filters.items():
        with open_store(folder) as store:
            began = time.perf_counter()
            count = sum(1 for _ in store.trials(wanted))
        print(f"ls {name:18} {time.perf_counter() - began:8.3f} s for {count} of {rows}")
    began = time.perf_counter()
    call = [sys.executable, "-m", "cogrs", "data", "ls", "--store", str(folder), "--json"]
    subprocess.run([*call, "--user", "user-77777"], check=True, stdout=subprocess.DEVNULL)
    print(f"ls command         {time.perf_counter() - began:8.3f} s")


def record(number: int) -> TrialRecord:
    """Return a row without a file."""
    kind = "judge" if number % 3 == 0 else "player"
    return TrialRecord(
        trial_id=f"{number * 2654435761 % 2**32:08x}-{number:08}",
        ticks=100,
        returns={"pole": number * 7919 % 1_000_000 / 1000},
        classes={"pole": kind},
        end_reason="a rare reason" if number % 50_000 == 0 else f"reason {number % 7}",
        user=f"user-{number % 100_000}",
        partial=number % 10_000 == 0,
        people=number % 10 == 0,
        started=moment_of(1_700_000_000 + number),
        ended=moment_of(1_700_000_001 + number),
        file=f"trials/session/{number // 1000:06}/{number:08}.parquet",
        size=10_000,
        checksum=number,
        params="{}",
    )


def show(folder: Path) -> None:
    """Time `cogrs data show` of a trial of 1,000 ticks."""
    writer = StoreWriter(Location(folder))
    log = writer.begin("long", PARAMS, "")
    for each in samples(1_000):
        log.sample(each)
    log.close()
    writer.close(60.0)
    call = [sys.executable, "-m", "cogrs", "data", "show", "--store", str(folder), "long"]
    # As an installed package has it: compiling the modules takes a third of the time.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    best, cpu = 1e9, 1e9
    for _ in range(10):
        began, before = time.perf_counter(), os.times()
        subprocess.run(call, check=True, stdout=subprocess.DEVNULL, env=environment)
        after = os.times()
        best = min(best, time.perf_counter() - began)
        used = after.children_user + after.children_system
        cpu = min(cpu, used - before.children_user - before.children_system)
    print(f"show          {best:8.3f} s for 1,000 ticks, {cpu:.3f} s of CPU")


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=3_000)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--orchestrated", type=int, default=320)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        store(folder / "stored", given.trials)
        for turn in range(2):
            without = asyncio.run(play(None, given.orchestrated))
            with_store = asyncio.run(play(folder / f"played{turn}", given.orchestrated))
            print(
                f"orchestrated  {without:8.0f} ticks/s without a store, {with_store:.0f} with one"
            )
        show(folder / "shown")
        listing(folder / "listed", given.rows)


if __name__ == "__main__":
    main()
