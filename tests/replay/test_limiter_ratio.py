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
from typing import TYPE_CHECKING, Any

import pytest

from cogrs import RateLimiter, ReplayMemoryServer
from tests.replay import build, load, network
from tests.replay.network import Call, connected, started

if TYPE_CHECKING:
    import subprocess

ACTORS = 8
LONGEST = 12
"""Steps of an episode, at most."""
BATCH = 8
SPI, MIN_SIZE, BUFFER = 4.0, 40, 60.0
KILLS = 10 if build.SOAK else 3
SECONDS = 120.0 if build.SOAK else 3.0
BACK = 50.0
"""Seconds within which all must go on; it takes less than a tenth of that."""


def limiter() -> RateLimiter:
    return RateLimiter(SPI, MIN_SIZE, BUFFER)


def settings() -> dict[str, Any]:
    """Of the server: caches are small and used once, so that a learner is often starved."""
    return {"limiter": limiter(), "cache_size": BATCH}


class Watch:
    """Looks at a server's counts all the time, and remembers how far they went."""

    def __init__(self, server: ReplayMemoryServer) -> None:
        self._server = server
        self._stop = threading.Event()
        self.lowest = self.highest = MIN_SIZE * SPI
        self._running = Call(self._run)

    def _run(self) -> None:
        while not self._stop.wait(0.0005):
            stats = self._server.stats().limiter
            owed = stats.inserts * SPI - stats.samples
            self.highest = max(self.highest, owed)
            if stats.samples:
                self.lowest = min(self.lowest, owed)

    def assert_kept(self) -> None:
        assert self.lowest >= MIN_SIZE * SPI - BUFFER
        assert self.highest <= MIN_SIZE * SPI + BUFFER + ACTORS * LONGEST * SPI

    def end(self) -> None:
        self._stop.set()
        self._running.result()
        self.assert_kept()


def act(client: Any, rng: random.Random, is_over: Any) -> None:
    """Insert episodes when that is allowed, at a random pace, and push a cache of each."""
    while not is_over():
        if client.wait_to_insert(timeout=0.5):
            build.add_uniform(client.rem, rng.randint(1, LONGEST))
            client.push_cache()
            if rng.random() < 0.5:
                client.update_counter()
            time.sleep(rng.choice((0.0, 0.0, 0.01, 0.05)) * rng.random())


def learn(source: Any, rng: random.Random, is_over: Any) -> None:
    """Take batches at a random pace."""
    while not is_over():
        try:
            source.get_batch(rng.randint(1, BATCH), wait=0.5)
        except TimeoutError:
            continue
        time.sleep(rng.choice((0.0, 0.0, 0.0, 0.02)) * rng.random())


@pytest.mark.parametrize("slow", ["neither", "learner", "actors"])
def test_ratio_of_many_actors_and_a_learner_stays_within_buffer_and_episodes(slow: str) -> None:
    over = threading.Event()
    with started(4, **settings()) as server:
        clients = [connected(server, 200) for _ in range(ACTORS)]
        watch = Watch(server)
        actors = [
            Call(lambda c=c, k=k: act(c, random.Random(k), over.is_set))
            for k, c in enumerate(clients[:1] if slow == "actors" else clients)
        ]
        if slow == "learner":
            assert not over.wait(0.3)
        learner = Call(lambda: learn(server, random.Random(99), over.is_set))
        end = time.monotonic() + SECONDS
        grown = 0
        while time.monotonic() < end:
            time.sleep(0.5)
            watch.assert_kept()
            stats = server.stats().limiter
            assert stats.samples > grown, "the learner stands still"
            grown = stats.samples
        over.set()
        for call in (*actors, learner):
            call.result(60)
        watch.end()
        stats = server.stats().limiter
        assert stats.inserts > 2 * MIN_SIZE
        for client in clients:
            client.close()


PROCESS = """
import json, random, sys
from cogrs import ReplayMemoryClient, ReplaySampler
from tests.replay import network, test_limiter_ratio as ratio

kind, seed, at = sys.argv[1], int(sys.argv[2]), sys.argv[3:6]
if kind == "server":
    server = network.made(4, pub_endpoint=at[0], **ratio.settings()).start(*at[1:])
    watch = ratio.Watch(server)
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
                            ratio.act(client, rng, never)
                        except TimeoutError:
                            continue
            with ReplaySampler([at[1]], timeout=2) as sampler:
                ratio.learn(sampler, rng, never)
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
            time.sleep(rng.uniform(0, SECONDS / KILLS / 2))
            kind = kinds[kill % 3]
            victim = rng.choice([each for each in running if each[0] == kind])
            victim[1].kill()
            victim[1].wait(network.SLACK)
            running.remove(victim)
            start(kind)
            processes.append(running[-1][1])
            goes_on()
