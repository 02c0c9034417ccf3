"""The port to an agent."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from cogrs.api.agent_pb2 import (
    AgentEndRequest,
    AgentMessageRequest,
    AgentObservationRequest,
    AgentRewardRequest,
)
from cogrs.api.common_pb2 import ActorPeriodData
from cogrs.failure import is_failure
from cogrs.orchestrator.links.link import Link
from cogrs.orchestrator.links.remote import is_too_large
from cogrs.orchestrator.links.tasks import describe

if TYPE_CHECKING:
    from cogrs.api.agent_pb2 import AgentStartRequest
    from cogrs.orchestrator.engine.ports import AgentEvents
    from cogrs.orchestrator.links.component import AgentComponent
    from cogrs.orchestrator.links.link import Bond


class AgentLink(Link[AgentObservationRequest]):
    """An `AgentPort` to a component."""

    def __init__(
        self, trial_id: str, name: str, component: AgentComponent, events: AgentEvents, bond: Bond
    ) -> None:
        """Be ready to call.

        Args:
            trial_id: In which trial.
            name: The name of the actor.
            component: What is called.
            events: Told what comes of it.
            bond: What to work with.
        """
        super().__init__(trial_id, f"actor {name!r}", bond, events.crashed)
        self._whom = (trial_id, name)
        self._component = component
        self._events = events

    def start(self, request: AgentStartRequest) -> None:
        """Call OnStart, and open the stream of observations when it was answered."""
        self._courier.do(partial(self._start, request))

    def deliver(self, period: ActorPeriodData) -> None:
        """Call OnReward for each reward and OnMessage for all messages, then send observations."""
        self._courier.do(partial(self._deliver, period))

    def observe(self, request: AgentObservationRequest) -> None:
        """Send an observation; what `deliver` does when that is all."""
        if self._courier.idle:
            self._requests.put(request)
        else:
            self._courier.do(partial(self._observe, request))

    def end(self, period: ActorPeriodData) -> None:
        """Call OnEnd; `close` follows."""
        self._courier.do(partial(self._end, period))

    async def _start(self, request: AgentStartRequest) -> None:
        try:
            await self._component.on_start(*self._whom, request)
        except BaseException as error:
            if not is_failure(error):
                raise
            self._events.failed("OnStart", describe(error))
            return
        if self._closing:
            # Too late for the trial, but nothing else frees the session.
            await self._tell("OnEnd", self._component.on_end(*self._whom, AgentEndRequest()))
            return
        replies = self._component.on_observation(*self._whom, aiter(self._requests))
        self._read(replies, self._events.acted, partial(self._events.failed, "OnObservation"))
        self._events.started()

    async def _deliver(self, period: ActorPeriodData) -> None:
        for reward in period.rewards:
            told = self._component.on_reward(*self._whom, AgentRewardRequest(reward=reward))
            await self._tell("OnReward", told)
        if period.messages:
            messages = AgentMessageRequest(messages=period.messages)
            await self._tell("OnMessage", self._component.on_message(*self._whom, messages))
        for observation in period.observations:
            self._requests.put(AgentObservationRequest(observation=observation))

    async def _observe(self, request: AgentObservationRequest) -> None:
        self._requests.put(request)

    async def _end(self, period: ActorPeriodData) -> None:
        request = AgentEndRequest(final_data=period)
        failure = await self._tell("OnEnd", self._component.on_end(*self._whom, request))
        if is_too_large(failure):
            # Nothing else frees its session, and that is worth more than what it cannot take.
            bare = AgentEndRequest(final_data=ActorPeriodData())
            await self._tell("OnEnd", self._component.on_end(*self._whom, bare))
        self._events.ended()
