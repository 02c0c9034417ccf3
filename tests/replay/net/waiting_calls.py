"""Calls of replay that wait, and a world in which nothing ends their wait."""

import math
from collections.abc import Callable
from typing import Any

from cogrs import Bind, Conn, RateLimiter
from tests.replay import build, network
from tests.replay.network import LOOPBACK, connected, deaf, made, push_for_ever, started


class World:
    """A server and clients for which nothing ever happens.

    Attributes:
        server: Nobody talks to it.
        client: Its server was never there.
        left: Its server is gone, and it has room for one message.
        limited: Its rate limiter allows no samples.
        full: Its rate limiter lets no entries in.
        ahead: A client of that.
    """

    def __init__(self, timeout: float | None = 60) -> None:
        self.server = made()
        self.client = deaf(timeout=timeout)
        with started() as gone:
            self.left = connected(gone, timeout=timeout, hwm=1)
        build.add_uniform(self.left.rem, 5)
        self.limited = made(limiter=RateLimiter.queue(2))
        self.full = started(limiter=RateLimiter.queue(2))
        self.ahead = connected(self.full, timeout=timeout)
        build.add_uniform(self.ahead.rem, 5)

    def close(self) -> None:
        for each in (self.server, self.client, self.left, self.limited, self.ahead, self.full):
            each.close()


def write_for_ever(world: World) -> None:
    while True:
        world.left.write_log("line")


def nowhere() -> str:
    (endpoint,) = network.unused_endpoints(1)
    return endpoint


LOOPS: dict[str, Callable[[World], Any]] = {
    "REP worker that binds": lambda at: at.server.rep_worker_main(LOOPBACK, Bind),
    "PULL worker that binds": lambda at: at.server.pull_worker_main(LOOPBACK, Bind),
    "REP worker that connects": lambda at: at.server.rep_worker_main(nowhere(), Conn),
    "PULL worker that connects": lambda at: at.server.pull_worker_main(nowhere(), Conn),
    "REP proxy": lambda at: at.server.rep_proxy_main(LOOPBACK, LOOPBACK),
    "PULL proxy": lambda at: at.server.pull_proxy_main(LOOPBACK, LOOPBACK),
}
"""Calls that go on until the close, and return then."""

WAITS: dict[str, Callable[[World], Any]] = {
    "get_batch": lambda at: at.server.get_batch(1, wait=math.inf),
    "get_batch with a limiter": lambda at: at.limited.get_batch(1),
    "wait_to_insert": lambda at: at.ahead.wait_to_insert(),
    "wait_subscribers": lambda at: at.server.wait_subscribers("t", timeout=None),
    "sub_bytes": lambda at: at.client.sub_bytes("t"),
    "sub_bytes for the last": lambda at: at.client.sub_bytes("t", last=True, timeout=60),
    "sync_sizes": lambda at: at.client.sync_sizes(8),
    "update_counter": lambda at: at.left.update_counter(),
    "push_cache": lambda at: push_for_ever(at.left),
    "write_log": write_for_ever,
}
"""Calls that wait for something, and say that their object is closed."""
