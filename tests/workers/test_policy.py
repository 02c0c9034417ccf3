"""Policies that raise, or never return: requests are answered, and `close` returns."""

import asyncio
import threading

import numpy as np
import pytest

from cogrs.workers import ActorWorker
from tests.orchestrator.net import on_loop
from tests.replay import network
from tests.workers import world
from tests.workers.world import stage

STATE = np.zeros(3, np.float32)

LEAVINGS = [
    SystemExit(3),
    KeyboardInterrupt(),
    GeneratorExit(),
    StopIteration(),
    asyncio.CancelledError(),
    MemoryError("no room"),
    RuntimeError("closed"),
]


@pytest.mark.parametrize("leaving", LEAVINGS, ids=lambda error: type(error).__name__)
@on_loop
async def test_policy_that_raises_an_exit_fails_its_trial_and_answers_the_next(leaving, caplog):
    def policy(states):
        if (states[:, 0] == 1).any():
            raise leaving
        return world.decide(states)

    async with stage(policy, batch_size=1) as on:
        await on.play()
        with pytest.raises(RuntimeError, match=f"the policy failed: {type(leaving).__name__}"):
            await on.worker.decide(np.array([1, 0, 0], np.float32))
        await on.play()
        assert [int(each.entries.state[0, 0]) for each in on.episodes()] == [2]
        with pytest.raises(RuntimeError) as caught:
            on.worker.check()
        assert caught.value.__cause__ is leaving
    assert "the policy failed" in caplog.text


@on_loop
async def test_policy_that_never_returns_is_abandoned(monkeypatch, caplog):
    monkeypatch.setattr("cogrs.workers.actor_worker._PATIENCE", 0.1)
    entered, held = threading.Event(), threading.Event()

    def policy(states):
        entered.set()
        held.wait(network.SLACK)
        return world.decide(states)

    with world.made_server() as server, network.connected(server) as client:
        worker = ActorWorker(client, policy)
        waiting = asyncio.create_task(worker.decide(STATE))
        await asyncio.to_thread(entered.wait, network.SLACK)
        await asyncio.to_thread(worker.close)
        with pytest.raises(RuntimeError, match="closed"):
            await waiting
        assert not held.is_set()
        held.set()
    assert "did not return within 0.1 s" in caplog.text


@pytest.mark.parametrize("error", [ConnectionError("keys"), OSError("no file"), KeyError("x")])
@on_loop
async def test_failed_push_is_logged_and_the_next_succeeds(error, monkeypatch, caplog):
    async with stage(samples_per_step=100.0) as on:
        push, fails = on.client.push_cache, [error]

        def push_cache():
            if fails:
                raise fails.pop()
            return push()

        monkeypatch.setattr(on.client, "push_cache", push_cache)
        await on.play()
        await until(lambda: not fails)
        await on.play()
        batch = await asyncio.to_thread(on.server.get_batch, 1, wait=network.SLACK)
        assert batch is not None
    assert "nothing is pushed" in caplog.text


async def until(holds):
    """Wait until something holds; the test's own limit ends this."""
    while not holds():  # noqa: ASYNC110
        await asyncio.sleep(0.005)
