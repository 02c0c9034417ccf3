"""An agent: the interface that a user implements, and the service that runs it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from grpc import StatusCode

from cogrs.api import agent_pb2 as pb
from cogrs.api import common_pb2
from cogrs.api.agent_pb2_grpc import AgentEndpointServicer
from cogrs.sdk.call import abort_for, implementation_of, metadata_of, settled, versions
from cogrs.sdk.trial import (
    Final,
    Message,
    Observation,
    ReceivedMessage,
    ReceivedReward,
    Reward,
    Trial,
    actors_of,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from cogrs.sdk.call import Context
    from cogrs.sdk.payload import Codec


@dataclass(frozen=True, slots=True)
class Action:
    """What an actor does, with what it tells others at the same time.

    Attributes:
        value: The action itself.
        rewards: Rewards for other actors.
        messages: User data for other actors, or the environment.
    """

    value: Any
    rewards: Sequence[Reward] = field(default_factory=tuple)
    messages: Sequence[Message] = field(default_factory=tuple)


class Agent:
    """One actor in one trial. Override what is needed; each method may be plain, or `async`.

    Plain methods run on the event loop: what takes long, or waits, blocks all trials of the
    process, and belongs into an `async` method.
    """

    def start(self, trial: Trial) -> Any:
        """Begin."""

    def act(self, observation: Observation) -> Any:
        """Return what to do: a value, or an `Action`."""
        raise NotImplementedError(f"{type(self).__name__}.act")

    def reward(self, reward: ReceivedReward) -> Any:
        """Take a reward. It comes before the observation that it arrived with."""

    def message(self, message: ReceivedMessage) -> Any:
        """Take user data. It comes before the observation that it arrived with."""

    def end(self, final: Final) -> Any:
        """Take what happened last; nothing comes after it."""

    def lost(self) -> Any:
        """Give up: the orchestrator is gone, and the trial with it, without an end."""


class AgentServicer(AgentEndpointServicer):
    """Serves agents of several kinds, for any number of trials and actors at once."""

    def __init__(self, implementations: Mapping[str, Callable[[], Agent]], codec: Codec) -> None:
        """Make an agent by one of these factories for each actor of each trial."""
        self._implementations = implementations
        self._codec = codec
        self._agents: dict[tuple[str, str], Agent] = {}

    async def OnStart(self, request: pb.AgentStartRequest, context: Context) -> pb.AgentStartReply:
        """Start an actor."""
        trial_id, name = key = await _key(context)
        if key in self._agents:
            await context.abort(
                StatusCode.ALREADY_EXISTS, f"actor {name!r} of trial {trial_id} is here already"
            )
        make = await implementation_of(context, self._implementations, request.impl_name)
        trial = Trial(
            trial_id,
            actors_of(request.actors_in_trial),
            name,
            request.impl_name,
            request.config.content if request.HasField("config") else None,
        )
        try:
            agent = self._agents[key] = make()
            await settled(agent.start(trial))
        except Exception as error:
            self._agents.pop(key, None)
            await _failed(context, key, "start", error)
        return pb.AgentStartReply()

    async def OnObservation(
        self, requests: AsyncIterator[pb.AgentObservationRequest], context: Context
    ) -> AsyncIterator[pb.AgentActionReply]:
        """Have an actor act on each observation."""
        key, agent = await self._agent(context)
        try:
            async for request in requests:
                observation = self._observation(request.observation)
                yield self._reply(await settled(agent.act(observation)))
        except Exception as error:
            await _failed(context, key, "act", error)
        finally:
            # The stream of a trial that ends well is closed after OnEnd.
            if self._agents.pop(key, None) is not None:
                await settled(agent.lost())

    async def OnReward(
        self, request: pb.AgentRewardRequest, context: Context
    ) -> pb.AgentRewardReply:
        """Give an actor a reward."""
        key, agent = await self._agent(context)
        try:
            await settled(agent.reward(ReceivedReward.from_message(request.reward)))
        except Exception as error:
            await _failed(context, key, "reward", error)
        return pb.AgentRewardReply()

    async def OnMessage(
        self, request: pb.AgentMessageRequest, context: Context
    ) -> pb.AgentMessageReply:
        """Give an actor what was sent to it."""
        key, agent = await self._agent(context)
        try:
            for message in request.messages:
                await settled(agent.message(ReceivedMessage.from_message(message)))
        except Exception as error:
            await _failed(context, key, "message", error)
        return pb.AgentMessageReply()

    async def OnEnd(self, request: pb.AgentEndRequest, context: Context) -> pb.AgentEndReply:
        """End an actor."""
        key, agent = await self._agent(context)
        del self._agents[key]
        try:
            await settled(agent.end(self._final(request.final_data)))
        except Exception as error:
            await _failed(context, key, "end", error)
        return pb.AgentEndReply()

    async def Version(
        self, request: common_pb2.VersionRequest, context: Context
    ) -> common_pb2.VersionInfo:
        """Tell versions."""
        return versions()

    async def _agent(self, context: Context) -> tuple[tuple[str, str], Agent]:
        key = await _key(context)
        if key not in self._agents:
            text = f"actor {key[1]!r} of trial {key[0]} is not here"
            await context.abort(StatusCode.NOT_FOUND, text)
        return key, self._agents[key]

    def _observation(self, message: common_pb2.Observation) -> Observation:
        value, terminated, truncated = self._codec.decode(message.data.content)
        return Observation(
            message.tick_id,
            value,
            terminated,
            truncated,
            message.data.snapshot,
            message.timestamp,
        )

    def _reply(self, action: Any) -> pb.AgentActionReply:
        done = action if isinstance(action, Action) else Action(action)
        return pb.AgentActionReply(
            action=common_pb2.Action(content=self._codec.encode(done.value)),
            rewards=[reward.to_message() for reward in done.rewards],
            messages=[message.to_message() for message in done.messages],
        )

    def _final(self, data: common_pb2.ActorPeriodData) -> Final:
        last = self._observation(data.observations[-1]) if data.observations else None
        rewards = tuple(ReceivedReward.from_message(reward) for reward in data.rewards)
        return Final(last, rewards, tuple(map(ReceivedMessage.from_message, data.messages)))


class FunctionAgent(Agent):
    """An agent that is one function of what is observed."""

    def __init__(self, function: Callable[[Observation], Any]) -> None:
        """Act by this function, plain or async."""
        self._function = function

    def act(self, observation: Observation) -> Any:
        """Call it."""
        return self._function(observation)


async def _key(context: Context) -> tuple[str, str]:
    trial_id, name = await metadata_of(context, "trial-id", "actor-name")
    return trial_id, name


async def _failed(context: Context, key: tuple[str, str], what: str, error: Exception) -> None:
    await abort_for(context, f"trial {key[0]}: {what} of actor {key[1]!r}", error)
