"""Load for servers: numbered caches, which show which arrived, whole and in which order."""

import threading
import time
from typing import Any

import numpy as np

from cogrs import ReplayMemoryClient, ReplayMemoryServer
from tests.replay import build
from tests.replay.network import SLACK, Call, eventually

SETTINGS = {"s": np.zeros(1 << 15, np.uint8), "cache_size": 16}
"""A cache has 1 MiB of states: what is killed is killed in the middle of one."""
HELD = 8
"""Caches that the servers keep."""
STEPS = 8
"""Steps of an episode, of which there is one for each cache."""


def push_numbered(client: ReplayMemoryClient, number: int) -> None:
    """Push a cache that holds its number and its sender in every sample."""
    states = np.full((STEPS, *client.rem.state_buf.shape), number % 251, np.uint8)
    fields = {"s": states, "a": np.full(STEPS, number), "i": np.full(STEPS, client.uuid)}
    client.rem.clear()
    build.add_uniform(client.rem, STEPS, **fields)
    assert client.push_cache() == 0


def held(server: ReplayMemoryServer) -> list[tuple[int, int]]:
    """Take all samples of the caches held, which must be whole: sender and number of each."""
    rows = server.rem.cache_size
    batch = server.get_batch(HELD * rows)
    for side in (batch.prev, batch.next):
        assert (side.s == (side.a % 251).astype(np.uint8)[:, None, None]).all()
        assert (side.a == batch.prev.a).all()
        assert (side.i == batch.prev.i).all()
    assert (batch.next.r == batch.prev.r + 1).all()
    found, counts = np.unique(np.stack([batch.prev.i, batch.prev.a]), axis=1, return_counts=True)
    assert counts.tolist() == [rows] * HELD
    return [(int(sender), int(number)) for sender, number in found.T]


def settled(server: ReplayMemoryServer) -> None:
    """Wait until nothing arrives any more."""
    end = time.monotonic() + SLACK
    before = -1
    while before != server.total_caches:
        assert time.monotonic() < end, "it never ends"
        before = server.total_caches
        time.sleep(0.3)


class Load:
    """A client that pushes and counts on a thread, whatever becomes of its server."""

    def __init__(self, client: ReplayMemoryClient) -> None:
        self.client = client
        self.number = 0
        """Caches that were pushed, and the number of the next."""
        self._stop = threading.Event()
        self._running = Call(self._run)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                push_numbered(self.client, self.number)
                self.number += 1
                self.client.update_counter()
            except TimeoutError:
                continue

    def end(self) -> tuple[int, int]:
        """Stop, tell the server the totals, and return these: episodes and steps."""
        self._stop.set()
        self._running.result(60)
        eventually(self._counted, 50)
        return self.client.rem.total_episodes, self.client.rem.total_steps

    def _counted(self) -> bool:
        try:
            self.client.update_counter()
        except TimeoutError:
            return False
        return True

    def newest(self) -> list[tuple[int, int]]:
        """What a server holds that got the last ones."""
        return [(self.client.uuid, number) for number in range(self.number - HELD, self.number)]


def endpoints(wire: str, folder: Any, unused: list[str]) -> list[str]:
    """Endpoints of a kind: ipc's are in the folder."""
    if wire == "tcp":
        return unused
    return [f"ipc://{folder}/{at}" for at in range(len(unused))]
