"""The components that can be plugged into the orchestrator, and what they return.

A component elsewhere is reached by gRPC through the classes of `remote`, which have these methods.
An object in the orchestrator's own process that has them needs no socket: give it a name in
`local=`, and use `local://name` as its endpoint.

A component that has `async def on_stop(self, grace)` is told when the orchestrator stops: it has
`grace` seconds, and half a second more, to end what it has begun. The components of `cogrs.sdk`
then name methods that do not return, and leave them behind.

Messages are passed without a copy: do not change a message that you are given, nor one that you
have returned. An exception counts as the failure of the call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from cogrs.escape import escaped

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from cogrs.api import agent_pb2, datalog_pb2, environment_pb2, hooks_pb2


class EnvironmentComponent(Protocol):
    """Runs environments of any number of trials."""

    async def on_start(
        self, trial_id: str, request: environment_pb2.EnvStartRequest
    ) -> environment_pb2.EnvStartReply:
        """Start a trial, and return the first observations."""

    def on_action(
        self, trial_id: str, requests: AsyncIterator[environment_pb2.EnvActionRequest]
    ) -> AsyncIterator[environment_pb2.EnvActionReply]:
        """Make a step for each set of actions, until either side ends the stream."""

    async def on_message(
        self, trial_id: str, request: environment_pb2.EnvMessageRequest
    ) -> environment_pb2.EnvMessageReply:
        """Take messages."""

    async def on_end(
        self, trial_id: str, request: environment_pb2.EnvActionRequest
    ) -> environment_pb2.EnvActionReply:
        """End a trial, and return the last observations."""


class AgentComponent(Protocol):
    """Runs agents of any number of trials."""

    async def on_start(
        self, trial_id: str, actor_name: str, request: agent_pb2.AgentStartRequest
    ) -> agent_pb2.AgentStartReply:
        """Start a trial."""

    def on_observation(
        self,
        trial_id: str,
        actor_name: str,
        requests: AsyncIterator[agent_pb2.AgentObservationRequest],
    ) -> AsyncIterator[agent_pb2.AgentActionReply]:
        """Answer each observation with an action."""

    async def on_reward(
        self, trial_id: str, actor_name: str, request: agent_pb2.AgentRewardRequest
    ) -> agent_pb2.AgentRewardReply:
        """Take a reward."""

    async def on_message(
        self, trial_id: str, actor_name: str, request: agent_pb2.AgentMessageRequest
    ) -> agent_pb2.AgentMessageReply:
        """Take messages."""

    async def on_end(
        self, trial_id: str, actor_name: str, request: agent_pb2.AgentEndRequest
    ) -> agent_pb2.AgentEndReply:
        """Take the final data; no more calls will follow."""


class HookComponent(Protocol):
    """Changes the parameters of trials before they start."""

    async def on_pre_trial(
        self, trial_id: str, context: hooks_pb2.PreTrialContext
    ) -> hooks_pb2.PreTrialContext:
        """Return the parameters as they are to be."""


class LogComponent(Protocol):
    """Keeps what happens in trials."""

    async def on_log_sample(
        self, trial_id: str, requests: AsyncIterator[datalog_pb2.LogExporterSampleRequest]
    ) -> datalog_pb2.LogExporterSampleReply:
        """Take the parameters of a trial, and its samples, until it is over."""


T = TypeVar("T")


def checked(reply: object, kind: type[T]) -> T:
    """Return the reply of a component; a TypeError if it does not have the expected type."""
    if not isinstance(reply, kind):
        got = type(reply).__name__
        raise TypeError(f"expected {kind.__name__} to be returned, got {got}")
    return reply


def describe(error: BaseException) -> str:
    """Return the text of a component's failure, on one line."""
    return escaped(str(error) or type(error).__name__)
