"""Calls to components: their metadata, and messages that are large or larger than is taken."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest

from cogrs.api import agent_pb2 as agent
from cogrs.api import orchestrator_pb2 as api
from cogrs.api.agent_pb2 import AgentActionReply
from cogrs.api.common_pb2 import Action, ObservationData
from tests.orchestrator.net import AgentService, Net, on_loop, whom
from tests.orchestrator.world import message, observation_set

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


CALLS_OF_A_TRIAL = {
    "/cogment.TrialHooks/OnPreTrial",
    "/cogment.LogExporter/OnLogSample",
    *(
        f"/cogment.EnvironmentEndpoint/{name}"
        for name in ("OnStart", "OnAction", "OnMessage", "OnEnd")
    ),
}
CALLS_OF_AN_ACTOR = {
    f"/cogment.AgentEndpoint/{name}"
    for name in ("OnStart", "OnObservation", "OnReward", "OnMessage", "OnEnd")
}


class Witness(grpc.aio.ServerInterceptor):
    """Writes down the metadata of all calls, but what gRPC adds by itself."""

    def __init__(self) -> None:
        self.seen: defaultdict[str, set[tuple[tuple[str, str], ...]]] = defaultdict(set)

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], details: Any
    ) -> Any:
        found = tuple(
            (key, value) for key, value in details.invocation_metadata if key != "user-agent"
        )
        self.seen[details.method].add(found)
        return await continuation(details)


class Talkers(AgentService):
    async def act(self, trial_id: str, name: str, observation: Any) -> agent.AgentActionReply:
        del trial_id, name, observation
        words = [message(to, "x") for to in ("env", "a0", "a1")]
        return agent.AgentActionReply(action=Action(content=b"x"), messages=words)


@on_loop
async def test_every_call_names_its_trial_and_its_actor_and_nothing_else() -> None:
    net, witness = Net(agents=2, hooks=2, log=True, max_steps=3), Witness()
    net.interceptors.append(witness)
    net.agents = Talkers()
    net.environment.length = 1_000
    async with net:
        trials = [await net.start() for _ in range(2)]
        for trial_id in trials:
            await net.until(trial_id)
            await net.log.over.get()
    assert set(witness.seen) == CALLS_OF_A_TRIAL | CALLS_OF_AN_ACTOR
    for method in CALLS_OF_A_TRIAL:
        assert witness.seen[method] == {whom(trial) for trial in trials}
    for method in CALLS_OF_AN_ACTOR:
        actors = {whom(trial, name) for trial in trials for name in ("a0", "a1")}
        assert witness.seen[method] == actors


@on_loop
async def test_clients_are_identified_by_the_same_metadata() -> None:
    async with Net(clients=1, agents=0) as net:
        trial_id = await net.start()
        await net.join(trial_id)
        heartbeat = api.TrialHeartbeatRequest()
        await net.actors.Heartbeat(heartbeat, metadata=whom(trial_id, "c0"))
        stream = net.client(trial_id)
        assert (await stream.read()).data.observations[0].tick_id == 0
        for wrong in (("trial_id", "actor_name"), ("trial-id", "actor"), ("id", "actor-name")):
            given = tuple(zip(wrong, (trial_id, "c0"), strict=True))
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await net.actors.Heartbeat(heartbeat, metadata=given)
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        stream.cancel()


USUAL = 4 * 1024 * 1024
"""Bytes that gRPC takes by default."""


@on_loop
async def test_large_observations_arrive() -> None:
    async with Net(agents=2, log=True) as net:
        large = bytes(16 * 1024 * 1024)

        def observations(trial_id: str, number: int) -> Any:
            return observation_set(
                2, number, observations=[ObservationData(content=large)], actors_map=[0, 0]
            )

        net.environment.observations = observations  # type: ignore[method-assign]
        net.environment.length = 2
        trial_id = await net.start()
        await net.until(trial_id)
        for name in ("a0", "a1"):
            seen = net.agents.of(trial_id, name, "observation")
            assert [len(each.data.content) for each in seen] == [len(large)] * 2
        (info,) = (await net.lifecycle.GetTrialInfo(api.TrialInfoRequest())).trial
        assert not info.HasField("latest_observation")
        (info,) = (
            await net.lifecycle.GetTrialInfo(api.TrialInfoRequest(get_latest_observation=True))
        ).trial
        assert info.latest_observation.observations[0].content == large
        assert await net.log.over.get() == trial_id
        _, *samples = net.log.requests[trial_id]
        assert len(samples) == 3
        assert all(each.sample.observations.observations[0].content == large for each in samples)


@on_loop
async def test_agent_that_refuses_large_messages_is_ended() -> None:
    net = Net(agents=2)
    net.receives = USUAL

    def observations(trial_id: str, number: int) -> Any:
        shown = [ObservationData(content=bytes(USUAL + 1) if number else b"first")]
        shown.append(ObservationData(content=b"small"))
        return observation_set(2, number, observations=shown)

    net.environment.observations = observations  # type: ignore[method-assign]
    async with net:
        trial_id = await net.start()
        reason = await net.end_of(trial_id)
        assert f"actor 'a0' at {net.endpoint}: OnObservation: RESOURCE_EXHAUSTED" in reason
        (final,) = net.agents.of(trial_id, "a0", "end")
        assert not final.observations
        (final,) = net.agents.of(trial_id, "a1", "end")
        assert [each.data.content for each in final.observations] == [b"small"]


@on_loop
async def test_environment_that_refuses_large_messages_is_ended() -> None:
    net = Net(agents=2)
    net.receives = USUAL

    async def act(trial_id: str, name: str, observation: Any) -> AgentActionReply:
        if name == "a1":
            await asyncio.Event().wait()
        return AgentActionReply(action=Action(content=bytes(USUAL + 1)))

    net.agents.act = act  # type: ignore[method-assign]
    async with net:
        trial_id = await net.start()
        await net.until(trial_id, api.RUNNING)
        trial = net.orchestrator._orchestrator._trials.get(trial_id)
        while trial._pending.owes(0):  # noqa: ASYNC110 - nothing tells that an action arrived
            await asyncio.sleep(0.01)
        await net.lifecycle.TerminateTrial(api.TerminateTrialRequest(), metadata=whom(trial_id))
        assert await net.end_of(trial_id) == "TerminateTrial was called"
        (request,) = net.environment.of(trial_id, "end")
        assert list(request.action_set.actions) == [b"", b""]
        (final,) = net.agents.of(trial_id, "a0", "end")
        assert [each.data.content for each in final.observations] == [b"o999.0"]
