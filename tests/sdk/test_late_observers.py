"""Observers that are slower than their trial: they still get its end."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import cogrs
from cogrs import orchestrator, sdk
from tests.orchestrator.net import on_loop
from tests.sdk.net import Counting, Echo, calls

if TYPE_CHECKING:
    from collections.abc import Callable

ACTORS = [
    {"name": "pole", "actor_class": "player", "endpoint": "local://agents"},
    {"name": "ada", "actor_class": "person", "endpoint": "client"},
]
CONFIG = {
    "trial_params": {"environment": {"endpoint": "local://env"}, "actors": ACTORS},
    "actor_options": [{"name": "ada", "observer": True}],
}


class Watched(Counting):
    """Lets "ada" watch, and lasts longer than a client reads ahead."""

    observers = ("ada",)
    length = 200


def parts() -> dict[str, Any]:
    return {
        "env": sdk.local_environments({"": lambda: Watched(calls())}),
        "agents": sdk.local_agents({"": lambda: Echo(calls())}),
    }


def block_until(what: Callable[[], object]) -> None:
    """Keep the event loop from reading until something is so."""
    while not what():
        time.sleep(0.01)


@on_loop
async def test_rewards_and_messages_after_the_end_are_dropped_and_logged(caplog: Any) -> None:
    async with (
        await orchestrator.serve(CONFIG, port=0, local=parts()) as server,
        sdk.TrialController(f"127.0.0.1:{server.port}") as controller,
        sdk.ClientActor(f"127.0.0.1:{server.port}") as client,
    ):
        trial = (await controller.start_trial()).id
        async with await client.join(trial, name="ada") as session:
            async for event in session:
                if isinstance(event, sdk.Observation) and event.tick == 0:
                    await controller.wait_ended(trial)
                    await session.send_reward(sdk.Reward("pole", 1.0))
                    reward = sdk.Reward("pole", 2.0)
                    await session.act(sdk.Action(rewards=[reward]))
            assert isinstance(event, sdk.Final)
            assert event.observation is not None
            assert event.observation.tick == Watched.length
            assert caplog.text.count("a reward or message was dropped: trial") == 2
            with pytest.raises(sdk.RemoteCallError, match="is over"):
                await session.send_reward(reward)


@pytest.mark.parametrize("action", [np.int64(1), sdk.Action()])
def test_observer_that_acts_after_the_end_gets_its_final_data(action: Any) -> None:
    with cogrs.serve_orchestrator(CONFIG, port=0, local=parts()) as server:

        async def act_late(session: sdk.ActorSession) -> None:
            async for event in session:
                if isinstance(event, sdk.Observation):
                    block_until(lambda: server.stats().trials["ENDED"])
                    await session.act(action)

        async def play() -> sdk.Final | None:
            where = f"127.0.0.1:{server.port}"
            async with (
                sdk.TrialController(where) as controller,
                sdk.ClientActor(where, reconnect=0.0) as client,
            ):
                trial = (await controller.start_trial()).id
                return await client.play(act_late, trial, name="ada")

        final = asyncio.run(play())
    assert final is not None
    assert final.reason == "environment: final update"


@on_loop
async def test_environment_that_does_not_name_an_observer_is_told_to() -> None:
    class Forgets(Counting):
        pass

    local = parts() | {"env": sdk.local_environments({"": lambda: Forgets(calls())})}
    async with (
        await orchestrator.serve(CONFIG, port=0, local=local) as server,
        sdk.TrialController(f"127.0.0.1:{server.port}") as controller,
        sdk.ClientActor(f"127.0.0.1:{server.port}") as client,
    ):
        trial = (await controller.start_trial()).id
        await client.play(lambda _: sdk.Action(), trial, name="ada")
        end = await controller.wait_ended(trial)
    assert end.failed
    assert "action of 'ada': expected an array message, got no bytes" in end.reason
    assert "name it in `observers` of the environment too" in end.reason
