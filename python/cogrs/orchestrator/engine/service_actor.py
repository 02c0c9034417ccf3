"""An agent of one trial, which the orchestrator calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cogrs.api.agent_pb2 import AgentActionReply, AgentObservationRequest, AgentStartRequest
from cogrs.orchestrator.engine.actor import Actor, ActorContext
from cogrs.orchestrator.engine.clock import Alarm
from cogrs.orchestrator.engine.end_reason import EndReason
from cogrs.orchestrator.engine.endpoint import parse_endpoint
from cogrs.orchestrator.engine.observation import fill
from cogrs.orchestrator.engine.state import RunState

if TYPE_CHECKING:
    from cogrs.api.common_pb2 import ActorPeriodData, ObservationData
    from cogrs.orchestrator.engine.ports import Links


class ServiceActor(Actor):
    """An agent: an `Actor` to the trial, and `AgentEvents` to its port."""

    def __init__(self, context: ActorContext, trial_id: str, links: Links) -> None:
        """Create the port; nothing is called yet."""
        super().__init__(context)
        self._label = f"actor {self.name!r}"
        self._where = f"{self._label} at {self.params.endpoint}"
        endpoint = parse_endpoint(self._where, self.params.endpoint)
        self._port = links.agent(trial_id, self.name, endpoint, self)
        self._start_alarm = Alarm(context.clock, self._on_late_start)
        connect = self.options.initial_connection_timeout
        self._start_timeout = self._settings.start_timeout if connect is None else connect
        self._state = RunState.IDLE
        self._final: ActorPeriodData | None = None

    # Called by the trial.

    def start(self, start_request: AgentStartRequest) -> None:
        """Call OnStart."""
        request = AgentStartRequest()
        request.CopyFrom(start_request)
        request.impl_name = self.params.implementation
        if self.params.HasField("config"):
            request.config.CopyFrom(self.params.config)
        self._state = RunState.STARTING
        self._start_alarm.set(self._start_timeout)
        self._port.start(request)

    def deliver(self, period: ActorPeriodData) -> None:
        """Send the data of a tick."""
        self._await_action()
        self._port.deliver(period)

    def observe(self, tick_id: int, timestamp: int, data: ObservationData) -> None:
        """Send an observation."""
        self._await_action()
        request = AgentObservationRequest()
        fill(request.observation, tick_id, timestamp, data)
        self._port.observe(request)

    def finish(self, period: ActorPeriodData) -> None:
        """Call OnEnd if there is a session, which nothing else frees."""
        if self.ready:
            self._end(period)
        else:
            self._final = period
            self.done = self._state is not RunState.STARTING

    def close(self) -> None:
        """Cancel what is under way; but a start that is late may still end well."""
        if self._state is not RunState.OVER:
            grace = 0.0 if self.ready else self._settings.close_grace
            self._state = RunState.OVER
            self.done = True
            self._start_alarm.stop()
            self._response_alarm.stop()
            self._port.close(grace)

    # Called by the port.

    def started(self) -> None:
        """Handle the answer to OnStart."""
        if self._state is RunState.LOST:
            self._end_late_session()
        if self._state is not RunState.STARTING:
            return
        self._start_alarm.stop()
        self._state = RunState.STARTED
        self.ready = True
        self._trial.heard()
        if self._final is not None:
            self._end(self._final)
        else:
            self._trial.actor_ready()

    def acted(self, reply: AgentActionReply) -> None:
        """Handle an action of the stream; rewards and messages with it count as sent before it."""
        if self._state is RunState.STARTED and not self.gone:
            self._trial.heard()
            rewards, messages = reply.rewards, reply.messages
            if rewards or messages:
                self._trial.actor_sent(self, rewards, messages)
            self._trial.actor_acted(self, reply.action.content)

    def ended(self) -> None:
        """Handle the answer to OnEnd, or its failure."""
        if self._state is RunState.ENDING:
            self._state = RunState.OVER
            self.done = True
            self._port.close(self._settings.close_grace)
            self._trial.actor_done()

    def failed(self, call: str, what: str) -> None:
        """Handle the failure of OnStart, or the end of the stream."""
        if self._state in (RunState.STARTING, RunState.STARTED):
            self._lose(f": {call}: {what}", f": {call} failed")

    def crashed(self, what: str) -> None:
        """Handle an error of the port itself."""
        self._trial.crash(f"{self._where}: {what}")

    def _end_late_session(self) -> None:
        # It comes too late to take part, but only OnEnd frees its session.
        self.ready = True
        if self._final is not None:
            self.done = False
            self._end(self._final)

    def _on_late_start(self) -> None:
        late = f": OnStart: no answer within {self._start_timeout:g} s"
        self._lose(late, late)

    def _lose(self, why: str, public: str) -> None:
        self._start_alarm.stop()
        self._state = RunState.LOST
        if self._final is not None:
            self.done = True
            self._trial.actor_done()
        else:
            self._trial.actor_lost(self, EndReason(self._where + why, self._label + public))

    def _end(self, period: ActorPeriodData) -> None:
        self._state = RunState.ENDING
        self._port.end(period)
