"""Trials of an `ActorWorker` while its server's rate limiter lets no entries in."""

import asyncio
import time

import numpy as np
import pytest

from cogrs import RateLimiter
from cogrs.workers import ActorWorker
from cogrs.workers.trial_gate import TrialGate
from tests.orchestrator.net import on_loop
from tests.replay import network
from tests.workers import world
from tests.workers.world import stage, until

LIMITED = {"limiter": RateLimiter(2.0, 10, 40.0), "reuse_cache": True, "cache_size": 8}
"""30 steps may come before the first sample."""


async def filled(on: world.Stage) -> None:
    """Play 30 steps, and have them counted, and caches pushed."""
    await on.play(6)
    await until(lambda: on.server.total_steps == 30)
    await asyncio.to_thread(network.arrived, on.server, 2)


async def started(on: world.Stage, trials: int = 1) -> list[str]:
    return [(await on.controller.start_trial()).id for _ in range(trials)]


@on_loop
async def test_trials_wait_with_their_first_action_until_the_learner_has_taken_samples():
    async with stage(server=LIMITED, insert_wait=None) as on:
        await filled(on)
        trials = await started(on, 3)
        await until(lambda: len(on.environments) == 9)
        await asyncio.sleep(0.3)
        assert not any(environment.actions for environment in on.environments[6:])
        await asyncio.to_thread(on.server.get_batch, 2)
        await on.ended(trials)
        await until(lambda: on.server.total_steps == 45)
        assert on.server.stats().limiter.insert_wait_seconds > 0.2


@on_loop
async def test_trial_that_has_begun_never_waits():
    async with stage(server=LIMITED, insert_wait=None, length=60) as on:
        trials = await started(on)
        await on.ended(trials)
        await until(lambda: on.server.total_steps == 60)


@on_loop
async def test_trials_wait_no_longer_than_insert_wait():
    async with stage(server=LIMITED, insert_wait=0.3) as on:
        await filled(on)
        begin = time.monotonic()
        await on.play()
        assert time.monotonic() - begin >= 0.3


@on_loop
async def test_trials_do_not_wait_by_default():
    async with stage(server=LIMITED) as on:
        await filled(on)
        await on.play(4)
        await until(lambda: on.server.total_steps == 50)
        assert on.server.stats().limiter.insert_wait_seconds == 0


@on_loop
async def test_trials_do_not_wait_for_a_server_without_limiter():
    async with stage(insert_wait=None) as on:
        await on.play(4)
        on.server.close()
        await on.play(4)
        on.client.close()


@on_loop
async def test_trial_that_ends_during_the_wait_is_forgotten():
    async with stage(server=LIMITED, insert_wait=None) as on:
        await filled(on)
        trials = await started(on)
        await until(lambda: len(on.environments) == 7)
        await on.controller.terminate_trial(trials[0])
        await on.ended(trials)
        await until(lambda: not on.worker._gate._waiting)
        assert on.server.total_steps == 30


@on_loop
async def test_close_of_the_worker_ends_the_wait():
    with world.made_server(**LIMITED) as server, network.connected(server, 64) as client:
        worker = ActorWorker(client, world.decide, insert_wait=None)
        worker.memory.add_episode(**_steps(60))
        waits = asyncio.create_task(worker.begin_episode())
        await asyncio.sleep(0.3)
        assert not waits.done()
        await asyncio.to_thread(worker.close)
        await asyncio.wait_for(waits, network.SLACK)
        await worker.begin_episode()  # which waits no more


@on_loop
async def test_closed_client_lets_trials_begin(caplog):
    with (
        world.made_server(**LIMITED) as server,
        network.connected(server, 64) as client,
        ActorWorker(client, world.decide, insert_wait=None) as worker,
    ):
        worker.memory.add_episode(**_steps(60))
        waits = asyncio.create_task(worker.begin_episode())
        await asyncio.sleep(0.3)
        client.close()
        await asyncio.wait_for(waits, network.SLACK)
    assert "trials are not held back: this ReplayMemoryClient is closed" in caplog.text


@pytest.mark.parametrize(("seconds", "error"), [(-1, ValueError), ("1", TypeError)])
def test_wait_that_is_not_valid_is_refused(seconds, error):
    with (
        world.made_server() as server,
        network.connected(server, 64) as client,
        pytest.raises(error, match="insert_wait"),
    ):
        ActorWorker(client, world.decide, insert_wait=seconds)


def _steps(count):
    """The arguments of `add_episode` for steps of this world."""
    from cogrs.workers import step_info

    infos = np.stack([step_info("t", 0, tick) for tick in range(count)])
    numbers = np.ones(count, np.float32)
    state = np.zeros((count, 3), np.float32)
    return {
        "s": state,
        "a": np.zeros(count, np.int64),
        "r": numbers,
        "p": numbers,
        "v": numbers,
        "i": infos,
        "init_w": 1.0,
    }


class Misfit:
    """A client whose settings are not the server's."""

    def wait_to_insert(self, *, timeout: float) -> bool:
        raise ValueError("rem: expected the server's frame_stack")


@on_loop
async def test_trials_are_not_held_back_by_a_client_whose_caches_do_not_fit(caplog):
    gate = TrialGate(Misfit(), None)
    for _ in range(2):
        await asyncio.wait_for(gate.wait(), 10)
    gate.close()
    assert "trials are not held back: rem: expected the server's frame_stack" in caplog.text
