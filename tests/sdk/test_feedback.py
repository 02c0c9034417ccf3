"""Rewards and messages that go to agents together with observations."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from cogrs import sdk
from cogrs.api import agent_pb2 as pb
from cogrs.api import orchestrator_pb2 as api
from cogrs.api.any import pack, unpack
from cogrs.api.common_pb2 import (
    ActorParams,
    ActorPeriodData,
    EnvironmentParams,
    Message,
    Observation,
    ObservationData,
    Reward,
    TrialActor,
    TrialParams,
)
from cogrs.orchestrator import ActorOptions, Config, serve
from cogrs.sdk.agent_host import AgentHost
from cogrs.sdk.call_error import CallError
from cogrs.sdk.codecs import ArrayCodec, CodecRegistry
from tests.orchestrator.net import AgentService, Net, metadata, on_loop, whom
from tests.sdk.net import LOST, Counting, Echo, calls, kinds, named, rewards, until, world


class Talking(Counting):
    """Sends each actor a message with each observation but the first."""

    length = 8

    def step(self, actions: Any) -> Any:
        update = super().step(actions)
        names = self.trial.actor_names
        update.rewards = dict.fromkeys(names, 1.0)
        update.messages = [sdk.Message(name, TrialActor(name=str(self.tick))) for name in names]
        return update


def texts(heard: Any) -> list[str]:
    messages = named(heard, "message") + [
        each for final in named(heard, "end") for each in final.messages
    ]
    names = []
    for each in messages:
        actor = TrialActor()
        unpack(each.payload, actor)
        names.append(actor.name)
    return names


@on_loop
async def test_feedback_comes_with_its_observation_and_is_taken_first() -> None:
    told, heard = calls(), calls()
    async with world(lambda: Talking(told), lambda: Echo(heard)) as net:
        trial_id = await net.play()
    mine = heard[trial_id, "a0"]
    assert kinds(mine) == ["start", "act", *["reward", "message", "act"] * 7, "end"]
    assert rewards(mine) == [(tick, 1.0) for tick in range(1, 9)]
    assert texts(mine) == [str(tick) for tick in range(1, 9)]


@pytest.mark.parametrize("asynchronous", [False, True])
@on_loop
async def test_agent_that_is_behind_takes_all_feedback_once_and_in_order(
    asynchronous: bool,
) -> None:
    """Others go on without it, so that several requests of its stream have no answer."""
    behind = asyncio.Event()

    class Late(Echo):
        if asynchronous:

            async def reward(self, reward: sdk.ReceivedReward) -> None:
                await asyncio.sleep(0)
                self.calls.append(("reward", reward))

        async def act(self, observation: sdk.Observation) -> Any:
            if observation.tick == 3:
                await behind.wait()
            return super().act(observation)

    class Watched(Talking):
        observers = ("a0",)  # the default action of "a0" is not an array

    told, heard = calls(), calls()
    parts = {
        "env": sdk.local_environments({"": lambda: Watched(told)}),
        "late": sdk.local_agents({"": lambda: Late(heard)}),
        "quick": sdk.local_agents({"": lambda: Echo(calls())}),
    }
    config = Config(
        params=TrialParams(
            environment=EnvironmentParams(endpoint="local://env"),
            actors=[
                ActorParams(name="a0", actor_class="late", endpoint="local://late"),
                ActorParams(name="a1", actor_class="quick", endpoint="local://quick"),
            ],
        ),
        class_options={"late": ActorOptions(response_timeout=0.05, default_action=b"")},
    )
    async with (
        await serve(config, port=0, local=parts) as server,
        sdk.TrialController(f"127.0.0.1:{server.port}") as controller,
    ):
        trial_id = (await controller.start_trial()).id
        await until(lambda: len(named(told[trial_id], "step")) == Talking.length)
        behind.set()
        await controller.wait_ended(trial_id)
    mine = heard[trial_id, "a0"]
    assert rewards(mine) == [(tick, 1.0) for tick in range(1, 9)]
    assert texts(mine) == [str(tick) for tick in range(1, 9)]
    assert kinds(mine)[-1] == "end"


@on_loop
async def test_feedback_of_an_agent_that_still_acts_at_the_end_is_not_lost() -> None:
    thinks = asyncio.Event()

    class Thinker(Echo):
        async def act(self, observation: sdk.Observation) -> Any:
            if observation.tick < 4:
                return super().act(observation)
            thinks.set()
            await asyncio.Event().wait()

    heard = calls()
    async with world(lambda: Talking(calls()), lambda: Thinker(heard)) as net:
        trial = await net.controller.start_trial()
        await thinks.wait()
        await net.controller.terminate_trial(trial.id)
        await net.controller.wait_ended(trial.id)
    mine = heard[trial.id, "a0"]
    assert [tick for tick, _ in rewards(mine)] == [1, 2, 3, 4]
    assert texts(mine) == ["1", "2", "3", "4"]
    assert LOST not in mine


def request(tick: int) -> pb.AgentObservationRequest:
    return pb.AgentObservationRequest(
        observation=Observation(
            tick_id=tick, data=ObservationData(content=ArrayCodec().encode(np.zeros(2)))
        ),
        rewards=[Reward(tick_id=tick, value=1.0)],
        messages=[Message(tick_id=tick, payload=pack(TrialActor(name=str(tick))))],
    )


@pytest.mark.parametrize("came", [0, 1, 2])
@on_loop
async def test_unanswered_feedback_is_taken_once_at_the_end(came: int) -> None:
    """The requests of the stream may come before the end, or after it, or never."""
    heard = calls()
    host = AgentHost({"": lambda: Echo(heard)}, CodecRegistry(None), 60.0)
    start = pb.AgentStartRequest(actors_in_trial=[TrialActor(name="a0", actor_class="player")])
    reply = await host.on_start("trial", "a0", start)
    assert reply.takes_feedback
    ended = asyncio.Event()

    async def requests() -> Any:
        for tick in (1, 2):
            if tick > came:
                await ended.wait()
            yield request(tick)
        await ended.wait()

    stream = host.on_observation("trial", "a0", requests())
    for _ in range(came):
        assert not (await anext(stream)).feedback_error
    following = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0.01)
    end = pb.AgentEndRequest(final_data=ActorPeriodData(), unanswered=[request(1), request(2)])
    await host.on_end("trial", "a0", end)
    ended.set()
    with pytest.raises((StopAsyncIteration, CallError)):
        await following
    mine = heard["trial", "a0"]
    assert rewards(mine) == [(1, 1.0), (2, 1.0)]
    assert texts(mine) == ["1", "2"]
    assert kinds(mine)[-1] == "end"
    await host.close(1.0)


class Declaring(AgentService):
    """The actor "a0" declares that it takes feedback, and leaves tick 3 unanswered."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[pb.AgentObservationRequest] = []
        self.ends: dict[str, pb.AgentEndRequest] = {}
        self.thinks = asyncio.Event()

    async def OnStart(self, request: Any, context: Any) -> pb.AgentStartReply:  # noqa: N802
        await super().OnStart(request, context)
        return pb.AgentStartReply(takes_feedback=metadata(context)[1] == "a0")

    async def OnObservation(self, requests: Any, context: Any) -> Any:  # noqa: N802
        trial_id, name = metadata(context)
        async for each in requests:
            if name == "a0":
                self.requests.append(each)
                if each.observation.tick_id == 3:
                    self.thinks.set()
                    await asyncio.Event().wait()
            yield await self.act(trial_id, name, each.observation)

    async def OnEnd(self, request: Any, context: Any) -> pb.AgentEndReply:  # noqa: N802
        self.ends[metadata(context)[1]] = request
        return await super().OnEnd(request, context)


@on_loop
async def test_service_that_takes_feedback_gets_none_by_calls() -> None:
    net = Net(agents=2)
    net.agents = agents = Declaring()
    async with net:
        trial_id = await net.start()
        await agents.thinks.wait()
        await net.lifecycle.TerminateTrial(api.TerminateTrialRequest(), metadata=whom(trial_id))
        await net.end_of(trial_id)
    assert [[each.tick_id for each in request.rewards] for request in agents.requests] == [
        [],
        [1],
        [2],
        [3],
    ]
    assert not agents.of(trial_id, "a0", "reward")
    assert len(agents.of(trial_id, "a1", "reward")) == 3
    (left,) = agents.ends["a0"].unanswered
    assert [each.tick_id for each in left.rewards] == [3]
    assert left.observation == Observation(tick_id=3)
    assert not agents.ends["a1"].unanswered
