"""The service `ClientActor`."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from cogrs.api.orchestrator_pb2 import TrialHeartbeatReply, TrialMessageReply, TrialRewardReply
from cogrs.api.orchestrator_pb2_grpc import ClientActorServicer
from cogrs.limits import MANY
from cogrs.orchestrator.engine.errors import InvalidError, OrchestratorError
from cogrs.orchestrator.engine.log import logger
from cogrs.orchestrator.engine.slot_secret import SLOT_SECRET, Caller
from cogrs.orchestrator.service.context import (
    abort_on_error,
    answer_version,
    find_metadata,
    refuse,
    required_metadata,
)
from cogrs.orchestrator.service.waker import Waker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from cogrs.access import Access
    from cogrs.api.orchestrator_pb2 import (
        TrialActionRequest,
        TrialHeartbeatRequest,
        TrialJoinReply,
        TrialJoinRequest,
        TrialMessageRequest,
        TrialRewardRequest,
    )
    from cogrs.orchestrator.engine.client_slot import ClientSlot, ClientStream
    from cogrs.orchestrator.engine.orchestrator import Orchestrator
    from cogrs.orchestrator.service.context import Context
    from cogrs.orchestrator.service.throttle import Throttle

_SPACES = "spaces"
"""The metadata by which a client asks for the environment's spaces: its value is "asked"."""


def _trial_and_actor(context: Context) -> tuple[str, str]:
    return required_metadata(context, "trial-id"), required_metadata(context, "actor-name")


class ClientActorService(ClientActorServicer):
    """Serves client actors, which connect to the orchestrator."""

    def __init__(self, orchestrator: Orchestrator, access: Access, throttle: Throttle) -> None:
        """Create the service of an orchestrator."""
        self._orchestrator = orchestrator
        self._access = access
        self._throttle = throttle

    @abort_on_error
    async def JoinTrial(  # noqa: N802
        self, request: TrialJoinRequest, context: Context
    ) -> TrialJoinReply:
        """Give a client an actor of a trial."""
        caller = self._caller(context)
        reply = self._orchestrator.join(request, caller)
        if caller.given:
            await context.send_initial_metadata(((SLOT_SECRET, caller.given),))
        return reply

    @abort_on_error
    async def ActionStream(  # type: ignore[override]  # noqa: N802
        self, request_iterator: AsyncIterator[TrialActionRequest], context: Context
    ) -> None:
        """Exchange observations and actions."""
        waker = Waker()
        actor = self._orchestrator.client(*_trial_and_actor(context), self._caller(context))
        line = actor.open(waker, wants_spaces=find_metadata(context, _SPACES) == "asked")
        listener = asyncio.ensure_future(_listen(actor, line, aiter(request_iterator), waker))
        listener.add_done_callback(partial(_check, actor))
        try:
            # Some clients wait for initial metadata before they send anything.
            await context.send_initial_metadata(())
            await _talk(actor, line, waker, context)
        except OrchestratorError as error:
            await refuse(context, error)
        finally:
            actor.hung_up(line, "its stream was cancelled, or its connection was lost")
            listener.cancel()

    @abort_on_error
    async def Heartbeat(  # noqa: N802
        self, request: TrialHeartbeatRequest, context: Context
    ) -> TrialHeartbeatReply:
        """Take a heartbeat."""
        del request
        self._orchestrator.heartbeat(*_trial_and_actor(context), self._caller(context))
        return TrialHeartbeatReply()

    @abort_on_error
    async def SendReward(  # noqa: N802
        self, request: TrialRewardRequest, context: Context
    ) -> TrialRewardReply:
        """Take rewards for other actors."""
        caller = self._caller(context)
        rewards = request.rewards
        many = len(rewards) > MANY or any(len(reward.sources) > MANY for reward in rewards)
        if request.late:
            send_late = self._orchestrator.send_late
            taken = await send_late(*_trial_and_actor(context), rewards, caller)
            return TrialRewardReply(taken=taken)
        async with self._throttle.turn(large=many):
            self._orchestrator.send(*_trial_and_actor(context), rewards=rewards, caller=caller)
        return TrialRewardReply()

    @abort_on_error
    async def SendMessage(  # noqa: N802
        self, request: TrialMessageRequest, context: Context
    ) -> TrialMessageReply:
        """Take messages for other actors and the environment."""
        caller = self._caller(context)
        async with self._throttle.turn(large=len(request.messages) > MANY):
            self._orchestrator.send(
                *_trial_and_actor(context), messages=request.messages, caller=caller
            )
        return TrialMessageReply()

    Version = answer_version

    def _caller(self, context: Context) -> Caller:
        has_all = self._access.has_all(context.invocation_metadata())
        return Caller(find_metadata(context, SLOT_SECRET) or "", has_all_rights=has_all)


async def _listen(
    actor: ClientSlot, line: ClientStream, requests: AsyncIterator[TrialActionRequest], waker: Waker
) -> None:
    # A half-close ends this loop only: the client goes on receiving.
    while True:
        try:
            request = await anext(requests)
        except StopAsyncIteration:
            return
        except Exception as error:
            waker.close(InvalidError(f"request: {error}"))
            return
        actor.received(line, request)


def _check(actor: ClientSlot, listener: asyncio.Task[None]) -> None:
    error = None if listener.cancelled() else listener.exception()
    if error is not None:
        logger.error("a client's stream failed", exc_info=error)
        actor.crashed(f"{type(error).__name__}: {error}")


async def _talk(actor: ClientSlot, line: ClientStream, waker: Waker, context: Context) -> None:
    """Write what is there for a client until its final data."""
    while True:
        reply = actor.take(line)
        if reply is None:
            await waker.wait()
            continue
        try:
            await context.write(reply)
        except BaseException:
            actor.put_back(line, reply)
            raise
        if reply.final_data:
            actor.finished(line)
            return
