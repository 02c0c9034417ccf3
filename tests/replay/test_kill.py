"""Servers, clients and proxies that are killed under load, and started again at the same place."""

import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from cogrs import Conn, ReplayMemoryClient
from tests.replay import build, load, network
from tests.replay.load import HELD, SETTINGS, STEPS, Load
from tests.replay.network import Call, arrived, eventually, made

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="this system cannot kill")

ROUNDS = 20 if build.SOAK else 1
BACK = 50.0
"""Seconds within which all must go on; it takes less than a tenth of that."""


@pytest.fixture(params=["tcp", "ipc"])
def at(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Where to publish, answer and pull, and two backs for a proxy."""
    # The path of a socket has at most 107 characters.
    with tempfile.TemporaryDirectory(prefix="cogrs") as folder:
        yield load.endpoints(request.param, folder, network.unused_endpoints(5))


def after_some_load(rng: random.Random) -> None:
    time.sleep(rng.uniform(0, 0.3))


SERVER = """
import json, sys
from tests.replay import load, network

server = network.made(load.HELD, pub_endpoint=sys.argv[1], **load.SETTINGS).start(*sys.argv[2:4])
print("ready", flush=True)
for line in sys.stdin:
    if line == "held\\n":
        load.settled(server)
        print(json.dumps(load.held(server)), flush=True)
    else:
        print(json.dumps([server.total_episodes, server.total_steps, server.total_caches,
                          server.total_refused]), flush=True)
"""


def ask(process: Any, line: str) -> Any:
    process.stdin.write(line + "\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def test_server_that_is_killed_and_started_again(at: list[str]) -> None:
    rng = random.Random(0)
    processes = [network.launch(SERVER, *at[:3])]
    with network.ended(processes), ReplayMemoryClient(*at[:3], timeout=2) as client:
        network.said(processes[-1], "ready")
        client.sync_sizes(64)
        running = Load(client)
        for _ in range(ROUNDS):
            eventually(lambda: ask(processes[-1], "totals")[2] > 0, BACK)
            after_some_load(rng)
            processes[-1].kill()
            processes[-1].wait(network.SLACK)
            processes.append(network.launch(SERVER, *at[:3]))
            network.said(processes[-1], "ready")
            eventually(lambda: ask(processes[-1], "totals")[2] > 2 * HELD, BACK)
            episodes, _, _, refused = ask(processes[-1], "totals")
            assert episodes <= client.rem.total_episodes
            assert refused == 0
        totals = running.end()
        # What came after the new connection came whole, in order, and once.
        assert [tuple(each) for each in ask(processes[-1], "held")] == running.newest()
        assert tuple(ask(processes[-1], "totals")[:2]) == totals


CLIENT = """
import sys
from cogrs import ReplayMemoryClient
from tests.replay import load

client = ReplayMemoryClient(*sys.argv[1:4], int(sys.argv[4]), max_step=64)
number = 0
while True:
    load.push_numbered(client, number)
    client.update_counter()
    number += 1
    print(number, flush=True)
"""


def test_client_that_is_killed_and_started_again(at: list[str]) -> None:
    rng = random.Random(1)
    episodes: dict[int, set[int]] = {}
    with made(HELD, pub_endpoint=at[0], **SETTINGS).start(*at[1:3]) as server:
        for uuid in [*range(1, ROUNDS + 2), ROUNDS + 1]:
            before = server.stats().clients.get(uuid)
            process = network.launch(CLIENT, *at[:3], str(uuid))
            with network.ended([process]):
                for number in range(1, HELD + 3):
                    network.said(process, str(number))
                after_some_load(rng)
                process.kill()
                counted = [int(line) for line in process.stdout if line.endswith("\n")]
            load.settled(server)
            told = max([HELD + 2, *counted])
            # Its last request may have come though its answer did not.
            known = episodes.get(uuid, {0})
            episodes[uuid] = {max(old, new) for old in known for new in (told, told + 1)}
            caches = server.stats().clients[uuid].caches - (before.caches if before else 0)
            assert HELD < caches <= told + 1
            assert load.held(server) == [(uuid, n) for n in range(caches - HELD, caches)]
            assert server.total_refused == 0
            assert server.total_caches == sum(
                tally.caches for tally in server.stats().clients.values()
            )
            assert server.total_episodes in sums(episodes.values())
            assert server.total_steps == STEPS * server.total_episodes


def sums(choices: Any) -> set[int]:
    """All sums of one number of each set."""
    found = {0}
    for each in choices:
        found = {total + number for total in found for number in each}
    return found


@contextmanager
def proxy(ends: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A proxy in a process of its own, which is killed at the end."""
    options = ("--rep-front", "--rep-back", "--pull-front", "--pull-back")
    given = [text for pair in zip(options, ends, strict=True) for text in pair]
    process = subprocess.Popen(
        [sys.executable, "-m", "cogrs.cli", "replay-proxy", *given],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with network.ended([process]):
        assert [process.stdout.readline() for _ in ends][-1].startswith("pull_back")
        yield process


def test_proxy_that_is_killed_and_started_again(at: list[str]) -> None:
    rng = random.Random(2)
    pub, rep, pull, rep_back, pull_back = at
    ends = [rep, rep_back, pull, pull_back]
    server = made(HELD, pub_endpoint=pub, **SETTINGS)
    working = [
        Call(lambda: server.rep_worker_main(rep_back, Conn)),
        Call(lambda: server.pull_worker_main(pull_back, Conn)),
    ]
    with server, ReplayMemoryClient(*at[:3], timeout=2) as client:
        with proxy(ends):
            eventually(lambda: synced(client), BACK)
            running = Load(client)
            arrived(server, 3)
            after_some_load(rng)
        for left in reversed(range(ROUNDS)):
            with proxy(ends):
                before = server.total_caches
                eventually(lambda before=before: server.total_caches > before + 2 * HELD, BACK)
                after_some_load(rng)
                if left == 0:
                    totals = running.end()
                    load.settled(server)
        assert load.held(server) == running.newest()
        assert (server.total_episodes, server.total_steps) == totals
        assert server.total_caches <= running.number
        assert server.total_refused == 0
    for each in working:
        assert each.result() is None


def synced(client: ReplayMemoryClient) -> bool:
    try:
        client.sync_sizes(64)
    except TimeoutError:
        return False
    return True
