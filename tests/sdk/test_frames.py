"""Rendered frames travel with the observations that they show, from the first one on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from cogrs import orchestrator, sdk
from tests.orchestrator.net import on_loop

if TYPE_CHECKING:
    from collections.abc import Callable

gymnasium = pytest.importorskip("gymnasium")


def steps(env: Any) -> Callable[[], Any]:
    return lambda: gymnasium.make(env, render_mode="rgb_array", max_episode_steps=3)


@on_loop
async def test_frame_of_tick_0_comes_before_its_observation() -> None:
    make = sdk.GymnasiumEnvironment.factory(steps("CartPole-v1"), seed=0, frames_to=["ada"])
    ada = {"name": "ada", "actor_class": "person", "endpoint": "client"}
    params = {"environment": {"endpoint": "local://env"}, "actors": [ada]}
    local = {"env": sdk.local_environments({"": make})}
    seen: list[tuple[str, int]] = []

    async def watch(session: sdk.ActorSession) -> None:
        async for event in session:
            if isinstance(event, sdk.ReceivedMessage):
                assert sdk.read_array_message(event.payload).shape == (400, 600, 3)
                seen.append(("frame", event.tick))
            elif isinstance(event, sdk.Observation):
                seen.append(("observation", event.tick))
                await session.act(0)
            elif isinstance(event, sdk.Final):
                seen.extend(("frame", each.tick) for each in event.messages)

    async with (
        await orchestrator.serve({"trial_params": params}, port=0, local=local) as server,
        sdk.TrialController(f"127.0.0.1:{server.port}") as controller,
        sdk.ClientActor(f"127.0.0.1:{server.port}") as client,
    ):
        trial = await controller.start_trial()
        await client.play(watch, trial.id, name="ada")
    assert seen[:4] == [("frame", 0), ("observation", 0), ("frame", 1), ("observation", 1)]
    assert seen[-1] == ("frame", 3)
