"""Closed episodes of an `ActorWorker` on their way to the server, which may be away."""

import asyncio

import numpy as np

from cogrs.workers import ActorWorker
from tests.orchestrator.net import on_loop
from tests.replay import network
from tests.workers import world
from tests.workers.world import stage, until


def impatient(server, timeout):
    """A client that gives up soon, once its server has answered in the time that it takes."""
    client = network.connected(server, 64)
    client._timeout = client._requests._timeout = timeout
    return client


@on_loop
async def test_closed_episodes_are_pushed_and_counted():
    async with stage(length=6, samples_per_step=4, server={"cache_size": 8}) as on:
        await on.play(5)
        await on.play(5)
        # 60 steps make 240 samples, which are 30 caches; none waits for the end.
        await asyncio.to_thread(network.arrived, on.server, 30)
        rem = on.worker.memory
        await until(lambda: on.server.total_steps == rem.total_steps == 60)
        assert (on.server.total_episodes, on.server.total_caches) == (10, 30)
        assert on.worker.pushed_samples == 240
        batch = on.server.get_batch(16)
        for name in ("trial", "actor"):
            np.testing.assert_array_equal(batch.prev.info[name], batch.next.info[name])
        np.testing.assert_array_equal(batch.prev.info["tick"] + 1, batch.next.info["tick"])
        np.testing.assert_array_equal(batch.prev.info["tick"], batch.prev.state[:, 0, 2])
        np.testing.assert_array_equal(batch.next.info["terminated"], batch.next.info["tick"] == 6)


@on_loop
async def test_close_pushes_remaining_samples():
    async with stage(length=8, samples_per_step=1, server={"cache_size": 8}) as on:
        await on.play(3)
        on.worker.close()
        assert on.server.total_steps == 24
        await asyncio.to_thread(network.arrived, on.server, 3)


@on_loop
async def test_trials_go_on_while_the_server_is_away(caplog):
    async with stage() as on:
        lost = impatient(on.server, 0.05)
        with lost, ActorWorker(lost, world.decide) as worker:
            on.server.close()
            await on.play(4)
            assert len(on.episodes()) == 4
            worker._owe(8)
            await until(lambda: "nothing is pushed" in caplog.text)
        # The client of the stage waits ten seconds for its server, at the end too.
        on.client.close()


@on_loop
async def test_absence_and_return_of_the_server_are_logged_once(caplog):
    with world.made_server() as server:
        client = impatient(server, 0.2)
        with client, ActorWorker(client, world.decide, samples_per_step=0) as worker:
            server.close()
            for _ in range(3):
                worker._owe(8)
                await until(lambda: "nothing is pushed" in caplog.text)
                await until(lambda: worker._unpushed == 0)
            templates = {"s": server.rem.state_buf, "i": server.rem.info_buf}
            with await asyncio.to_thread(network.restarted, server, **templates):

                def found():
                    worker._owe(8)
                    return "pushed again" in caplog.text

                await until(found)
                assert caplog.text.count("nothing is pushed") == 1
