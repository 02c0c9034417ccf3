"""The environment of one trial, as the engine sees it."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Protocol

from cogrs.api.environment_pb2 import EnvStartRequest
from cogrs.orchestrator.engine.clock import Alarm
from cogrs.orchestrator.engine.endpoint import parse_endpoint
from cogrs.orchestrator.engine.params import actors_in_trial
from cogrs.orchestrator.engine.reason import Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cogrs.api.common_pb2 import Message, TrialParams
    from cogrs.api.environment_pb2 import EnvActionReply, EnvActionRequest, EnvStartReply
    from cogrs.orchestrator.engine.clock import Clock
    from cogrs.orchestrator.engine.ports import Links
    from cogrs.orchestrator.engine.settings import Settings


class Life(enum.Enum):
    """How far a component that is called by the orchestrator has come."""

    IDLE = enum.auto()
    STARTING = enum.auto()
    STARTED = enum.auto()
    ENDING = enum.auto()
    LOST = enum.auto()
    OVER = enum.auto()


class Stage(Protocol):
    """What a trial hears of its environment."""

    def environment_started(self, reply: EnvStartReply) -> None:
        """It sent its first observations."""

    def environment_replied(self, reply: EnvActionReply) -> None:
        """It made a step."""

    def environment_ended(self, reply: EnvActionReply) -> None:
        """It answered the request to end."""

    def environment_lost(self, reason: str) -> None:
        """It will not be heard of again."""

    def crash(self, what: str) -> None:
        """Something of ours failed."""


class Environment:
    """Passes on what is due in its present phase of life, and drops what comes too late."""

    def __init__(
        self, trial_id: str, params: TrialParams, stage: Stage, links: Links, clock: Clock
    ) -> None:
        """Make the port; nothing is called yet."""
        self._params = params
        self._stage = stage
        self._where = f"environment {params.environment.endpoint}"
        endpoint = parse_endpoint("environment", params.environment.endpoint)
        self._port = links.environment(trial_id, endpoint, self)
        self._alarm = Alarm(clock, self._late)
        self._timeout = 0.0
        self.life = Life.IDLE

    # What the trial asks for.

    def start(self, settings: Settings) -> None:
        """Call OnStart."""
        self._timeout = settings.start_timeout
        environment = self._params.environment
        request = EnvStartRequest(
            impl_name=environment.implementation, actors_in_trial=actors_in_trial(self._params)
        )
        if environment.HasField("config"):
            request.config.CopyFrom(environment.config)
        self.life = Life.STARTING
        self._alarm.set(self._timeout)
        self._port.start(request)

    def act(self, messages: Sequence[Message], request: EnvActionRequest) -> None:
        """Send messages and actions."""
        self._port.act(messages, request)

    def end(self, messages: Sequence[Message], request: EnvActionRequest) -> None:
        """Call OnEnd."""
        self.life = Life.ENDING
        self._port.end(messages, request)

    def close(self, grace: float) -> None:
        """Let it go."""
        if self.life is not Life.OVER:
            self.life = Life.OVER
            self._alarm.stop()
            self._port.close(grace)

    # What its port tells.

    def started(self, reply: EnvStartReply) -> None:
        """OnStart was answered."""
        if self.life is Life.STARTING:
            self._alarm.stop()
            self.life = Life.STARTED
            self._stage.environment_started(reply)

    def replied(self, reply: EnvActionReply) -> None:
        """The stream brought a reply."""
        if self.life in (Life.STARTED, Life.ENDING):
            self._stage.environment_replied(reply)

    def ended(self, reply: EnvActionReply) -> None:
        """OnEnd was answered."""
        if self.life is Life.ENDING:
            self._stage.environment_ended(reply)

    def failed(self, call: str, what: str) -> None:
        """A call failed. While OnEnd is under way, only that call can."""
        if self.life is Life.ENDING and call != "OnEnd":
            return
        if self.life in (Life.STARTING, Life.STARTED, Life.ENDING):
            self._lose(Reason(f"{self._where}: {call}: {what}", f"environment: {call} failed"))

    def crashed(self, what: str) -> None:
        """The port itself failed."""
        self._stage.crash(f"{self._where}: {what}")

    def _late(self) -> None:
        late = f": OnStart: no answer within {self._timeout:g} s"
        self._lose(Reason(self._where + late, f"environment{late}"))

    def _lose(self, reason: str) -> None:
        self._alarm.stop()
        self.life = Life.LOST
        self._stage.environment_lost(reason)
