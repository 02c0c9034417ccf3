"""Two people and an agent at one PettingZoo game; a person leaves, and comes back, or does not."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from cogrs import orchestrator, sdk
from cogrs.orchestrator import Settings
from tests.orchestrator.net import on_loop
from tests.sdk.net import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

gymnasium = pytest.importorskip("gymnasium")
pettingzoo = pytest.importorskip("pettingzoo")

LENGTH = 9


class Race(pettingzoo.AECEnv):  # type: ignore[misc]
    """Three players add 1 to 3 in turns and are rewarded with that; over after nine turns."""

    metadata = {"name": "race"}  # noqa: RUF012

    def __init__(self) -> None:
        self.possible_agents = ["ada", "bob", "bot"]
        self.render_mode = None

    def observation_space(self, agent: str) -> Any:
        return gymnasium.spaces.Box(0, 100, (2,), np.int64)

    def action_space(self, agent: str) -> Any:
        return gymnasium.spaces.Discrete(3, start=1)

    def observe(self, agent: str) -> Any:
        return np.array([self.turns, self.total])

    def reset(self, seed: int | None = None, options: Any = None) -> None:
        self.agents = list(self.possible_agents)
        self.turns = self.total = 0
        self.agent_selection = "ada"
        self.rewards = dict.fromkeys(self.agents, 0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, Any] = {agent: {} for agent in self.agents}

    def step(self, action: Any) -> None:
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)
            return
        self._clear_rewards()
        self.rewards[agent] = int(action)
        self.turns, self.total = self.turns + 1, self.total + int(action)
        self.terminations = dict.fromkeys(self.agents, self.turns == LENGTH)
        self.agent_selection = self.agents[self.turns % 3]


def player(action: int, seen: Any, leaves_at: int | None = None) -> Any:
    async def play(session: sdk.ActorSession) -> None:
        async for event in session:
            if isinstance(event, sdk.Observation):
                if event.tick == leaves_at:
                    return
                seen.append((event.tick, bool(event.value["turn"])))
                await session.act(action if event.value["turn"] else 0)

    return play


@asynccontextmanager
async def table(settings: Settings) -> AsyncIterator[tuple[orchestrator.Server, Any, str]]:
    async with await sdk.serve(
        environments={"": sdk.PettingZooEnvironment.factory(Race)},
        agents={"": player(3, [])},
    ) as endpoint:
        actors = [
            {"name": name, "actor_class": "person", "endpoint": "client"} for name in ("ada", "bob")
        ]
        actors.append({"name": "bot", "actor_class": "bot", "endpoint": endpoint.address})
        params = {"environment": {"endpoint": endpoint.address}, "actors": actors}
        async with await orchestrator.serve(
            {"trial_params": params}, port=0, settings=settings
        ) as server:
            where = f"127.0.0.1:{server.port}"
            async with sdk.TrialController(where) as controller:
                yield server, controller, where


@on_loop
async def test_game_waits_for_a_client_that_reconnects() -> None:
    ada: list[Any] = []
    bob: list[Any] = []
    async with (
        table(Settings(reconnect_window=60)) as (_, controller, where),
        sdk.ClientActor(where) as hers,
        sdk.ClientActor(where) as his,
        asyncio.TaskGroup() as tasks,
    ):
        trial = (await controller.start_trial()).id
        playing = tasks.create_task(hers.play(player(1, ada), trial, name="ada"))
        assert await his.play(player(2, bob, leaves_at=4), trial, name="bob") is None
        await until(lambda: ada[-1:] == [(4, False)])
        assert not playing.done()
        final = await his.play(player(2, bob), trial, name="bob")
        hers_last = await playing
        await controller.wait_ended(trial)
    assert ada == [(tick, tick % 3 == 0) for tick in range(LENGTH)]
    assert bob == [(tick, tick % 3 == 1) for tick in range(LENGTH)]
    for last in (final, hers_last):
        assert last is not None
        assert last.observation is not None
        assert last.observation.terminated
        # Nine turns: three each of 1, 2 and 3.
        assert last.observation.value["observation"].tolist() == [LENGTH, 18]


@on_loop
async def test_trial_ends_when_no_client_reconnects() -> None:
    ada: list[Any] = []
    async with (
        table(Settings(reconnect_window=0.3)) as (server, controller, where),
        sdk.ClientActor(where) as client,
        asyncio.TaskGroup() as tasks,
    ):
        trial = (await controller.start_trial()).id
        playing = tasks.create_task(client.play(player(1, ada), trial, name="ada"))
        assert await client.play(player(2, [], leaves_at=4), trial, name="bob") is None
        last = await playing
        await controller.wait_ended(trial)
        reason = server._orchestrator._trials.get(trial).end_reason
    assert "bob" in reason
    assert last is not None
    assert last.observation is not None
    assert (last.observation.terminated, last.observation.truncated) == (False, True)
