"""The port to an agent."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from cogrs.api.agent_pb2 import (
    AgentActionReply,
    AgentEndRequest,
    AgentMessageRequest,
    AgentObservationRequest,
    AgentRewardRequest,
    AgentStartRequest,
)
from cogrs.api.common_pb2 import ActorPeriodData
from cogrs.orchestrator.engine.backlog import Backlog, find_excess, measure_period
from cogrs.orchestrator.links.component import AgentComponent, describe
from cogrs.orchestrator.links.link import Link, LinkContext
from cogrs.orchestrator.links.remote import is_too_large
from cogrs.user_errors import is_failure

if TYPE_CHECKING:
    from cogrs.orchestrator.engine.ports import AgentEvents
    from cogrs.orchestrator.engine.settings import Settings


def _measure(data: ActorPeriodData | AgentObservationRequest) -> int:
    return measure_period(data) if isinstance(data, ActorPeriodData) else data.ByteSize()


class AgentLink(Link[AgentObservationRequest]):
    """An `AgentPort` to a component."""

    def __init__(
        self,
        trial_id: str,
        name: str,
        component: AgentComponent,
        events: AgentEvents,
        settings: Settings,
        context: LinkContext,
    ) -> None:
        """Create a port; nothing is called yet."""
        super().__init__(trial_id, f"actor {name!r}", context, events.crashed)
        self._ids = (trial_id, name)
        self._component = component
        self._events = events
        self._settings = settings
        self._undelivered: Backlog[ActorPeriodData | AgentObservationRequest] = Backlog(_measure)
        self._too_slow = False

    def start(self, request: AgentStartRequest) -> None:
        """Call OnStart, and open the stream of observations when it was answered."""
        self._calls.put(partial(self._start, request))

    def deliver(self, period: ActorPeriodData) -> None:
        """Call OnReward for each reward and OnMessage for all messages, then send observations."""
        self._later(period)

    def observe(self, request: AgentObservationRequest) -> None:
        """Send an observation; as `deliver` without rewards and messages, and cheaper."""
        if self._calls.idle:
            self._requests.put(request)
            self._check_backlog()
        else:
            self._later(request)

    def end(self, period: ActorPeriodData) -> None:
        """Call OnEnd; `close` follows."""
        self._calls.put(partial(self._end, period))

    async def _start(self, request: AgentStartRequest) -> None:
        try:
            await self._component.on_start(*self._ids, request)
        except BaseException as error:
            if not is_failure(error):
                raise
            self._events.failed("OnStart", describe(error))
            return
        if self._closing:
            # Too late for the trial, but nothing else frees the session.
            await self._tell("OnEnd", self._component.on_end(*self._ids, AgentEndRequest()))
            return
        replies = self._component.on_observation(*self._ids, aiter(self._requests))
        over = partial(self._events.failed, "OnObservation")
        self._read(replies, AgentActionReply, self._events.acted, over)
        self._events.started()

    def _later(self, data: ActorPeriodData | AgentObservationRequest) -> None:
        if not self._too_slow:
            self._undelivered.append(data)
            self._calls.put(self._deliver)
            self._check_backlog()

    def _check_backlog(self) -> None:
        behind, unsent = self._undelivered, self._unsent
        excess = find_excess(len(behind) + len(unsent), behind.bytes + unsent.bytes, self._settings)
        if excess and not self._too_slow:
            self._too_slow = True
            self._requests.close()
            behind.clear()
            unsent.clear()
            # Not within this call, which comes of the trial.
            self._context.tasks.spawn(self._fail(excess), self._crashed)

    async def _fail(self, why: str) -> None:
        self._events.failed("OnObservation", why)

    async def _deliver(self) -> None:
        if self._too_slow:
            return
        data = self._undelivered.popleft()
        if isinstance(data, AgentObservationRequest):
            self._requests.put(data)
        else:
            await self._deliver_period(data)

    async def _deliver_period(self, period: ActorPeriodData) -> None:
        for reward in period.rewards:
            told = self._component.on_reward(*self._ids, AgentRewardRequest(reward=reward))
            await self._tell("OnReward", told)
        if period.messages:
            messages = AgentMessageRequest(messages=period.messages)
            await self._tell("OnMessage", self._component.on_message(*self._ids, messages))
        for observation in period.observations:
            self._requests.put(AgentObservationRequest(observation=observation))

    async def _end(self, period: ActorPeriodData) -> None:
        request = AgentEndRequest(final_data=period)
        failure = await self._tell("OnEnd", self._component.on_end(*self._ids, request))
        if is_too_large(failure):
            # Nothing else frees its session, and that is worth more than what it cannot take.
            bare = AgentEndRequest(final_data=ActorPeriodData(end_reason=period.end_reason))
            await self._tell("OnEnd", self._component.on_end(*self._ids, bare))
        self._events.ended()
