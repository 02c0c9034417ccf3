"""The port to an agent."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from cogrs.api.agent_pb2 import (
    AgentActionReply,
    AgentEndRequest,
    AgentMessageRequest,
    AgentObservationRequest,
    AgentRewardRequest,
    AgentStartReply,
    AgentStartRequest,
)
from cogrs.api.common_pb2 import ActorPeriodData
from cogrs.escape import escaped
from cogrs.orchestrator.engine.backlog import Backlog, find_excess, measure_period
from cogrs.orchestrator.links.component import AgentComponent, describe
from cogrs.orchestrator.links.link import Link, LinkContext
from cogrs.orchestrator.links.remote import is_too_large
from cogrs.user_errors import is_failure

if TYPE_CHECKING:
    from cogrs.orchestrator.engine.ports import AgentEvents
    from cogrs.orchestrator.engine.settings import Settings

_LONGEST_ERROR = 2_000
"""Characters that are logged of an agent's error."""


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
        self._together = False
        """Whether rewards and messages go with observations."""
        self._sent = self._answered = 0
        """Requests of the stream, and its replies."""
        self._unanswered: Backlog[ActorPeriodData] = Backlog(measure_period)
        """What went with observations that have no answer yet: it may not have arrived."""
        self._numbers: deque[int] = deque()
        """Of the requests with these."""

    def start(self, request: AgentStartRequest) -> None:
        """Call OnStart, and open the stream of observations when it was answered."""
        self._calls.put(partial(self._start, request))

    def deliver(self, period: ActorPeriodData) -> None:
        """Send rewards and messages, and then the observation: together, or by a call for each."""
        if self._together and self._calls.idle:
            self._send_together(period)
            self._check_backlog()
        else:
            self._later(period)

    def observe(self, request: AgentObservationRequest) -> None:
        """Send an observation; as `deliver` without rewards and messages, and cheaper."""
        if self._calls.idle:
            self._send(request)
            self._check_backlog()
        else:
            self._later(request)

    def end(self, period: ActorPeriodData) -> None:
        """Call OnEnd; `close` follows."""
        self._calls.put(partial(self._end, period))

    async def _start(self, request: AgentStartRequest) -> None:
        try:
            reply = await self._component.on_start(*self._ids, request)
        except BaseException as error:
            if not is_failure(error):
                raise
            self._events.failed("OnStart", describe(error))
            return
        if self._closing:
            # Too late for the trial, but nothing else frees the session.
            await self._tell("OnEnd", self._component.on_end(*self._ids, AgentEndRequest()))
            return
        self._together = isinstance(reply, AgentStartReply) and reply.takes_feedback
        replies = self._component.on_observation(*self._ids, aiter(self._requests))
        over = partial(self._events.failed, "OnObservation")
        self._read(replies, AgentActionReply, self._take, over)
        self._events.started()

    def _take(self, reply: AgentActionReply) -> None:
        self._answered += 1
        while self._numbers and self._numbers[0] <= self._answered:
            self._numbers.popleft()
            self._unanswered.popleft()
        if reply.feedback_error:
            text = escaped(reply.feedback_error[:_LONGEST_ERROR])
            self._log.warning("%s: OnObservation: %s", self._label, text)
        self._events.acted(reply)

    def _send(self, request: AgentObservationRequest) -> None:
        self._sent += 1
        self._requests.put(request)

    def _send_together(self, period: ActorPeriodData) -> None:
        (observation,) = period.observations
        request = AgentObservationRequest(
            observation=observation, rewards=period.rewards, messages=period.messages
        )
        self._send(request)
        self._unanswered.append(period)
        self._numbers.append(self._sent)

    def _later(self, data: ActorPeriodData | AgentObservationRequest) -> None:
        if not self._too_slow:
            self._undelivered.append(data)
            self._calls.put(self._deliver)
            self._check_backlog()

    def _check_backlog(self) -> None:
        behind, unsent, unanswered = self._undelivered, self._unsent, self._unanswered
        excess = find_excess(
            len(behind) + max(len(unsent), len(unanswered)),
            behind.bytes + max(unsent.bytes, unanswered.bytes),
            self._settings,
        )
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
            self._send(data)
        elif self._together:
            self._send_together(data)
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
            self._send(AgentObservationRequest(observation=observation))

    async def _end(self, period: ActorPeriodData) -> None:
        request = AgentEndRequest(final_data=period)
        for each in self._unanswered:
            left = request.unanswered.add(rewards=each.rewards, messages=each.messages)
            left.observation.tick_id = each.observations[0].tick_id
        failure = await self._tell("OnEnd", self._component.on_end(*self._ids, request))
        if is_too_large(failure):
            # Nothing else frees its session, and that is worth more than what it cannot take.
            bare = AgentEndRequest(final_data=ActorPeriodData(end_reason=period.end_reason))
            await self._tell("OnEnd", self._component.on_end(*self._ids, bare))
        self._events.ended()
