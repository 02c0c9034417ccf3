"""Starting, watching and ending trials."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Self

import grpc

from cogrs.api import common_pb2
from cogrs.api import orchestrator_pb2 as pb
from cogrs.api.orchestrator_pb2_grpc import TrialLifecycleStub
from cogrs.sdk.serve import CHANNEL_OPTIONS, address_of
from cogrs.sdk.trial import Actor, actors_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable


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

    All calls raise `grpc.aio.AioRpcError`, whose `code()` and `details()` say what was wrong.
    """

    def __init__(self, endpoint: str, *, user_id: str = "") -> None:
        """Do not connect yet.

        Args:
            endpoint: `grpc://host:port`, or `host:port`.
            user_id: Who starts trials; kept in the data log.
        """
        self._channel = grpc.aio.insecure_channel(address_of(endpoint), options=CHANNEL_OPTIONS)
        self._stub = TrialLifecycleStub(self._channel)
        self._user_id = user_id

    async def start_trial(self, config: bytes | None = None) -> StartedTrial:
        """Start a trial; its components start after this returns.

        Args:
            config: The user's configuration of the trial; None takes the orchestrator's.
        """
        request = pb.TrialStartRequest(user_id=self._user_id)
        if config is not None:
            request.config.content = config
        reply = await self._stub.StartTrial(request)
        return StartedTrial(reply.trial_id, actors_of(reply.actors_in_trial))

    async def terminate_trial(self, trial_id: str) -> None:
        """Ask for the end of a trial, without waiting for it."""
        await self._stub.TerminateTrial(pb.TerminateTrialRequest(), metadata=_of(trial_id))

    async def trial_state(self, trial_id: str) -> TrialState:
        """Return a trial's state."""
        reply = await self._stub.GetTrialInfo(pb.TrialInfoRequest(), metadata=_of(trial_id))
        return TrialState(reply.trial[0].state)

    async def trials(self) -> dict[str, TrialState]:
        """Return the states of all trials that are listed."""
        reply = await self._stub.GetTrialInfo(pb.TrialInfoRequest())
        return {info.trial_id: TrialState(info.state) for info in reply.trial}

    async def watch_trials(
        self, states: Iterable[TrialState] = ()
    ) -> AsyncIterator[tuple[str, TrialState]]:
        """Yield the state of every trial, and then each change as it happens.

        Args:
            states: Only these; all if empty.
        """
        call = self._stub.WatchTrials(
            pb.TrialListRequest(filter=[pb.TrialState.ValueType(each) for each in states])
        )
        try:
            async for entry in call:
                yield entry.trial_id, TrialState(entry.state)
        finally:
            call.cancel()

    async def versions(self) -> dict[str, str]:
        """Return the versions of the orchestrator and what it is made of."""
        reply = await self._stub.Version(common_pb2.VersionRequest())
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


def _of(trial_id: str) -> tuple[tuple[str, str], ...]:
    return (("trial-id", trial_id),)
