"""A learner and its actors in processes of their own, some of which die."""

import multiprocessing
import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cogrs import ReplayMemoryClient
from tests.replay import build, network
from tests.replay.network import SLACK, Call, arrived, connected, eventually, started

SPAWN = multiprocessing.get_context("spawn")


def actor(at: tuple[str, str, str], number: int, episodes: int) -> None:
    """Fill the memory with steps of its own, push, count and log; then wait for the next model."""
    with ReplayMemoryClient(*at, input_uuid=number, max_step=256, timeout=60) as client:
        model = int(client.sub_bytes("model", timeout=60, last=True))
        for episode in range(episodes):
            build.add_uniform(
                client.rem, 10, first=1_000_000 * number + 1000 * model + 20 * episode
            )
            client.update_counter()
            assert client.push_cache() == 0
            client.write_log(f"episode {episode} of model {model}")
        assert client.sub_bytes("model", timeout=60) == b"2"
        client.write_log("done")


def test_learner_and_two_actors(tmp_path: Path) -> None:
    with started(8, cache_size=16) as server:
        server.set_logfile(tmp_path / "log", "w")
        server.pub_bytes("model", "1")
        actors = [
            SPAWN.Process(target=actor, args=(network.endpoints(server), number, 8), daemon=True)
            for number in (1, 2)
        ]
        for each in actors:
            each.start()
        eventually(lambda: server.total_caches == 16, 100)
        batch = server.get_batch(8 * 16)
        server.wait_subscribers("model", 2, timeout=SLACK)
        server.pub_bytes("model", "2")
        for each in actors:
            each.join(60)
            assert each.exitcode == 0
        eventually(lambda: (tmp_path / "log").read_text().count("done") == 2)
        assert (server.total_episodes, server.total_steps) == (16, 160)
        assert server.total_refused == 0
    network.assert_consistent(batch)
    steps = batch.prev.i % 1_000_000 - 1000
    assert set(np.unique(batch.prev.i // 1_000_000)) <= {1, 2}
    assert ((steps >= 0) & (steps % 20 < 9)).all()
    log = (tmp_path / "log").read_text().splitlines()
    for number in (1, 2):
        own = [line.split(",", 2)[2] for line in log if f",{number:08x}," in line]
        assert own == [*(f"episode {episode} of model 1" for episode in range(8)), "done"]


PUSHER = """
import sys, numpy as np
from cogrs import ReplayMemoryClient
from tests.replay import build

client = ReplayMemoryClient(*sys.argv[1:4], max_step=16)
size = client.rem.state_buf.nbytes
build.add_uniform(client.rem, 8, s=np.repeat(np.arange(8, dtype=np.uint8), size).reshape(8, size))
print("ready", flush=True)
while True:
    client.push_cache()
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system cannot kill")
def test_actor_killed_while_pushing_leaves_no_half_cache() -> None:
    # A cache has 32 MiB of states, prev's and next's.
    with started(2, s=np.zeros(1 << 20, np.uint8), cache_size=16) as server:
        for pause in (0.02, 0.05, 0.11):
            pusher = network.launch(PUSHER, *network.endpoints(server))
            with network.ended([pusher]):
                network.said(pusher, "ready")
                arrived(server, server.total_caches + 1)
                time.sleep(pause)
                os.kill(pusher.pid, signal.SIGKILL)
                pusher.wait(SLACK)
        with connected(server, 16) as client:
            build.add_uniform(client.rem, 8, s=np.ones((8, 1 << 20), np.uint8))
            client.update_counter()
            before = server.total_caches
            client.push_cache()
            arrived(server, before + 1)
        prev, later, _ = server.get_batch(32)
        assert server.total_refused == 0
    for side in (prev, later):
        first = side.s[:, :, :1]
        assert (side.s == first).all()
        assert ((first[:, 0, 0] == side.i) | (first[:, 0, 0] == 1)).all()


PRODUCERS = """
import sys
import numpy as np
from cogrs import ReplayMemoryClient
from tests.replay import build, network

clients = [ReplayMemoryClient(*sys.argv[1:4], max_step=64) for _ in range(int(sys.argv[4]))]
for client in clients:
    build.add_uniform(client.rem, 20, s=np.ones((20, client.rem.state_buf.nbytes), np.uint8))
calls = [network.Call(lambda at=at: network.push_for_ever(at)) for at in clients]
for call in calls:
    call.result(3600)
"""


def test_producers_without_a_consumer_do_not_make_the_server_grow() -> None:
    """16 clients push flat out: what waits for the worker is bounded, and so is what is kept."""
    processes, threads = (16, 1) if build.SOAK else (2, 8)
    # A cache has 1 MiB of states. 4 of each client wait, and 4 are kept.
    with started(4, s=np.zeros(1 << 14, np.uint8), cache_size=32, hwm=4) as server:
        pushing = [
            network.launch(PRODUCERS, *network.endpoints(server), str(threads))
            for _ in range(processes)
        ]
        with network.ended(pushing):
            eventually(lambda: len(server.stats().clients) == 16, 60)
            arrived(server, server.total_caches + 200)
            before, count = network.resident_bytes(), server.total_caches
            time.sleep(180 if build.SOAK else 0)
            eventually(lambda: server.total_caches >= count + 800, 60)
            assert network.resident_bytes() - before < 100 << 20
            assert len(server.get_batch(4 * 32).weight) == 4 * 32
            assert len(server.stats().clients) == 16
            assert server.total_refused == 0


LEARNER = """
import sys
from tests.replay import network

server = network.made(1, pub_endpoint=sys.argv[1]).start(*sys.argv[2:4])
print("ready", flush=True)
for line in sys.stdin:
    if line == "counts\\n":
        print(server.total_episodes, server.total_caches > 0, flush=True)
    else:
        server.pub_bytes("model", line.strip())
"""


def launched_learner(at: list[str]) -> Any:
    process = network.launch(LEARNER, *at)
    network.said(process, "ready")
    return process


def tell(process: Any, line: str) -> None:
    process.stdin.write(line + "\n")
    process.stdin.flush()


def test_client_finds_a_learner_that_was_killed_and_started_again() -> None:
    at = network.unused_endpoints(3)
    first = launched_learner(at)
    processes = [first]
    with network.ended(processes), ReplayMemoryClient(*at, max_step=16, timeout=5) as client:
        build.add_uniform(client.rem, 5)
        assert client.push_cache() == 0
        client.update_counter()
        hears = Call(lambda: client.sub_bytes("model", timeout=100))
        assert hears.blocks()
        first.kill()
        first.wait(SLACK)
        processes.append(launched_learner(at))

        def counted() -> bool:
            try:
                client.update_counter()
            except TimeoutError:
                return False
            return True

        def pushed() -> bool:
            client.push_cache()
            tell(processes[1], "counts")
            return processes[1].stdout.readline() == "1 True\n"

        def heard() -> bool:
            tell(processes[1], "2")
            return not hears.blocks()

        eventually(counted, 50)
        eventually(pushed, 50)
        eventually(heard, 50)
        assert hears.result() == b"2"


CLOSES_LATE = """
import sys
from cogrs import ReplayMemoryClient
from tests.replay import build

client = ReplayMemoryClient(*sys.argv[1:4], max_step=64)
build.add_uniform(client.rem, 20)
for _ in range(5):
    client.push_cache()
"""


def test_last_push_of_an_actor_arrives_after_its_process_ends() -> None:
    with started() as server:
        done = network.run(CLOSES_LATE, *network.endpoints(server))
        assert (done.returncode, done.stderr) == (0, "")
        arrived(server, 5)
