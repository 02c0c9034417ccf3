"""The engine's interface to the world: ports, which it calls, and events, by which they answer.

A port returns at once, never raises, and never calls back from within a call: its answer arrives
later, as an event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cogrs.api.agent_pb2 import AgentActionReply, AgentObservationRequest, AgentStartRequest
    from cogrs.api.common_pb2 import ActorPeriodData, Message, Reward, TrialParams
    from cogrs.api.datalog_pb2 import DatalogSample
    from cogrs.api.environment_pb2 import (
        EnvActionReply,
        EnvActionRequest,
        EnvStartReply,
        EnvStartRequest,
    )
    from cogrs.orchestrator.engine.endpoint import Endpoint
    from cogrs.orchestrator.engine.errors import OrchestratorError


class ComponentPort(Protocol):
    """Reaches one component in one trial; calls take effect in their order."""

    def close(self, grace: float) -> None:
        """Half-close the stream, and cancel what is left after `grace` seconds."""


class ComponentEvents(Protocol):
    """The answers of a `ComponentPort`."""

    def failed(self, call: str, what: str) -> None:
        """Handle a failed call, or the end of the stream.

        Failures of OnReward, OnMessage and an agent's OnEnd are only logged.
        """

    def crashed(self, what: str) -> None:
        """Handle an error of the port itself."""


class EnvironmentPort(ComponentPort, Protocol):
    """Reaches the environment of one trial."""

    def start(self, request: EnvStartRequest) -> None:
        """Call OnStart, and open the stream of actions when it was answered."""

    def act(self, messages: Sequence[Message], request: EnvActionRequest) -> None:
        """Pass on messages by OnMessage, then actions on the stream."""

    def end(self, messages: Sequence[Message], request: EnvActionRequest) -> None:
        """Pass on messages by OnMessage, then call OnEnd."""


class EnvironmentEvents(ComponentEvents, Protocol):
    """The answers of an `EnvironmentPort`."""

    def started(self, reply: EnvStartReply) -> None:
        """Handle the answer to OnStart."""

    def replied(self, reply: EnvActionReply) -> None:
        """Handle a reply of the stream."""

    def ended(self, reply: EnvActionReply) -> None:
        """Handle the answer to OnEnd."""


class AgentPort(ComponentPort, Protocol):
    """Reaches one agent in one trial."""

    def start(self, request: AgentStartRequest) -> None:
        """Call OnStart, and open the stream of observations when it was answered."""

    def deliver(self, period: ActorPeriodData) -> None:
        """Call OnReward for each reward and OnMessage for all messages, then send observations."""

    def observe(self, request: AgentObservationRequest) -> None:
        """Send an observation; as `deliver` without rewards and messages, and cheaper."""

    def end(self, period: ActorPeriodData) -> None:
        """Call OnEnd; `close` follows."""


class AgentEvents(ComponentEvents, Protocol):
    """The answers of an `AgentPort`."""

    def started(self) -> None:
        """Handle the answer to OnStart."""

    def acted(self, reply: AgentActionReply) -> None:
        """Handle an action of the stream."""

    def ended(self) -> None:
        """Handle the answer to OnEnd, or its failure."""


class ReaderPort(Protocol):
    """Reaches the call that reads a client's stream, or watches trials."""

    def wake(self) -> None:
        """Wake the call: there is something to take."""

    def close(self, error: OrchestratorError) -> None:
        """End the stream with this error."""


class LogPort(Protocol):
    """Reaches the data log of one trial; a log that cannot keep up loses samples."""

    def params(self, params: TrialParams, spaces: str = "") -> None:
        """Open the stream; `spaces` are those that the environment told."""

    def sample(self, sample: DatalogSample) -> None:
        """Send a sample."""

    def close(self) -> None:
        """End the stream, if it was opened."""


class Links(Protocol):
    """Makes the ports of a trial."""

    def check(self, what: str, endpoint: Endpoint) -> None:
        """Refuse an endpoint that is unknown or not allowed: an InvalidError, after `what`."""

    def environment(
        self, trial_id: str, endpoint: Endpoint, events: EnvironmentEvents
    ) -> EnvironmentPort:
        """Return a port to an environment."""

    def agent(self, trial_id: str, name: str, endpoint: Endpoint, events: AgentEvents) -> AgentPort:
        """Return a port to an agent."""

    def log(self, trial_id: str) -> LogPort | None:
        """Return a port to the data log, or None without one."""

    async def reward_late(self, trial_id: str, endpoint: Endpoint, reward: Reward) -> bool:
        """Reward an agent of a trial that has ended; return whether it took the reward."""
