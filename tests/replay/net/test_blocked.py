"""Every call that may wait ends soon when its object is closed, and by Ctrl-C."""

import signal
import time

import pytest

from tests.replay import network
from tests.replay.net.waiting_calls import LOOPS, WAITS, World
from tests.replay.network import Call


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
from tests.replay.net.waiting_calls import LOOPS, WAITS, World

worlds = []
calls = LOOPS | WAITS | {"constructor": lambda _: deaf(timeout=60, max_step=8)}
for name in sys.argv[1:]:
    worlds.append(World())
    try:
        print(name, flush=True)
        calls[name](worlds[-1])
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""
INTERRUPTED_CALLS = [*LOOPS, *WAITS, "constructor"]


# A few processes for all calls: each of them imports the package. None closes its objects.
@pytest.mark.parametrize("names", [INTERRUPTED_CALLS[at::4] for at in range(4)], ids=", ".join)
def test_control_c_ends_calls_that_wait_and_the_process(names: list[str]) -> None:
    process = network.launch(INTERRUPTED, *names)
    with network.ended([process]):
        for name in names:
            network.said(process, name)
            time.sleep(0.1)
            process.send_signal(signal.SIGINT)
            network.said(process, "interrupted")
        assert process.wait(network.SLACK) == 0
        assert process.communicate() == ("", "")
