"""A person's rewards after the end of a trial: over the wire, to the step in memory."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

from cogrs import orchestrator, sdk
from cogrs.orchestrator import Settings
from cogrs.workers import ActorWorker
from tests.orchestrator.net import on_loop
from tests.replay import network
from tests.workers import world

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LENGTH = 4


class Watched(world.Environment):
    observers = ("person.*",)

    async def step(self, actions: dict[str, Any]) -> sdk.Update:
        update = await super().step(actions)
        update.rewards = [each for each in update.rewards if each.receiver == "a0"]
        return update


class SlowToEnd(sdk.Agent):
    """Watches, and ends when it is released."""

    release: asyncio.Event

    async def act(self, observation: sdk.Observation) -> int:
        return 0

    async def end(self, final: sdk.Final) -> None:
        await self.release.wait()


class Played(NamedTuple):
    """A trial that has ended, and its observer's session."""

    worker: ActorWorker
    session: sdk.ClientSession

    def rewards(self) -> list[float]:
        (episode,) = [self.worker.memory.episode(0)]
        return episode.entries.reward[:LENGTH].tolist()


@asynccontextmanager
async def played(
    settings: Settings | None = None, slow: asyncio.Event | None = None
) -> AsyncIterator[Played]:
    """Play a trial to its end; with `slow`, an agent takes its final data when that is set."""
    local = {}
    actors = [
        {"name": "a0", "actor_class": "player"},
        {"name": "ada", "actor_class": "person", "endpoint": "client"},
    ]
    if slow is not None:
        agent = type("Slow", (SlowToEnd,), {"release": slow})
        local["slow"] = sdk.local_agents({"": agent})
        actors.append({"name": "slow", "actor_class": "person", "endpoint": "local://slow"})
    with (
        world.made_server() as replay,
        network.connected(replay, 4096, timeout=10) as memory,
        ActorWorker(memory, world.decide) as worker,
    ):
        async with (
            await sdk.serve(agents={"policy": worker.agent}) as acts,
            await sdk.serve(environments={"": lambda: Watched(1, LENGTH)}) as plays,
        ):
            actors[0]["endpoint"] = acts.address
            config = {
                "trial_params": {"environment": {"endpoint": plays.address}, "actors": actors},
                "actor_options": [{"name": name, "observer": True} for name in ("ada", "slow")],
            }
            async with (
                await orchestrator.serve(config, port=0, settings=settings, local=local) as server,
                sdk.TrialController(f"127.0.0.1:{server.port}") as controller,
                sdk.ClientActor(f"127.0.0.1:{server.port}") as client,
            ):
                trial = await controller.start_trial()
                async with await client.join(trial.id, name="ada") as session:
                    async for _ in session:
                        pass
                    if slow is None:
                        await controller.wait_ended(trial.id)
                    yield Played(worker, session)


@on_loop
async def test_late_reward_reaches_its_step_although_the_trial_is_forgotten() -> None:
    async with played(Settings(retention=0)) as on:
        before = on.rewards()
        assert await on.session.send_late_reward(sdk.Reward("a0", 2.5, tick=3))
        assert np.subtract(on.rewards(), before).tolist() == [0, 0, 2.5, 0]
        assert await on.session.send_late_reward(sdk.Reward("a0", -2.5, tick=3))
        assert on.rewards() == before


@on_loop
async def test_late_reward_without_a_step_is_not_taken() -> None:
    async with played() as on:
        before = on.rewards()
        assert not await on.session.send_late_reward(sdk.Reward("a0", 1.0, tick=LENGTH + 1))
        assert not await on.session.send_late_reward(sdk.Reward("ada", 1.0, tick=1))
        with pytest.raises(sdk.RemoteCallError, match="tick_id: expected the tick of an"):
            await on.session.send_late_reward(sdk.Reward("a0", 1.0))
        assert on.rewards() == before
        assert on.worker.dropped_rewards == 1


@on_loop
async def test_late_reward_of_a_trial_that_ends_waits_for_its_end() -> None:
    release = asyncio.Event()
    async with played(slow=release) as on:
        sent = [
            asyncio.ensure_future(on.session.send_late_reward(sdk.Reward("a0", value, tick=3)))
            for value in (2.5, 0.5)
        ]
        with pytest.raises(sdk.RemoteCallError, match="tick_id: expected the tick of an"):
            await on.session.send_late_reward(sdk.Reward("a0", 1.0))
        assert not any(each.done() for each in sent)
        before = on.rewards()
        release.set()
        assert await asyncio.wait_for(asyncio.gather(*sent), network.SLACK) == [True, True]
        assert np.subtract(on.rewards(), before).tolist() == [0, 0, 3.0, 0]


@on_loop
async def test_late_rewards_beyond_the_limit_are_refused_while_a_trial_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cogrs.orchestrator.engine.late_rewards.LATE_WAITING", 2)
    release = asyncio.Event()
    async with played(slow=release) as on:
        reward = sdk.Reward("a0", 1.0, tick=3)
        sent = [asyncio.ensure_future(on.session.send_late_reward(reward)) for _ in range(3)]
        (refused,) = await first_done(sent)
        assert "2 requests wait for the end of the trial" in str(refused.exception())
        release.set()
        taken = await asyncio.gather(*sent, return_exceptions=True)
        assert sorted(map(repr, taken))[-2:] == ["True", "True"]


async def first_done(tasks: list[asyncio.Task[bool]]) -> set[asyncio.Task[bool]]:
    done, _ = await asyncio.wait(tasks, timeout=network.SLACK, return_when=asyncio.FIRST_COMPLETED)
    return done


@on_loop
async def test_late_reward_of_another_client_is_refused() -> None:
    async with played() as on:
        before = on.rewards()
        on.session._secret = "another secret"
        with pytest.raises(sdk.RemoteCallError, match="slot-secret"):
            await on.session.send_late_reward(sdk.Reward("a0", 1.0, tick=1))
        assert on.rewards() == before


@on_loop
async def test_orchestrator_may_be_set_to_refuse_late_rewards() -> None:
    async with played(Settings(late_rewards=0)) as on:
        with pytest.raises(sdk.RemoteCallError, match="late rewards for 0 s"):
            await on.session.send_late_reward(sdk.Reward("a0", 1.0, tick=1))
