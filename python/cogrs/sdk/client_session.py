"""A client actor's session: the stream of its actions, its signs of life, its return.

A session belongs to the event loop in which it joined, and needs no locks. Its stream is read ahead
by `ActionStream`; a task of its own sends heartbeats. When the connection is lost while it reads,
it joins again by its name and opens a new stream, which begins with the latest observation.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, Self

import grpc.aio
from google.protobuf.wrappers_pb2 import StringValue

from cogrs.api import common_pb2
from cogrs.api import orchestrator_pb2 as pb
from cogrs.api.any import unpack
from cogrs.escape import escaped
from cogrs.event_loop import check_own_loop
from cogrs.sdk.action_stream import ActionStream, is_broken
from cogrs.sdk.actor_session import ActorSession
from cogrs.sdk.agent import as_action
from cogrs.sdk.hosted_component import component_name
from cogrs.sdk.remote_errors import call_until_accepted, raising_remote_errors
from cogrs.sdk.slot_secrets import SlotSecrets, shown
from cogrs.sdk.trial import Final, Observation
from cogrs.sdk.wire import (
    action_content,
    messages_of,
    received_final,
    received_observation,
    rewards_of,
)
from cogrs.space_json import actor_spaces_from_json
from cogrs.tokens import cannot_be_pickled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cogrs.api.orchestrator_pb2_grpc import ClientActorAsyncStub
    from cogrs.sdk.actor_session import ActorEvent
    from cogrs.sdk.codecs import CodecRegistry, Codecs
    from cogrs.sdk.connection import Connection, Metadata
    from cogrs.sdk.trial import Message, Reward, Trial
    from cogrs.space_json import ActorSpaces

_logger = logging.getLogger("cogrs.sdk")

_ANSWER_TIMEOUT = 20.0
"""Seconds without an answer after which a connection counts as lost."""

_ASK_SPACES = ("spaces", "asked")
"""The metadata of a stream that asks for the environment's spaces."""

_NOT_YET = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.FAILED_PRECONDITION)
"""How a return is refused while nobody answers, or the old stream is still taken for alive."""


@dataclass(frozen=True)
class ClientContext:
    """What the sessions of a client share; see `ClientActor`."""

    connection: Connection[ClientActorAsyncStub]
    codecs: CodecRegistry
    heartbeat: float
    reconnect: float
    secrets: SlotSecrets = field(default_factory=SlotSecrets)


class ClientSession(ActorSession):
    """A client in its place in a trial. It returns by itself when its connection is lost."""

    def __init__(
        self, client: ClientContext, trial: Trial, secret: str, *, ask_spaces: bool = False
    ) -> None:
        """Open the stream, and begin to send heartbeats."""
        self.trial = trial
        self.final: Final | None = None
        """The last event, once it was returned; None before."""
        self.spaces_json = ""
        """The environment's spaces as text, once the first observation is there; see `spaces`."""
        self._ask_spaces = ask_spaces
        self._client = client
        self._codecs: Codecs = client.codecs.of(trial.actor)
        self._secret = secret
        self._events: deque[ActorEvent] = deque()
        self._owes = False
        self._over = False
        """Whether the stream is over, or was left."""
        self._left = False
        self._loop = asyncio.get_running_loop()
        self._stream = self._open()
        self._beating = asyncio.ensure_future(self._beat())

    @property
    def secret(self) -> str:
        """The secret that binds the place to this client, for a return from another process.

        It is "" where the orchestrator gives no secrets. Any program that has it can act as this
        actor.
        """
        return self._secret

    @property
    def spaces(self) -> Mapping[str, ActorSpaces]:
        """The environment's own spaces, by the actors' names.

        Empty before the first observation, if the environment told none, and unless they were asked
        for by `ClientActor.join(..., spaces=True)`.

        Raises:
            ImportError: Gymnasium is not installed.
            ValueError: The text is damaged.
        """
        return actor_spaces_from_json(self.spaces_json)

    @property
    def _metadata(self) -> Metadata:
        whom = (("trial-id", self.trial.id), ("actor-name", self.trial.name))
        return (*self._client.connection.metadata, *whom, *shown(self._secret))

    async def __anext__(self) -> ActorEvent:
        """Return the next event.

        Raises:
            RemoteCallError: The connection is lost, or the orchestrator gave this actor up.
            RuntimeError: Called in another event loop than `join`, or the client is closed.
        """
        self._check_loop()
        while not self._events:
            if self._over or self.final is not None:
                raise StopAsyncIteration
            with raising_remote_errors(self._client.connection.endpoint):
                await self._receive()
        event = self._events.popleft()
        if isinstance(event, Observation):
            self._owes = True
        elif isinstance(event, Final):
            self.final = event
            self._client.secrets.forget(self.trial)
            await self.leave()
        return event

    async def act(
        self, value: Any, *, rewards: Sequence[Reward] = (), messages: Sequence[Message] = ()
    ) -> None:
        """Answer the latest observation; see `ActorSession.act`.

        Raises:
            RuntimeError: Every observation has been answered, the actor has left, the client is
                closed, or this is another event loop than that of `join`.
        """
        self._check_loop()
        if self.final is not None:
            return
        self._client.connection.check_open()
        if self._left:
            raise RuntimeError(f"action: actor {self.trial.name!r} has left trial {self.trial.id}")
        if not self._owes:
            raise RuntimeError("action: every observation has been answered already")
        action = as_action(value, rewards, messages)
        content = action_content(action, self._codecs.action, self.trial.name)
        for reward in action.rewards:
            await self.send_reward(reward)
        for message in action.messages:
            await self.send_message(message)
        self._owes = False
        await self._stream.write(pb.TrialActionRequest(action=common_pb2.Action(content=content)))

    async def send_reward(self, reward: Reward) -> None:
        """Reward actors, at once; see `ActorSession.send_reward`."""
        request = pb.TrialRewardRequest(rewards=rewards_of([reward], self.trial.actors))
        await self._send(self._client.connection.stub.SendReward, request)

    async def send_late_reward(self, reward: Reward) -> bool:
        """Reward actors, also when the trial has ended: then the agents that stored its steps.

        Orchestrators take late rewards for a while (`Settings.late_rewards`), which is longer than
        they list the trial. Others than those of cogrs refuse them after the end.

        Args:
            reward: As of `send_reward`; after the end it has to name a tick >= 1.

        Returns:
            Whether the trial, or an agent after its end, took the reward.

        Raises:
            RemoteCallError: The orchestrator refuses.
            RuntimeError: As `act`, except that the actor may have left.
        """
        self._check_loop()
        request = pb.TrialRewardRequest(rewards=rewards_of([reward], self.trial.actors), late=True)
        with raising_remote_errors(self._client.connection.endpoint):
            stub = self._client.connection.stub
            reply = await stub.SendReward(request, metadata=self._metadata)
        return bool(reply.taken)

    async def send_message(self, message: Message) -> None:
        """Send user data to actors, or the environment, at once; see `send_reward`."""
        request = pb.TrialMessageRequest(messages=messages_of([message], self.trial.actors))
        await self._send(self._client.connection.stub.SendMessage, request)

    async def leave(self) -> None:
        """Leave the place. The orchestrator keeps it for a while, see `ClientActor.join`.

        Raises:
            RuntimeError: Called in another event loop than `join`.
        """
        self._check_loop()
        if self.final is None:
            self._client.secrets.leave(self.trial)
        self._left = self._over = True
        self._beating.cancel()
        await self._stream.close()
        await asyncio.wait({self._beating})

    async def __aenter__(self) -> Self:
        """Return the session."""
        return self

    async def __aexit__(self, *_exc: object) -> None:
        """Leave."""
        await self.leave()

    def __reduce__(self) -> NoReturn:
        """Raise a TypeError: sessions cannot be pickled."""
        raise cannot_be_pickled("the session of an actor")

    def _check_loop(self) -> None:
        check_own_loop("the session of an actor", self._loop, "join in the loop that plays")

    def _open(self) -> ActionStream:
        metadata = (*self._metadata, *((_ASK_SPACES,) if self._ask_spaces else ()))
        return ActionStream(self._client.connection.stub.ActionStream(metadata=metadata))

    async def _send(self, call: Any, request: Any) -> None:
        with raising_remote_errors(self._client.connection.endpoint):
            try:
                await call(request, metadata=self._metadata)
            except grpc.aio.AioRpcError as error:
                # Unless the end was seen already, the next event tells it.
                ended = error.code() is grpc.StatusCode.FAILED_PRECONDITION
                if not ended or self._over or self.final is not None:
                    raise
                _logger.warning(
                    "a reward or message was dropped: %s", escaped(error.details() or "")
                )

    async def _receive(self) -> None:
        try:
            reply = await self._stream.read()
        except grpc.aio.AioRpcError as error:
            if self._over:
                return
            if not self._client.reconnect or not is_broken(error):
                raise
            await self._return()
        else:
            if reply is None:
                self._over = True
            else:
                self._take(reply)

    async def _return(self) -> None:
        """Join again, and open a new stream: it begins with the latest observation."""
        request = pb.TrialJoinRequest(trial_id=self.trial.id, actor_name=self.trial.name)
        client, metadata = self._client, self._client.connection.metadata
        _, self._secret = await call_until_accepted(
            lambda left: client.secrets.join(
                client.connection.stub, request, self._secret, metadata, timeout=left
            ),
            _NOT_YET,
            client.reconnect,
        )
        self._stream = self._open()

    def _take(self, reply: pb.TrialActionReply) -> None:
        codec, name = self._codecs.observation, self.trial.name
        if self._ask_spaces:
            self._take_spaces(reply)
        try:
            final = received_final(reply.data, codec, name)
            seen = [received_observation(each, codec, name) for each in reply.data.observations]
        except ValueError as error:
            raise ValueError(f"{component_name(self.trial.id, name)}: {error}") from error
        if reply.final_data:
            self._events.append(final)
        else:
            self._events.extend((*final.rewards, *final.messages, *seen))

    def _take_spaces(self, reply: pb.TrialActionReply) -> None:
        """Take the message out that is the orchestrator's own: it has no sender."""
        messages, text = reply.data.messages, StringValue()
        for at in reversed(range(len(messages))):
            if not messages[at].sender_name and unpack(messages[at].payload, text):
                self.spaces_json = text.value
                del messages[at]

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._client.heartbeat)
            if self._client.connection.closed:
                return
            if self._stream.is_over:
                continue  # a heartbeat now would keep the place occupied for the return
            stub, request = self._client.connection.stub, pb.TrialHeartbeatRequest()
            try:
                await stub.Heartbeat(request, metadata=self._metadata, timeout=_ANSWER_TIMEOUT)
            except grpc.aio.AioRpcError as error:
                # A lost connection, or its end, is seen by reading the stream; one that was dropped
                # on the way without a word is not.
                if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                    self._client.connection.renew(stub)
                    self._stream.lose()
