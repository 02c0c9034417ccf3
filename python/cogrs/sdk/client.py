"""Client actors: who takes part in trials by connecting to the orchestrator."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, NoReturn, Self

import grpc.aio

from cogrs.api import common_pb2
from cogrs.api import orchestrator_pb2 as pb
from cogrs.api.orchestrator_pb2_grpc import ClientActorStub
from cogrs.event_loop import check_no_loop, check_own_loop, handle_exception
from cogrs.sdk.action_stream import ActionStream, is_broken
from cogrs.sdk.actor_session import ActorSession
from cogrs.sdk.agent import as_action
from cogrs.sdk.codecs import CodecRegistry
from cogrs.sdk.connection import Connection
from cogrs.sdk.endpoint import CLIENT_OPTIONS
from cogrs.sdk.hosted_component import component_name
from cogrs.sdk.player_function import check_player, play_session
from cogrs.sdk.remote_errors import raising_remote_errors
from cogrs.sdk.slot_secrets import SlotSecrets, shown
from cogrs.sdk.trial import Final, Observation, Trial
from cogrs.sdk.wire import (
    action_content,
    actors_of,
    messages_of,
    received_final,
    received_observation,
    rewards_of,
)
from cogrs.tokens import cannot_be_pickled
from cogrs.unfinished import TimeLimitError, qualified_name, run_limited
from cogrs.validation import check_header, check_seconds, check_text, check_timeout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cogrs.api.orchestrator_pb2_grpc import ClientActorAsyncStub
    from cogrs.sdk.actor_session import ActorEvent
    from cogrs.sdk.codecs import AnyCodec, Codecs
    from cogrs.sdk.connection import Metadata
    from cogrs.sdk.player_function import PlayerFunction
    from cogrs.sdk.trial import Message, Reward
    from cogrs.tls import ClientTls

_HEARTBEAT = 10.0
"""Seconds between two signs of life; orchestrators wait 30 by default."""

_SILENCE = 20.0
"""Seconds without an answer after which a connection counts as lost."""

_RETRY = 0.2
"""Seconds between two attempts to return."""

_NOT_YET = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.FAILED_PRECONDITION)
"""How a return is refused while nobody answers, or the old stream is still taken for alive."""


class ClientActor:
    """A connection by which actors take part. Close it, or use it as an async context manager.

    ::

        async with cogrs.sdk.ClientActor("host:9000") as client:
            async with await client.join(actor_class="player") as session:
                async for event in session:
                    if isinstance(event, cogrs.sdk.Observation):
                        await session.act(0)

    It connects when it is first used, and belongs to the event loop that uses it; when that loop is
    closed, another one may use it. Any number of actors may share it.

    Calls raise `RemoteCallError`, a `grpc.aio.AioRpcError` whose `code()` and `details()` say what
    was wrong, or `UnreachableError`. After `close`, and while another event loop uses it, they
    raise RuntimeError.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        codec: AnyCodec | None = None,
        heartbeat: float = _HEARTBEAT,
        reconnect: float = 30.0,
        tls: ClientTls | None = None,
        token: str | None = None,
    ) -> None:
        """Do not connect yet.

        Args:
            endpoint: `grpc://host:port`, or `host:port`, of the orchestrator.
            codec: How observations and actions become bytes; as of `serve`.
            heartbeat: Seconds between two signs of life, > 0.
            reconnect: Seconds for which an actor whose connection is lost tries to return; 0: not.
            tls: Certificates, where the orchestrator has one.
            token: Shown to the orchestrator, where it asks for one.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: Not an endpoint, a number is out of range, a token that would be sent to
                another machine in the clear, or a file of `tls` is not what it should be.
            OSError: A file cannot be read.
        """
        for name, seconds in (("heartbeat", heartbeat), ("reconnect", reconnect)):
            check_seconds(name, seconds, above=name == "heartbeat")
        self.connection: Connection[ClientActorAsyncStub] = Connection(
            endpoint, ClientActorStub, CLIENT_OPTIONS, tls=tls, token=token
        )
        self.codecs = CodecRegistry(codec)
        self.endpoint = endpoint
        self.heartbeat = heartbeat
        self.reconnect = reconnect
        self.secrets = SlotSecrets()

    async def join(
        self, trial_id: str = "", *, name: str = "", actor_class: str = "", secret: str = ""
    ) -> ClientSession:
        """Take a place in a trial: that of a name, or the first free one of a class.

        An actor that has left may join again for as long as the orchestrator keeps the place: by
        its name and the trial's id, also if it joined by its class at first.

        The place is bound to a secret, without which nobody else acts as this actor. This client
        remembers it for a return; another process is to be told `ClientSession.secret`, unless it
        has the rights of a controller.

        Args:
            trial_id: Which trial; "" for the oldest one that waits for such an actor.
            name: The actor's name.
            actor_class: The actor's class.
            secret: `ClientSession.secret` of the session in which the actor left, where another
                client had that.

        Returns:
            The actor's session. Close it, or use it as an async context manager.

        Raises:
            ValueError: Both a name and a class, or neither.
        """
        check_header("secret", secret, secret=True)
        for what, text in (("trial_id", trial_id), ("name", name), ("actor_class", actor_class)):
            check_text(what, text)
        if bool(name) == bool(actor_class):
            raise ValueError(
                "name, actor_class: expected one of them, "
                f"got name={name!r} and actor_class={actor_class!r}"
            )
        request = pb.TrialJoinRequest(trial_id=trial_id)
        if name:
            request.actor_name = name
        else:
            request.actor_class = actor_class
        secret = secret or self.secrets.of(trial_id, name)
        with raising_remote_errors(self.endpoint):
            reply, secret = await self.secrets.join(
                self.stub, request, secret, self.connection.metadata
            )
        trial = Trial(
            reply.trial_id,
            actors_of(reply.actors_in_trial),
            reply.actor_name,
            config=reply.config.content if reply.HasField("config") else None,
        )
        return ClientSession(self, trial, secret)

    async def play(
        self, player: PlayerFunction, trial_id: str = "", *, name: str = "", actor_class: str = ""
    ) -> Final | None:
        """Take part in a trial until it is over.

        Args:
            player: An async function over a session, as agents have it; or a plain one from an
                observation to an action, which runs on a thread of its own and may thus wait for a
                person.
            trial_id: As of `join`.
            name: As of `join`.
            actor_class: As of `join`.

        Returns:
            What came last; None if the player left before.
        """
        check_player(player)
        async with await self.join(trial_id, name=name, actor_class=actor_class) as session:
            await play_session(session, player)
            return session.final

    @property
    def stub(self) -> ClientActorAsyncStub:
        """The stub of the service, in the running event loop."""
        return self.connection.stub

    async def close(self) -> None:
        """Close the connection; actors that still play leave. Again: nothing."""
        await self.connection.close()

    async def __aenter__(self) -> Self:
        """Return the client."""
        return self

    async def __aexit__(self, *_exc: object) -> None:
        """Close the connection."""
        await self.close()


class ClientSession(ActorSession):
    """A client in its place in a trial. It returns by itself when its connection is lost."""

    def __init__(self, client: ClientActor, trial: Trial, secret: str) -> None:
        """Open the stream, and show signs of life."""
        self.trial = trial
        self.final: Final | None = None
        """What came last, once it has been told."""
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
        """What binds the place to this client, for a return from another process.

        "" where the orchestrator gives none. Whoever has it can act as this actor.
        """
        return self._secret

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
            with raising_remote_errors(self._client.endpoint):
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
            RuntimeError: There is no observation that is not answered, the actor has left, the
                client is closed, or this is another event loop than that of `join`.
        """
        self._check_loop()
        if self.final is not None:
            return
        self._client.connection.check_open()
        if self._left:
            raise RuntimeError(f"action: actor {self.trial.name!r} has left trial {self.trial.id}")
        if not self._owes:
            raise RuntimeError("action: there is no observation that is not answered")
        action = as_action(value, rewards, messages)
        content = action_content(action, self._codecs.action, self.trial.name)
        for reward in action.rewards:
            await self.send_reward(reward)
        for message in action.messages:
            await self.send_message(message)
        self._owes = False
        await self._stream.write(pb.TrialActionRequest(action=common_pb2.Action(content=content)))

    async def send_reward(self, reward: Reward) -> None:
        """Reward actors, at once."""
        request = pb.TrialRewardRequest(rewards=rewards_of([reward], self.trial.actors))
        with raising_remote_errors(self._client.endpoint):
            await self._client.stub.SendReward(request, metadata=self._metadata)

    async def send_message(self, message: Message) -> None:
        """Send user data to actors, or the environment, at once."""
        request = pb.TrialMessageRequest(messages=messages_of([message], self.trial.actors))
        with raising_remote_errors(self._client.endpoint):
            await self._client.stub.SendMessage(request, metadata=self._metadata)

    async def leave(self) -> None:
        """Leave the place. The orchestrator keeps it for a while, see `ClientActor.join`.

        Raises:
            RuntimeError: Called in another event loop than `join`.
        """
        self._check_loop()
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
        """Refuse to be pickled.

        Raises:
            TypeError: Always.
        """
        raise cannot_be_pickled("the session of an actor")

    def _check_loop(self) -> None:
        check_own_loop("the session of an actor", self._loop, "join in the one that is to play")

    def _open(self) -> ActionStream:
        return ActionStream(self._client.stub.ActionStream(metadata=self._metadata))

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
        loop = asyncio.get_running_loop()
        until = loop.time() + self._client.reconnect
        while True:
            try:
                left = max(until - loop.time(), _RETRY)
                client, metadata = self._client, self._client.connection.metadata
                _, self._secret = await client.secrets.join(
                    client.stub, request, self._secret, metadata, timeout=left
                )
                break
            except grpc.aio.AioRpcError as error:
                if error.code() not in _NOT_YET or loop.time() >= until:
                    raise
            await asyncio.sleep(_RETRY)
        self._stream = self._open()

    def _take(self, reply: pb.TrialActionReply) -> None:
        codec, name = self._codecs.observation, self.trial.name
        try:
            final = received_final(reply.data, codec, name)
            seen = [received_observation(each, codec, name) for each in reply.data.observations]
        except ValueError as error:
            raise ValueError(f"{component_name(self.trial.id, name)}: {error}") from error
        if reply.final_data:
            self._events.append(final)
        else:
            self._events.extend((*final.rewards, *final.messages, *seen))

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._client.heartbeat)
            if self._client.connection.closed:
                return
            if self._stream.is_over:
                continue  # a sign of life now would keep the place from being free for the return
            stub, request = self._client.stub, pb.TrialHeartbeatRequest()
            try:
                await stub.Heartbeat(request, metadata=self._metadata, timeout=_SILENCE)
            except grpc.aio.AioRpcError as error:
                # Whoever reads the stream learns of a lost connection, and of its end; but not of
                # one that was dropped on the way without a word.
                if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                    self._client.connection.renew(stub)
                    self._stream.lose()


def play(
    endpoint: str,
    player: PlayerFunction,
    trial_id: str = "",
    *,
    name: str = "",
    actor_class: str = "",
    codec: AnyCodec | None = None,
    timeout: float | None = None,
    tls: ClientTls | None = None,
    token: str | None = None,
) -> Final | None:
    """Take part in a trial, and block until it is over: `ClientActor` for scripts, in one call.

    Where an event loop runs, as in a notebook, await `ClientActor(...).play(...)` instead.

    Args:
        endpoint: `grpc://host:port`, or `host:port`, of the orchestrator.
        player: As of `ClientActor.play`.
        trial_id: As of `ClientActor.join`.
        name: As of `ClientActor.join`.
        actor_class: As of `ClientActor.join`.
        codec: How observations and actions become bytes; as of `serve`.
        timeout: Seconds; None waits for ever.
        tls: As of `ClientActor`.
        token: As of `ClientActor`.

    Returns:
        What came last; None if the player left before.

    Raises:
        TypeError, ValueError, OSError: As `ClientActor`, or another argument is no good.
        RuntimeError: An event loop runs on this thread.
        TimeoutError: The trial was not over in time. The actor has left; a player that does not
            end when it is cancelled is left behind, with a warning.
        UnreachableError: Nobody answers there.
        RemoteCallError: The orchestrator refuses.
    """
    check_timeout("timeout", timeout)
    check_player(player)
    check_no_loop("sdk.play", "use `await ClientActor(...).play(...)`")
    client = ClientActor(endpoint, codec=codec, tls=tls, token=token)

    async def run() -> Final | None:
        asyncio.get_running_loop().set_exception_handler(handle_exception)
        async with client:
            return await client.play(player, trial_id, name=name, actor_class=actor_class)

    try:
        return asyncio.run(run_limited(run(), timeout, f"{qualified_name(player)} at {endpoint}"))
    except TimeLimitError as error:  # another TimeoutError is the player's
        raise TimeoutError(f"{endpoint}: the trial was not over within {timeout:g} s") from error
