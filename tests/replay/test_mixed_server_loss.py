"""Servers that are stopped, killed and started again while a `MixedSampler` draws from them."""

from __future__ import annotations

import signal
import sys
import time
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from cogrs import MixedSampler, ReplayMemoryClient, ReplaySampler
from tests.replay import network
from tests.replay.build import UNIFORM, memory, steps

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="this system has no such signals")

SERVER = """
import sys
from tests.replay.network import made

options = {"nstep": True, "ids": True, "reuse_cache": True, "seed": 0}
server = made(1, pub_endpoint=sys.argv[1], **options).start(*sys.argv[2:4])
print("ready", flush=True)
sys.stdin.read()
"""
PATIENCE = 0.3
BACK = 50.0
"""Seconds within which all must go on; it takes less than a tenth of that."""


class Source:
    """A server in a process of its own, with a client in this one, and a sampler."""

    def __init__(self, stack: ExitStack) -> None:
        self.at = network.unused_endpoints(3)
        self.processes: list[subprocess.Popen[str]] = []
        stack.enter_context(network.ended(self.processes))
        self.start()
        self.client = stack.enter_context(ReplayMemoryClient(*self.at, 1, timeout=2, max_step=64))
        end = {"final_state": 120, "terminated": True}
        self.client.rem.add_episode(**steps(20, 100), **UNIFORM, **end)
        self.client.push_cache()
        self.sampler = stack.enter_context(ReplaySampler([self.at[1]], timeout=BACK))

    def start(self) -> None:
        self.processes.append(network.launch(SERVER, *self.at))
        network.said(self.processes[-1], "ready")

    def send(self, number: int) -> None:
        self.processes[-1].send_signal(number)


@pytest.fixture
def source() -> Iterator[Source]:
    with ExitStack() as stack:
        yield Source(stack)


def mixed(source: Source) -> tuple[MixedSampler, Any]:
    """A sampler of half a memory, half the server, and that memory."""
    rem = memory(64)
    rem.add_episode(**steps(20, 0), **UNIFORM, final_state=20, terminated=True)
    return MixedSampler({"memory": (rem, 0.5), "server": (source.sampler, 0.5)}), rem


def draw(sampler: MixedSampler, wait: float) -> Any:
    """Return a batch that has been checked: eight rows of each source."""
    batch = sampler.sample(16, wait=wait)
    assert (batch.prev.s[:, 0] // 100).tolist() == [0] * 8 + [1] * 8
    assert sampler.source_of(batch.id).tolist() == [0] * 8 + [1] * 8
    return batch


def fails_in_time(sampler: MixedSampler) -> None:
    with suppress(TimeoutError):  # an answer may have been under way
        sampler.sample(16, wait=PATIENCE)
    began = time.monotonic()
    with pytest.raises(TimeoutError, match="server: "):
        sampler.sample(16, wait=PATIENCE)
    assert time.monotonic() - began < network.SLACK


def test_server_that_is_stopped_costs_a_wait_and_goes_on(source: Source) -> None:
    sampler, rem = mixed(source)
    batch = draw(sampler, BACK)
    source.send(signal.SIGSTOP)
    try:
        fails_in_time(sampler)
        began = time.monotonic()
        # Neither waits for the server: one reaches the memory, the other is on its way.
        sampler.update_priority(batch.id, np.full(16, 4.0))
        assert time.monotonic() - began < network.SLACK
        drawn = batch.prev.s[:8, 0]
        assert set(rem.episode(0).weight[drawn]) == {2.0}
        sampler.set_fractions({"memory": 1.0, "server": 0.0})
        assert sampler.source_of(sampler.sample(16, wait=PATIENCE).id).tolist() == [0] * 16
        sampler.set_fractions({"memory": 0.5, "server": 0.5})
    finally:
        source.send(signal.SIGCONT)
    draw(sampler, BACK)
    told: list[int] = []

    def arrived() -> bool:
        told.append(source.client.apply_priorities().entries)
        return sum(told) > 0

    network.eventually(arrived, BACK)
    weights = source.client.rem.episode(0).weight
    assert set(weights[batch.prev.s[8:, 0] - 100]) == {2.0}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_server_that_ended_and_began_anew_gives_rows_again(source: Source, number: int) -> None:
    sampler, _ = mixed(source)
    batch = draw(sampler, BACK)
    source.send(number)
    source.processes[-1].wait(network.SLACK)
    fails_in_time(sampler)
    sampler.update_priority(batch.id, 4.0)
    source.start()
    network.eventually(lambda: pushed(source.client), BACK)
    for _ in range(3):
        batch = draw(sampler, BACK)
        sampler.update_priority(batch.id, 9.0)
    network.eventually(lambda: source.client.apply_priorities().entries > 0, BACK)
    # Errors for the server that ended are of entries that the client still has, and do no harm.
    assert set(source.client.rem.episode(0).weight[:-1]) <= {1.0, 2.0, 3.0}


def pushed(client: ReplayMemoryClient) -> bool:
    """Push a cache; return whether a server took it."""
    try:
        client.push_cache()
        client.update_counter()
    except (TimeoutError, ConnectionError, RuntimeError):
        return False
    return True
