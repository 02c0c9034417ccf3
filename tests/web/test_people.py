"""Several people in one trial: each acts alone, and a slow one holds up only so long."""

from __future__ import annotations

import base64
import time
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import gymnasium
import pettingzoo
from websockets.asyncio.client import connect

from cogrs import orchestrator, sdk
from cogrs.web import Controls, Game, app, serve_page
from tests.orchestrator.net import on_loop
from tests.web.sockets import send, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest


class Pair(pettingzoo.ParallelEnv):  # type: ignore[misc]
    """Two agents, which go on together; it notes their actions."""

    metadata = {"name": "pair"}  # noqa: RUF012
    possible_agents = ["ada", "bob"]  # noqa: RUF012

    def __init__(self, taken: list[dict[str, int]]) -> None:
        self.taken = taken

    def observation_space(self, agent: str) -> Any:
        return gymnasium.spaces.Discrete(1000)

    def action_space(self, agent: str) -> Any:
        return gymnasium.spaces.Discrete(3)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents, self.tick = ["ada", "bob"], 0
        return {"ada": 0, "bob": 0}, {"ada": {}, "bob": {}}

    def step(self, actions: Any) -> Any:
        self.taken.append({agent: int(action) for agent, action in actions.items()})
        self.tick += 1
        over = dict.fromkeys(self.agents, self.tick == 40)
        rewards = {"ada": 1.0, "bob": 2.0}
        never = dict.fromkeys(self.agents, False)
        infos: dict[str, Any] = {"ada": {}, "bob": {}}
        return dict.fromkeys(self.agents, self.tick), rewards, over, never, infos


@asynccontextmanager
async def pair(taken: list[dict[str, int]], **options: Any) -> AsyncIterator[tuple[Any, Any]]:
    """A trial of two people, whose connections are yielded; `options` are those of `bob`."""
    factory = sdk.PettingZooEnvironment.factory(lambda: Pair(taken))
    names = ("ada", "bob")
    actors = [{"name": name, "actor_class": name, "endpoint": "client"} for name in names]
    params = {"environment": {"endpoint": "local://pair"}, "actors": actors}
    config = {"trial_params": params, "actor_options": [{"name": "bob", **options}]}
    local = {"pair": sdk.local_environments({"": factory})}
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        server = await enter(await orchestrator.serve(config, port=0, local=local))
        where = f"127.0.0.1:{server.port}"
        game = Game(title="Pair", controls=Controls(gymnasium.spaces.Discrete(3)), mode="press")
        sockets = []
        for name in names:
            made = app(where, game, actor_name=name)
            (place,) = made.state.places
            page = made.state.page
            pages = await enter(serve_page(page))
            socket = await enter(connect(f"ws://127.0.0.1:{pages.port}/ws"))
            await send(socket, "join", token=page.invite(place), name=name)
            sockets.append(socket)
        controller = await enter(sdk.TrialController(where))
        await controller.start_trial()
        yield sockets[0], sockets[1]


@on_loop
async def test_two_people_act_in_one_trial_and_each_has_a_score_of_its_own() -> None:
    taken: list[dict[str, int]] = []
    async with pair(taken) as (ada, bob):
        for tick in range(3):
            for socket, action in ((ada, tick), (bob, 2 - tick)):
                assert (await until(socket, "tick", tick=tick))["score"] == tick * (
                    1 if socket is ada else 2
                )
                await send(socket, "action", tick=tick, value=action)
        await until(ada, "tick", tick=3)
    assert taken[:3] == [{"ada": k, "bob": 2 - k} for k in range(3)]


@on_loop
async def test_person_that_does_not_act_holds_others_up_for_the_response_timeout_alone() -> None:
    taken: list[dict[str, int]] = []
    two = base64.b64encode(sdk.ArrayCodec().encode(2)).decode()
    async with pair(taken, response_timeout=0.5, default_action=two) as (ada, _):
        for tick in range(4):
            await until(ada, "tick", tick=tick)
            await send(ada, "action", tick=tick, value=1)
        await until(ada, "tick", tick=4)
    assert taken[:4] == [{"ada": 1, "bob": 2}] * 4


@on_loop
async def test_clock_that_jumps_changes_no_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that waits goes by the time of day."""
    taken: list[dict[str, int]] = []
    real, shift = time.time, [0.0]
    monkeypatch.setattr(time, "time", lambda: real() + shift[0])
    async with pair(taken) as (ada, bob):
        for tick, shift[0] in enumerate((0.0, 1e7, -1e7)):
            for socket in (ada, bob):
                await until(socket, "tick", tick=tick)
                await send(socket, "action", tick=tick, value=1)
        await until(ada, "tick", tick=3)
        await send(ada, "ping", id=1)
        await until(ada, "ack", of="ping")
    assert taken[:3] == [{"ada": 1, "bob": 1}] * 3
