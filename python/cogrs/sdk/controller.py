"""Starting, watching and ending trials."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Self

import grpc

from cogrs.api import common_pb2
from cogrs.api import orchestrator_pb2 as pb
from cogrs.api.orchestrator_pb2_grpc import TrialLifecycleStub
from cogrs.argument import check_header, check_kind, check_text, check_timeout
from cogrs.sdk.endpoint import CLIENT_OPTIONS, address_of
from cogrs.sdk.remote_call import RemoteCallError, calling
from cogrs.sdk.wire import actors_of
from cogrs.tls import ClientTls, is_loopback, open_channel

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from cogrs.sdk.trial import Actor


_FAREWELL = 0.8
"""Seconds for an orchestrator to take that a trial is to end."""


class TrialState(IntEnum):
    """Where a trial is between its start and its end; the states come in this order."""

    UNKNOWN = 0
    INITIALIZING = 1
    PENDING = 2
    RUNNING = 3
    TERMINATING = 4
    ENDED = 5


@dataclass(frozen=True, slots=True)
class StartedTrial:
    """A trial that was started.

    Attributes:
        id: The trial's id.
        actors: Its actors, in the trial's order.
    """

    id: str
    actors: tuple[Actor, ...]


class TrialController:
    """Talks to an orchestrator. Close it, or use it as an async context manager.

    All calls raise `RemoteCallError`, a `grpc.aio.AioRpcError` whose `code()` and `details()` say
    what was wrong, and where nobody answers `UnreachableError`, which is a ConnectionError too.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        user_id: str = "",
        tls: ClientTls | None = None,
        token: str | None = None,
    ) -> None:
        """Do not connect yet.

        Args:
            endpoint: `grpc://host:port`, or `host:port`.
            user_id: Who starts trials; kept in the data log.
            tls: Certificates, where the orchestrator has one.
            token: Shown to the orchestrator, where it asks for one.

        Raises:
            ValueError: No endpoint, a token that would be sent to another machine in the clear, or
                a file of `tls` that is not what it should be.
            TypeError: An argument is of another type.
            OSError: A file cannot be read.
        """
        target = address_of(endpoint)
        check_text("user_id", user_id)
        self._who = _shown(target, token, tls)
        self._channel = open_channel(target, CLIENT_OPTIONS, tls)
        self._stub = TrialLifecycleStub(self._channel)
        self._user_id = user_id
        self._endpoint = endpoint

    async def start_trial(self, config: bytes | None = None) -> StartedTrial:
        """Start a trial; its components start after this returns.

        Args:
            config: The user's configuration of the trial, an empty one too; None takes the
                orchestrator's.
        """
        request = _start_request(config, self._user_id)
        with calling(self._endpoint):
            return _started(await self._stub.StartTrial(request, metadata=self._who))

    async def terminate_trial(self, trial_id: str) -> None:
        """Ask for the end of a trial, without waiting for it."""
        request = pb.TerminateTrialRequest()
        with calling(self._endpoint):
            await self._stub.TerminateTrial(request, metadata=self._who + _of(trial_id))

    async def wait_ended(self, trial_id: str) -> None:
        """Wait until a trial has ended; not at all if it has already.

        Orchestrators forget ended trials after a while. So an id that is not known is one of a
        trial that has ended, and an id of no trial ever cannot be told from that.
        `asyncio.timeout` limits the wait; the trial goes on.
        """
        watch = self._stub.WatchTrials(_ENDED, metadata=self._who)
        try:
            with calling(self._endpoint):
                # From here on no end is missed: it was before this, or is told.
                await watch.initial_metadata()
                if await self._is_over(trial_id):
                    return
                async for entry in watch:
                    if entry.trial_id == trial_id:
                        return
            raise _broken(self._endpoint, trial_id)
        finally:
            watch.cancel()

    async def _is_over(self, trial_id: str) -> bool:
        try:
            return await self.trial_state(trial_id) is TrialState.ENDED
        except RemoteCallError as error:
            if error.code() is grpc.StatusCode.NOT_FOUND:
                return True
            raise

    async def trial_state(self, trial_id: str) -> TrialState:
        """Return a trial's state."""
        metadata = self._who + _of(trial_id)
        with calling(self._endpoint):
            reply = await self._stub.GetTrialInfo(pb.TrialInfoRequest(), metadata=metadata)
        return TrialState(reply.trial[0].state)

    async def trials(self) -> dict[str, TrialState]:
        """Return the states of all trials that are listed."""
        with calling(self._endpoint):
            reply = await self._stub.GetTrialInfo(pb.TrialInfoRequest(), metadata=self._who)
        return {info.trial_id: TrialState(info.state) for info in reply.trial}

    async def watch_trials(
        self, states: Iterable[TrialState] = ()
    ) -> AsyncIterator[tuple[str, TrialState]]:
        """Yield the state of every trial, and then each change as it happens.

        Args:
            states: Only these; all if empty.
        """
        call = self._stub.WatchTrials(
            pb.TrialListRequest(filter=[pb.TrialState.ValueType(each) for each in states]),
            metadata=self._who,
        )
        try:
            with calling(self._endpoint):
                async for entry in call:
                    yield entry.trial_id, TrialState(entry.state)
        finally:
            call.cancel()

    async def versions(self) -> dict[str, str]:
        """Return the versions of the orchestrator and what it is made of."""
        with calling(self._endpoint):
            reply = await self._stub.Version(common_pb2.VersionRequest(), metadata=self._who)
        return {each.name: each.version for each in reply.versions}

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close()

    async def __aenter__(self) -> Self:
        """Return the controller."""
        return self

    async def __aexit__(self, *_exc: object) -> None:
        """Close the connection."""
        await self.close()


def run_trial(
    endpoint: str,
    config: bytes | None = None,
    *,
    user_id: str = "",
    timeout: float | None = None,
    tls: ClientTls | None = None,
    token: str | None = None,
) -> StartedTrial:
    """Start a trial, and block until it has ended: `TrialController` for scripts, in one call.

    Whoever leaves it earlier, by Ctrl-C for instance, asks the trial to end. Not for the thread of
    an event loop on which the trial's own components run.

    Args:
        endpoint: `grpc://host:port`, or `host:port`, of the orchestrator.
        config: The user's configuration of the trial; None takes the orchestrator's.
        user_id: Who starts it; kept in the data log.
        timeout: Seconds; None waits for ever.
        tls: As of `TrialController`.
        token: As of `TrialController`.

    Returns:
        The trial, which has ended, well or not: why is in the orchestrator's log, and in the data
        log's last sample (`end_reason`), but nothing that this could ask for says it.

    Raises:
        TypeError: As `TrialController`, or `config` is no bytes.
        ValueError: As `TrialController`, or `timeout` is no number of seconds.
        OSError: As `TrialController`.
        TimeoutError: It did not end in time. It was asked to end.
        UnreachableError: Nobody answers there.
        RemoteCallError: The orchestrator refuses.
    """
    check_timeout("timeout", timeout)
    check_text("user_id", user_id)
    check_kind("tls", tls, ClientTls | None, "a ClientTls or None")
    until = None if timeout is None else time.monotonic() + timeout
    who = _shown(address_of(endpoint), token, tls)
    with _blocking_channel(address_of(endpoint), tls) as channel:
        stub = TrialLifecycleStub(channel)
        # Watched before it is started, so that its end cannot be missed.
        watch = stub.WatchTrials(_ENDED, timeout=timeout, metadata=who)
        trial, ended = None, False
        try:
            with calling(endpoint):
                watch.initial_metadata()
                request = _start_request(config, user_id)
                left = None if until is None else max(until - time.monotonic(), 0.0)
                trial = _started(stub.StartTrial(request, timeout=left, metadata=who))
                ended = any(entry.trial_id == trial.id for entry in watch)
            if not ended:
                raise _broken(endpoint, trial.id)
            return trial
        except RemoteCallError as error:
            if until is None or error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                raise
            if trial is None:
                raise TimeoutError(f"{endpoint} did not answer within {timeout:g} s") from error
            raise TimeoutError(f"{endpoint}: {_late(trial.id, timeout)}") from error
        finally:
            watch.cancel()
            if trial is not None and not ended:
                _ask_end(stub, who + _of(trial.id))


_ENDED = pb.TrialListRequest(filter=[pb.TrialState.ENDED])


def _ask_end(stub: TrialLifecycleStub, who: tuple[tuple[str, str], ...]) -> None:
    with suppress(grpc.RpcError):  # there is an error already, which says more
        stub.TerminateTrial(pb.TerminateTrialRequest(), timeout=_FAREWELL, metadata=who)


def _blocking_channel(target: str, tls: ClientTls | None) -> grpc.Channel:
    if tls is None:
        return grpc.insecure_channel(target, options=CLIENT_OPTIONS)
    options = [*CLIENT_OPTIONS, *tls.options()]
    return grpc.secure_channel(target, tls.credentials(), options=options)


def _shown(target: str, token: str | None, tls: ClientTls | None) -> tuple[tuple[str, str], ...]:
    """Return the metadata of all calls."""
    if token is None:
        return ()
    check_header("token", token, secret=True)
    if tls is None and not is_loopback(target.rpartition(":")[0]):
        raise ValueError(f"token: {target} is on another machine: expected tls too, got none")
    return (("authorization", f"Bearer {token}"),)


def _of(trial_id: str) -> tuple[tuple[str, str], ...]:
    check_header("trial_id", trial_id)
    return (("trial-id", trial_id),)


def _start_request(config: bytes | None, user_id: str) -> pb.TrialStartRequest:
    request = pb.TrialStartRequest(user_id=user_id)
    if config is not None:
        check_kind("config", config, bytes, "the bytes of a message, or None")
        request.config.content = config
    return request


def _started(reply: pb.TrialStartReply) -> StartedTrial:
    return StartedTrial(reply.trial_id, actors_of(reply.actors_in_trial))


def _late(trial_id: str, timeout: float | None) -> str:
    return f"trial {trial_id} did not end within {timeout:g} s"


def _broken(endpoint: str, trial_id: str) -> ConnectionError:
    return ConnectionError(f"trial {trial_id}: {endpoint} stopped telling of trials")
