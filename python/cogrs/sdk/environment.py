"""An environment: the interface that a user implements, and the service that runs it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import time_ns
from typing import TYPE_CHECKING, Any, Protocol

from grpc import StatusCode

from cogrs.api import common_pb2
from cogrs.api import environment_pb2 as pb
from cogrs.api.environment_pb2_grpc import EnvironmentEndpointServicer
from cogrs.sdk.call import abort_for, implementation_of, metadata_of, settled, versions
from cogrs.sdk.trial import (
    Message,
    ReceivedMessage,
    Reward,
    Trial,
    actors_of,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from cogrs.sdk.call import Context
    from cogrs.sdk.payload import Codec


@dataclass(slots=True)
class Update:
    """What an environment tells after its start, a step or the end.

    Attributes:
        observations: For each actor's name what it observes, or one value for all actors.
        rewards: For each actor's name a number, or `Reward` objects.
        messages: User data for actors.
        final: The trial is over with this update.
        terminated: The state is terminal; told to actors by codecs that carry it.
        truncated: The episode was cut short here; likewise.
    """

    observations: Any
    rewards: Mapping[str, float] | Sequence[Reward] = ()
    messages: Sequence[Message] = field(default_factory=tuple)
    final: bool = False
    terminated: bool = False
    truncated: bool = False


class Environment(Protocol):
    """One environment in one trial. Each method may be plain, or `async`.

    Plain methods run on the event loop: what takes long, or waits, blocks all trials of the
    process, and belongs into an `async` method.
    """

    def start(self, trial: Trial) -> Any:
        """Begin, and return the `Update` of tick 0."""
        ...

    def step(self, actions: Mapping[str, Any]) -> Any:
        """Do what the actors decided, by their names, and return an `Update`."""
        ...

    def end(self, actions: Mapping[str, Any]) -> Any:
        """End because somebody else wants to; return the last `Update`.

        Args:
            actions: What the actors decided last; actors that have not decided are left out.
        """
        ...


class EnvironmentServicer(EnvironmentEndpointServicer):
    """Serves environments of several kinds, for any number of trials at once."""

    def __init__(
        self, implementations: Mapping[str, Callable[[], Environment]], codec: Codec
    ) -> None:
        """Make an environment by one of these factories for each trial."""
        self._implementations = implementations
        self._codec = codec
        self._sessions: dict[str, _Session] = {}

    async def OnStart(self, request: pb.EnvStartRequest, context: Context) -> pb.EnvStartReply:
        """Start an environment for a trial."""
        (trial_id,) = await metadata_of(context, "trial-id")
        if trial_id in self._sessions:
            await context.abort(StatusCode.ALREADY_EXISTS, f"trial {trial_id} is here already")
        make = await implementation_of(context, self._implementations, request.impl_name)
        trial = Trial(
            trial_id,
            actors_of(request.actors_in_trial),
            implementation=request.impl_name,
            config=request.config.content if request.HasField("config") else None,
        )
        session = self._sessions[trial_id] = _Session(trial, self._codec)
        try:
            reply = await session.start(make)
        except Exception as error:
            del self._sessions[trial_id]
            await abort_for(context, f"trial {trial_id}: the environment's start", error)
        return pb.EnvStartReply(observation_set=reply.observation_set)

    async def OnAction(
        self, requests: AsyncIterator[pb.EnvActionRequest], context: Context
    ) -> AsyncIterator[pb.EnvActionReply]:
        """Step the environment of a trial for each set of actions."""
        session = await self._session(context)
        try:
            async for request in requests:
                reply = await session.step(request.action_set.actions)
                yield reply
                if reply.final_update:
                    break
        except Exception as error:
            await abort_for(context, f"trial {session.trial.id}: the environment's step", error)
        finally:
            # Whoever called has gone, or has all it wanted; an end asked for in between is done.
            self._sessions.pop(session.trial.id, None)

    async def OnMessage(
        self, request: pb.EnvMessageRequest, context: Context
    ) -> pb.EnvMessageReply:
        """Give the environment of a trial what was sent to it."""
        session = await self._session(context)
        try:
            await session.message(request.messages)
        except Exception as error:
            await abort_for(context, f"trial {session.trial.id}: the environment's message", error)
        return pb.EnvMessageReply()

    async def OnEnd(self, request: pb.EnvActionRequest, context: Context) -> pb.EnvActionReply:
        """End the environment of a trial."""
        session = await self._session(context)
        try:
            return await session.end(request.action_set.actions)
        except Exception as error:
            await abort_for(context, f"trial {session.trial.id}: the environment's end", error)
        finally:
            self._sessions.pop(session.trial.id, None)

    async def Version(
        self, request: common_pb2.VersionRequest, context: Context
    ) -> common_pb2.VersionInfo:
        """Tell versions."""
        return versions()

    async def _session(self, context: Context) -> _Session:
        (trial_id,) = await metadata_of(context, "trial-id")
        if trial_id not in self._sessions:
            await context.abort(StatusCode.NOT_FOUND, f"trial {trial_id} is not here")
        return self._sessions[trial_id]


class _Session:
    """An environment in its trial."""

    def __init__(self, trial: Trial, codec: Codec) -> None:
        self.trial = trial
        self._codec = codec
        self._environment: Environment | None = None
        self._tick = 0
        # A step that is awaited must not meet an end.
        self._turn = asyncio.Lock()

    async def start(self, make: Callable[[], Environment]) -> pb.EnvActionReply:
        async with self._turn:
            self._environment = make()
            return self._reply(await settled(self._environment.start(self.trial)))

    async def step(self, contents: Sequence[bytes]) -> pb.EnvActionReply:
        async with self._turn:
            update = await settled(self._running().step(self._actions(contents)))
            self._tick += 1
            return self._reply(update)

    async def end(self, contents: Sequence[bytes]) -> pb.EnvActionReply:
        async with self._turn:
            update = await settled(self._running().end(self._actions(contents)))
            self._tick += 1
            reply = self._reply(update)
            reply.final_update = True
            return reply

    async def message(self, messages: Sequence[common_pb2.Message]) -> None:
        handle = getattr(self._environment, "message", None)
        if handle is None:
            return
        async with self._turn:
            for message in messages:
                await settled(handle(ReceivedMessage.from_message(message)))

    def _running(self) -> Environment:
        if self._environment is None:
            raise RuntimeError("it has not started")
        return self._environment

    def _actions(self, contents: Sequence[bytes]) -> dict[str, Any]:
        names = self.trial.actor_names
        if contents and len(contents) != len(names):
            raise ValueError(f"actions: expected {len(names)}, got {len(contents)}")
        actions = {}
        for name, content in zip(names, contents, strict=False):
            try:
                actions[name] = self._codec.decode(content).value
            except ValueError as error:
                raise ValueError(f"action of {name!r}: {error}") from None
        return actions

    def _reply(self, update: Update) -> pb.EnvActionReply:
        return pb.EnvActionReply(
            observation_set=self._observation_set(update),
            rewards=[reward.to_message() for reward in _rewards(update.rewards)],
            messages=[message.to_message() for message in update.messages],
            final_update=update.final,
        )

    def _observation_set(self, update: Update) -> pb.ObservationSet:
        names = self.trial.actor_names
        if isinstance(update.observations, Mapping):
            missing = set(names) - set(update.observations)
            if missing:
                raise ValueError(f"observations: none for {', '.join(sorted(missing))}")
            values, index = [update.observations[name] for name in names], list(range(len(names)))
        else:
            values, index = [update.observations], [0] * len(names)
        flags = {"terminated": update.terminated, "truncated": update.truncated}
        contents = (self._codec.encode(value, **flags) for value in values)
        return pb.ObservationSet(
            tick_id=self._tick,
            timestamp=time_ns(),
            observations=[
                common_pb2.ObservationData(content=content, snapshot=True) for content in contents
            ],
            actors_map=index,
        )


def _rewards(rewards: Mapping[str, float] | Sequence[Reward]) -> Sequence[Reward]:
    if isinstance(rewards, Mapping):
        return [Reward(name, value) for name, value in rewards.items()]
    return rewards
