"""How a learner fares with many actors: `python benchmarks/scale.py --actors 100 1000`.

Simulated actors are threads of a few processes, each with a client of its own, that push small
caches at a rate which is the same for all actors together. Shards are processes too. The learner,
here, draws batches as fast as it can. Read `docs/scale.md` for what the figures say.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

import cogrs

ROWS = 16
"""Samples of a cache."""
PROCESSES = 4
"""Of simulated actors."""


def serve() -> None:
    """Run a shard until the input ends."""
    zero, state = np.float32(0), np.zeros(4, np.float32)
    templates = (state, np.int32(0), zero, zero, zero, zero, np.zeros(0, np.float32))
    server = cogrs.ReplayMemoryServer(*templates, 0, "tcp://127.0.0.1:*", 64, nstep=True)
    server.rem.cache_size, server.rem.reuse_cache = ROWS, True
    server.start()
    where = (server.pub_endpoint, server.rep_endpoint, server.pull_endpoint)
    print(json.dumps(where), flush=True)
    for _ in sys.stdin:
        print(json.dumps([server.total_caches, resident()]), flush=True)


def resident() -> int:
    """Return the bytes of memory of this process."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def act(shards: list[list[str]], first: int, count: int, rate: float) -> None:
    """Push caches from so many clients, at so many caches per second in all."""
    ready = threading.Barrier(count + 1)
    over = threading.Event()
    threads = [
        threading.Thread(target=_actor, args=(shards, first + at, count / rate, ready, over))
        for at in range(count)
    ]
    for thread in threads:
        thread.start()
    ready.wait(300)
    print("ready", flush=True)
    sys.stdin.read()
    over.set()
    for thread in threads:
        thread.join()


def _actor(
    shards: list[list[str]],
    number: int,
    period: float,
    ready: threading.Barrier,
    over: threading.Event,
) -> None:
    pub, rep, _ = shards[number % len(shards)]
    pulls = [pull for _, _, pull in shards]
    with cogrs.ReplayMemoryClient(pub, rep, pulls, timeout=120.0) as client:
        client.sync_sizes(64)
        ones = np.ones(50)
        client.rem.add_episode(
            np.zeros((50, 4)), range(50), ones, ones, 0 * ones, np.zeros((50, 0)), 1.0
        )
        client.push_cache()
        ready.wait(300)
        over.wait(period * np.random.default_rng(number).random())
        while not over.wait(period):
            client.update_counter()
            client.push_cache()


def started(*words: object) -> subprocess.Popen[str]:
    """Start this program in a part of the benchmark."""
    command = [sys.executable, __file__, *map(str, words)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def line(process: subprocess.Popen[str]) -> str:
    """Return the next line of a process."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def measure(actors: int, shards: int, rate: float, seconds: float, batch: int) -> list[float]:
    """Return median and 99 % of a batch in ms, batches and caches per second, MB of a shard."""
    servers = [started("serve") for _ in range(shards)]
    where = [json.loads(line(each)) for each in servers]
    split = [actors // PROCESSES] * PROCESSES
    plays = [
        started("act", json.dumps(where), at * split[at], split[at], rate / PROCESSES)
        for at in range(PROCESSES)
    ]
    try:
        for each in plays:
            assert line(each) == "ready"

        def told() -> list[list[int]]:
            for server in servers:
                assert server.stdin is not None
                server.stdin.write("told\n")
                server.stdin.flush()
            return [json.loads(line(server)) for server in servers]

        ahead = 2 * shards - 1 if shards > 1 else 0  # as the learner of a run
        endpoints = [rep for _, rep, _ in where]
        with cogrs.ReplaySampler(endpoints, timeout=120.0, ahead=ahead) as sampler:
            for _ in range(50):
                sampler.get_batch(batch, wait=60.0)
            before, took = told(), []
            begin = time.monotonic()
            while time.monotonic() - begin < seconds:
                start = time.perf_counter()
                sampler.get_batch(batch, wait=60.0)
                took.append(time.perf_counter() - start)
            spent = time.monotonic() - begin
            after = told()
        caches = sum(now[0] - then[0] for now, then in zip(after, before, strict=True))
        memory = max(now[1] for now in after) / 1e6
        median, late = np.percentile(took, [50, 99]) * 1e3
        return [median, late, len(took) / spent, caches / spent, memory]
    finally:
        for each in (*plays, *servers):
            assert each.stdin is not None
            each.stdin.close()
        for each in (*plays, *servers):
            try:
                each.wait(30)
            except subprocess.TimeoutExpired:
                each.kill()


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--actors", type=int, nargs="+", default=[100, 300, 1000])
    parser.add_argument("--shards", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--rate", type=float, default=200.0, help="caches per second, of all")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--batch", type=int, default=64, help="rows of a batch")
    parser.add_argument("--rounds", type=int, default=1, help="measure all so often, in turn")
    args = parser.parse_args()
    names = ("median ms", "99 % ms", "batches/s", "caches/s", "shard MB")
    print("shards  actors  " + "  ".join(f"{name:>9}" for name in names), flush=True)
    best: dict[tuple[int, int], float] = {}
    for _ in range(args.rounds):
        for shards in args.shards:
            for actors in args.actors:
                figures = measure(actors, shards, args.rate, args.seconds, args.batch)
                shown = "  ".join(f"{each:9.2f}" for each in figures)
                print(f"{shards:6}  {actors:6}  {shown}", flush=True)
                place = shards, actors
                best[place] = max(figures[2], best.get(place, 0.0))
    first = args.shards[0]
    for (shards, actors), rate in best.items():
        ratio = rate / best[first, actors]
        print(f"{shards} shards, {actors} actors: {ratio:.2f} x the batches per second of {first}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve"]:
            serve()
        case ["act", where, first, count, rate]:
            act(json.loads(where), int(first), int(count), float(rate))
        case _:
            main()
