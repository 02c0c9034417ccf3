"""The environment of one trial, which the orchestrator calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from cogrs.api.environment_pb2 import (
    EnvActionReply,
    EnvActionRequest,
    EnvStartReply,
    EnvStartRequest,
)
from cogrs.orchestrator.engine.clock import Alarm, Clock
from cogrs.orchestrator.engine.end_reason import EndReason
from cogrs.orchestrator.engine.endpoint import parse_endpoint
from cogrs.orchestrator.engine.params import actors_in_trial
from cogrs.orchestrator.engine.state import RunState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cogrs.api.common_pb2 import Message, TrialParams
    from cogrs.orchestrator.engine.ports import Links
    from cogrs.orchestrator.engine.settings import Settings


class EnvironmentCallbacks(Protocol):
    """The events that an environment reports to its trial."""

    def environment_started(self, reply: EnvStartReply) -> None:
        """Handle the first observations."""

    def environment_replied(self, reply: EnvActionReply) -> None:
        """Handle a step."""

    def environment_ended(self, reply: EnvActionReply) -> None:
        """Handle the answer to the request to end."""

    def environment_lost(self, reason: str) -> None:
        """Handle an environment of which nothing more will come."""

    def crash(self, what: str) -> None:
        """Handle an error of the engine or of a port."""


class TrialEnvironment:
    """Passes on calls and replies that fit its state, and drops those that come too late."""

    def __init__(
        self,
        trial_id: str,
        params: TrialParams,
        trial: EnvironmentCallbacks,
        links: Links,
        settings: Settings,
        clock: Clock,
    ) -> None:
        """Create the port; nothing is called yet."""
        self._params = params
        self._trial = trial
        self._where = f"environment {params.environment.endpoint}"
        endpoint = parse_endpoint("environment", params.environment.endpoint)
        self._port = links.environment(trial_id, endpoint, self)
        self._settings = settings
        self._start_alarm = Alarm(clock, self._on_late_start)
        self.state = RunState.IDLE

    # Called by the trial.

    def start(self) -> None:
        """Call OnStart."""
        environment = self._params.environment
        request = EnvStartRequest(
            impl_name=environment.implementation, actors_in_trial=actors_in_trial(self._params)
        )
        if environment.HasField("config"):
            request.config.CopyFrom(environment.config)
        self.state = RunState.STARTING
        self._start_alarm.set(self._settings.start_timeout)
        self._port.start(request)

    def act(self, messages: Sequence[Message], request: EnvActionRequest) -> None:
        """Send messages and actions."""
        self._port.act(messages, request)

    def end(self, messages: Sequence[Message], request: EnvActionRequest) -> None:
        """Call OnEnd."""
        self.state = RunState.ENDING
        self._port.end(messages, request)

    def close(self) -> None:
        """Close the port."""
        if self.state is not RunState.OVER:
            self.state = RunState.OVER
            self._start_alarm.stop()
            self._port.close(self._settings.close_grace)

    # Called by the port.

    def started(self, reply: EnvStartReply) -> None:
        """Handle the answer to OnStart."""
        if self.state is RunState.STARTING:
            self._start_alarm.stop()
            self.state = RunState.STARTED
            self._trial.environment_started(reply)

    def replied(self, reply: EnvActionReply) -> None:
        """Handle a reply of the stream."""
        if self.state in (RunState.STARTED, RunState.ENDING):
            self._trial.environment_replied(reply)

    def ended(self, reply: EnvActionReply) -> None:
        """Handle the answer to OnEnd."""
        if self.state is RunState.ENDING:
            self._trial.environment_ended(reply)

    def failed(self, call: str, what: str) -> None:
        """Handle a failed call; while OnEnd is under way, failures of other calls do not matter."""
        if self.state is RunState.ENDING and call != "OnEnd":
            return
        if self.state in (RunState.STARTING, RunState.STARTED, RunState.ENDING):
            self._lose(f": {call}: {what}", f": {call} failed")

    def crashed(self, what: str) -> None:
        """Handle an error of the port itself."""
        self._trial.crash(f"{self._where}: {what}")

    def _on_late_start(self) -> None:
        late = f": OnStart: no answer within {self._settings.start_timeout:g} s"
        self._lose(late, late)

    def _lose(self, why: str, public: str) -> None:
        self._start_alarm.stop()
        self.state = RunState.LOST
        self._trial.environment_lost(EndReason(self._where + why, f"environment{public}"))
