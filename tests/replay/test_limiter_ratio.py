"""Many actors and a learner at random speeds: the ratio that a rate limiter keeps, after kills too.

An actor inserts one episode at most without the server's knowledge. So inserts are ahead of what
the limiter allows by no more than one episode for each actor.
"""

import json
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.replay import build, load, network
from tests.replay.limiter_load import (
    ACTORS,
    BATCH,
    BUFFER,
    LONGEST,
    MIN_SIZE,
    SPI,
    Watch,
    act,
    learn,
    settings,
)
from tests.replay.network import Call, connected, started

if TYPE_CHECKING:
    import subprocess

KILLS = 10 if build.SOAK else 3
SECONDS = 120.0 if build.SOAK else 3.0
BACK = 50.0
"""Seconds within which all must go on; it takes less than a tenth of that."""


@pytest.mark.parametrize(
    ("actors", "acting", "learning"),
    [(ACTORS, 0.02, 0.005), (ACTORS, 0.0, 0.05), (1, 0.05, 0.0)],
    ids=["as fast", "slow learner", "slow actor"],
)
def test_ratio_stays_within_buffer_and_an_episode_of_each_actor(
    actors: int, acting: float, learning: float
) -> None:
    over = threading.Event()
    with started(4, **settings()) as server, ExitStack() as stack:
        clients = [stack.enter_context(connected(server, 200)) for _ in range(actors)]
        watch = Watch(server)
        calls = [
            Call(lambda c=client, k=seed: act(c, random.Random(k), over.is_set, acting))
            for seed, client in enumerate(clients)
        ]
        calls.append(Call(lambda: learn(server, random.Random(99), over.is_set, learning)))
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            samples = server.stats().limiter.samples
            network.eventually(lambda n=samples: server.stats().limiter.samples > n + 3 * BATCH)
            watch.assert_kept()
        over.set()
        for call in calls:
            call.result(60)
        watch.end()
        assert server.stats().limiter.inserts > 2 * MIN_SIZE


PROCESS = """
import json, random, sys
from cogrs import ReplayMemoryClient, ReplaySampler
from tests.replay import limiter_load, network

kind, seed, at = sys.argv[1], int(sys.argv[2]), sys.argv[3:6]
if kind == "server":
    server = network.made(4, pub_endpoint=at[0], **limiter_load.settings()).start(*at[1:])
    watch = limiter_load.Watch(server)
    print("ready", flush=True)
    for line in sys.stdin:
        stats = server.stats().limiter
        print(json.dumps([stats.inserts, stats.samples, watch.lowest, watch.highest]), flush=True)
else:
    print("ready", flush=True)
    rng, never = random.Random(seed), lambda: False
    while True:
        try:
            if kind == "actor":
                with ReplayMemoryClient(*at, max_step=200, timeout=2) as client:
                    while True:
                        try:
                            limiter_load.act(client, rng, never)
                        except TimeoutError:
                            continue
            with ReplaySampler([at[1]], timeout=2) as sampler:
                limiter_load.learn(sampler, rng, never)
        except TimeoutError:
            continue
"""


@pytest.fixture
def at() -> Iterator[list[str]]:
    """Where the server publishes, answers and pulls."""
    with tempfile.TemporaryDirectory(prefix="cogrs") as folder:
        yield load.endpoints("tcp", folder, network.unused_endpoints(3))


@pytest.mark.skipif(sys.platform == "win32", reason="this system cannot kill")
@pytest.mark.timeout(600)
def test_ratio_is_kept_when_actors_learner_and_server_are_killed(at: list[str]) -> None:
    rng = random.Random(0)
    number = iter(range(1000))
    running: list[tuple[str, subprocess.Popen[str]]] = []

    def start(kind: str) -> None:
        process = network.launch(PROCESS, kind, str(next(number)), *at)
        running.append((kind, process))
        network.said(process, "ready")

    def counts() -> list[float]:
        (server,) = (process for kind, process in running if kind == "server")
        server.stdin.write("counts\n")
        server.stdin.flush()
        inserts, samples, lowest, highest = json.loads(server.stdout.readline())
        assert lowest >= MIN_SIZE * SPI - BUFFER
        # A killed actor may have inserted once more than it told.
        assert highest <= MIN_SIZE * SPI + BUFFER + ACTORS * LONGEST * SPI
        return [inserts, samples]

    def goes_on() -> None:
        inserts, samples = counts()
        network.eventually(
            lambda: counts()[0] > inserts + 2 * LONGEST and counts()[1] > samples + 2 * BATCH, BACK
        )

    processes: list[subprocess.Popen[str]] = []
    with network.ended(processes):
        for kind in ("server", "learner", *["actor"] * (ACTORS if build.SOAK else 2)):
            start(kind)
            processes.append(running[-1][1])
        goes_on()
        kinds = ["learner", "actor", "server"]
        for kill in range(KILLS):
            time.sleep(rng.uniform(0.5, 1.5) * SECONDS / KILLS)
            kind = kinds[kill % 3]
            victim = rng.choice([each for each in running if each[0] == kind])
            victim[1].kill()
            victim[1].wait(network.SLACK)
            running.remove(victim)
            start(kind)
            processes.append(running[-1][1])
            goes_on()
