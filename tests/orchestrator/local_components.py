"""Components in the orchestrator's own process: an environment of one actor, and an agent."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from cogrs.api import agent_pb2 as agent
from cogrs.api import environment_pb2 as environment
from cogrs.api.common_pb2 import Action, ActorParams, EnvironmentParams
from tests.orchestrator.world import observation_set, reward, values

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Everything:
    """A component of each kind."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.over = asyncio.Event()
        self.samples: list[Any] = []


class Walls(Everything):
    async def on_start(self, trial_id: str, request: Any) -> environment.EnvStartReply:
        self.calls.append(("start", trial_id, request))
        return environment.EnvStartReply(observation_set=observation_set(1, 0))

    async def on_action(
        self, trial_id: str, requests: AsyncIterator[environment.EnvActionRequest]
    ) -> AsyncIterator[environment.EnvActionReply]:
        number = 0
        async for request in requests:
            number += 1
            self.calls.append(("action", trial_id, list(request.action_set.actions)))
            yield environment.EnvActionReply(
                observation_set=observation_set(1, number), rewards=[reward("a0", number)]
            )
        self.over.set()

    async def on_message(self, trial_id: str, request: Any) -> environment.EnvMessageReply:
        raise AssertionError("nobody sent one")

    async def on_end(self, trial_id: str, request: Any) -> environment.EnvActionReply:
        self.calls.append(("end", trial_id, list(request.action_set.actions)))
        return environment.EnvActionReply(final_update=True)


class Echo(Everything):
    async def on_start(self, trial_id: str, actor_name: str, request: Any) -> agent.AgentStartReply:
        self.calls.append(("start", trial_id, actor_name))
        return agent.AgentStartReply()

    async def on_observation(
        self,
        trial_id: str,
        actor_name: str,
        requests: AsyncIterator[agent.AgentObservationRequest],
    ) -> AsyncIterator[agent.AgentActionReply]:
        async for request in requests:
            yield agent.AgentActionReply(action=Action(content=request.observation.data.content))
        self.over.set()

    async def on_reward(
        self, trial_id: str, actor_name: str, request: Any
    ) -> agent.AgentRewardReply:
        self.calls.append(("reward", *values([request.reward])))
        return agent.AgentRewardReply()

    async def on_message(
        self, trial_id: str, actor_name: str, request: Any
    ) -> agent.AgentMessageReply:
        raise AssertionError("nobody sent one")

    async def on_end(self, trial_id: str, actor_name: str, request: Any) -> agent.AgentEndReply:
        self.calls.append(("end",))
        return agent.AgentEndReply()


PARAMS: dict[str, Any] = {
    "environment": EnvironmentParams(endpoint="local://walls"),
    "actors": [ActorParams(name="a0", endpoint="local://echo")],
}
