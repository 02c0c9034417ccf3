"""What components are told by metadata: exactly what the API says, and no more."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest

from cogrs.api import agent_pb2 as agent
from cogrs.api import orchestrator_pb2 as api
from cogrs.api.common_pb2 import Action
from tests.orchestrator.net import AgentService, Net, on_loop, whom
from tests.orchestrator.world import message

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
async def test_clients_are_known_by_the_same_names() -> None:
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
