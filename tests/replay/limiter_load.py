"""Actors and a learner of a server with a rate limiter, and a watch over the counts."""

import random
import threading
import time
from collections.abc import Callable
from typing import Any

from cogrs import RateLimiter, ReplayMemoryServer
from tests.replay import build
from tests.replay.network import Call

ACTORS = 8
LONGEST = 12
"""Steps of an episode, at most."""
BATCH = 8
SPI, MIN_SIZE, BUFFER = 4.0, 40, 60.0


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


def act(client: Any, rng: random.Random, is_over: Callable[[], bool], pause: float = 0.02) -> None:
    """Insert episodes when that is allowed, at a random pace, and push a cache of each."""
    while not is_over():
        if client.wait_to_insert(timeout=0.5):
            build.add_uniform(client.rem, rng.randint(1, LONGEST))
            client.push_cache()
            if rng.random() < 0.5:
                client.update_counter()
            time.sleep(rng.choice((0.0, pause)) * rng.random())


def learn(
    source: Any, rng: random.Random, is_over: Callable[[], bool], pause: float = 0.005
) -> None:
    """Take batches at a random pace."""
    while not is_over():
        try:
            source.get_batch(rng.randint(1, BATCH), wait=0.5)
        except TimeoutError:
            continue
        time.sleep(rng.choice((0.0, pause)) * rng.random())
