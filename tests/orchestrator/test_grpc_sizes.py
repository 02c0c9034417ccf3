"""Messages that are large, and components that do not take such."""

from __future__ import annotations

import asyncio
from typing import Any

from cogrs.api import orchestrator_pb2 as api
from cogrs.api.agent_pb2 import AgentActionReply
from cogrs.api.common_pb2 import Action, ObservationData
from tests.orchestrator.net import Net, on_loop, whom
from tests.orchestrator.world import observation_set

USUAL = 4 * 1024 * 1024
"""Bytes that gRPC takes by default."""


@on_loop
async def test_large_observations() -> None:
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
async def test_an_agent_that_takes_less_is_ended_all_the_same() -> None:
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
async def test_an_environment_that_takes_less_is_ended_all_the_same() -> None:
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
