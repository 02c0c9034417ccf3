"""Every call that may wait ends soon when its object is closed, and by Ctrl-C."""

import math
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from cogrs import Bind, Conn
from tests.replay import build, network
from tests.replay.network import LOOPBACK, Call, connected, deaf, made, push_for_ever, started


class World:
    """A server and clients for which nothing ever happens.

    Attributes:
        server: Nobody talks to it.
        client: Its server was never there.
        left: Its server is gone, and it has room for one message.
    """

    def __init__(self, timeout: float | None = 60) -> None:
        self.server = made()
        self.client = deaf(timeout=timeout)
        with started() as gone:
            self.left = connected(gone, timeout=timeout, hwm=1)
        build.add_uniform(self.left.rem, 5)

    def close(self) -> None:
        for each in (self.server, self.client, self.left):
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
    "wait_subscribers": lambda at: at.server.wait_subscribers("t", timeout=None),
    "sub_bytes": lambda at: at.client.sub_bytes("t"),
    "sub_bytes for the last": lambda at: at.client.sub_bytes("t", last=True, timeout=60),
    "sync_sizes": lambda at: at.client.sync_sizes(8),
    "update_counter": lambda at: at.left.update_counter(),
    "push_cache": lambda at: push_for_ever(at.left),
    "write_log": write_for_ever,
}
"""Calls that wait for something, and say that their object is closed."""


@pytest.mark.parametrize("name", LOOPS | WAITS)
def test_close_ends_calls_and_loops_that_wait(name: str) -> None:
    world = World()
    waits = [Call(lambda: (LOOPS | WAITS)[name](world)) for _ in range(2)]
    assert all(each.blocks() for each in waits)
    world.close()
    for each in waits:
        if name in LOOPS:
            assert each.result() is None
        else:
            with pytest.raises(RuntimeError, match=r"ReplayMemory\w+ is closed"):
                each.result()


@pytest.mark.parametrize("name", ["sync_sizes", "update_counter", "push_cache", "write_log"])
def test_close_ends_calls_without_a_timeout(name: str) -> None:
    world = World(timeout=None)
    waits = Call(lambda: WAITS[name](world))
    assert waits.blocks()
    world.close()
    with pytest.raises(RuntimeError, match="ReplayMemoryClient is closed"):
        waits.result()


INTERRUPTED = """
import sys
from tests.replay.network import deaf
from tests.replay.net.test_blocked import LOOPS, WAITS, World

world = World()
calls = LOOPS | WAITS | {"constructor": lambda _: deaf(timeout=60, max_step=8)}
try:
    print("ready", flush=True)
    calls[sys.argv[1]](world)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("name", [*LOOPS, *WAITS, "constructor"])
def test_control_c_ends_calls_that_wait_and_the_process(name: str) -> None:
    process = network.launch(INTERRUPTED, name)
    with network.ended([process]):
        network.said(process, "ready")
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.wait(network.SLACK) == 0
        assert process.communicate() == ("interrupted\n", "")
