"""Client actors, which take part in trials by connecting to the orchestrator."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import grpc

from cogrs.api import orchestrator_pb2 as pb
from cogrs.api.orchestrator_pb2_grpc import ClientActorStub
from cogrs.event_loop import AsyncCloseable, check_no_loop, handle_exception
from cogrs.hung_calls import TimeLimitError, qualified_name, run_limited
from cogrs.sdk.client_session import ClientContext, ClientSession
from cogrs.sdk.codecs import CodecRegistry
from cogrs.sdk.connection import Connection
from cogrs.sdk.endpoint import CLIENT_OPTIONS
from cogrs.sdk.player_function import check_player, play_session
from cogrs.sdk.remote_errors import call_until_accepted, raising_remote_errors
from cogrs.sdk.trial import Final, Trial
from cogrs.sdk.wire import actors_of
from cogrs.validation import check_flag, check_header, check_seconds, check_text, check_timeout

if TYPE_CHECKING:
    from cogrs.api.orchestrator_pb2_grpc import ClientActorAsyncStub
    from cogrs.sdk.codecs import AnyCodec
    from cogrs.sdk.player_function import PlayerFunction
    from cogrs.tls import ClientTls

_LEAVING = 5.0
"""Seconds for an orchestrator to notice that a client has left."""

_LEFT_PLACE = (grpc.StatusCode.FAILED_PRECONDITION,)
"""How a return is refused while the orchestrator has not noticed that the client left."""

_HEARTBEAT = 10.0
"""Seconds between two signs of life; orchestrators wait 30 by default."""


class ClientActor(AsyncCloseable):
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
            reconnect: Seconds for which an actor whose connection is lost tries to return; 0 for
                no attempt.
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
        self.endpoint = endpoint
        self._context = ClientContext(
            self.connection, CodecRegistry(codec), float(heartbeat), float(reconnect)
        )

    async def join(
        self,
        trial_id: str = "",
        *,
        name: str = "",
        actor_class: str = "",
        secret: str = "",
        spaces: bool = False,
    ) -> ClientSession:
        """Take a place in a trial: that of a name, or the first free one of a class.

        An actor that has left may join again for as long as the orchestrator keeps the place: by
        its name and the trial's id, also if it joined by its class at first.

        The place is bound to a secret, which keeps others from acting as this actor. This client
        remembers it for a return; another process needs `ClientSession.secret`, or the rights of a
        controller. A place that was just left is asked for again until the orchestrator has noticed
        that, at most 5 s.

        Args:
            trial_id: Which trial; "" for the oldest one that waits for such an actor.
            name: The actor's name.
            actor_class: The actor's class.
            secret: `ClientSession.secret` of the session in which the actor left, if another client
                had that session.
            spaces: Ask for the environment's spaces: `ClientSession.spaces` has them from the first
                observation on, if the environment told any.

        Returns:
            The actor's session. Close it, or use it as an async context manager.

        Raises:
            ValueError: Both a name and a class, or neither.
        """
        check_header("secret", secret, secret=True)
        check_flag("spaces", spaces)
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
        secrets = self._context.secrets
        # A place that was left, here or in another client, is free as soon as that is known there.
        patience = _LEAVING if secret or secrets.has_left(trial_id, name) else 0.0
        mine = secret or secrets.of(trial_id, name)
        with raising_remote_errors(self.endpoint):
            stub, metadata = self.stub, self.connection.metadata
            reply, secret = await call_until_accepted(
                lambda _left: secrets.join(stub, request, mine, metadata), _LEFT_PLACE, patience
            )
        trial = Trial(
            reply.trial_id,
            actors_of(reply.actors_in_trial),
            reply.actor_name,
            config=reply.config.content if reply.HasField("config") else None,
        )
        return ClientSession(self._context, trial, secret, ask_spaces=spaces)

    async def play(
        self, player: PlayerFunction, trial_id: str = "", *, name: str = "", actor_class: str = ""
    ) -> Final | None:
        """Take part in a trial until it is over.

        Args:
            player: An async function over a session, as for agents; or a plain one from an
                observation to an action, which runs on a thread of its own, so it may wait for a
                person.
            trial_id: As of `join`.
            name: As of `join`.
            actor_class: As of `join`.

        Returns:
            The last event; None if the player left before.
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
        """Close the connection, if it is open; actors that still play leave."""
        await self.connection.close()


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
        The last event; None if the player left before.

    Raises:
        TypeError, ValueError, OSError: As `ClientActor`, or of another argument.
        RuntimeError: An event loop runs on this thread.
        TimeoutError: The trial was not over in time. The actor has left; a player that does not
            end when it is cancelled is abandoned, with a warning.
        UnreachableError: No orchestrator answers there.
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
