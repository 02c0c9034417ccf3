"""The port to an environment."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from cogrs.api.environment_pb2 import (
    EnvActionReply,
    EnvActionRequest,
    EnvMessageRequest,
    EnvStartReply,
    EnvStartRequest,
)
from cogrs.orchestrator.links.component import EnvironmentComponent, checked, describe
from cogrs.orchestrator.links.link import Link, LinkContext
from cogrs.orchestrator.links.remote import RemoteError, is_too_large
from cogrs.user_errors import is_failure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cogrs.api.common_pb2 import Message
    from cogrs.orchestrator.engine.ports import EnvironmentEvents


class EnvironmentLink(Link[EnvActionRequest]):
    """An `EnvironmentPort` to a component."""

    def __init__(
        self,
        trial_id: str,
        component: EnvironmentComponent,
        events: EnvironmentEvents,
        context: LinkContext,
    ) -> None:
        """Create a port; nothing is called yet."""
        super().__init__(trial_id, "environment", context, events.crashed)
        self._trial_id = trial_id
        self._component = component
        self._events = events

    def start(self, request: EnvStartRequest) -> None:
        """Call OnStart, and open the stream of actions when it was answered."""
        self._calls.put(partial(self._start, request))

    def act(self, messages: Sequence[Message], request: EnvActionRequest) -> None:
        """Pass on messages by OnMessage, then actions on the stream."""
        if self._calls.idle and not messages:
            self._requests.put(request)
        else:
            self._calls.put(partial(self._act, messages, request))

    def end(self, messages: Sequence[Message], request: EnvActionRequest) -> None:
        """Pass on messages by OnMessage, then call OnEnd."""
        self._calls.put(partial(self._end, messages, request))

    async def _start(self, request: EnvStartRequest) -> None:
        try:
            reply = checked(await self._component.on_start(self._trial_id, request), EnvStartReply)
        except BaseException as error:
            if not is_failure(error):
                raise
            self._events.failed("OnStart", describe(error))
            return
        if self._closing:
            # Too late for the trial, but not to free the session.
            end = self._component.on_end(self._trial_id, EnvActionRequest())
            await self._tell("OnEnd", end)
            return
        replies = self._component.on_action(self._trial_id, aiter(self._requests))
        over = partial(self._events.failed, "OnAction")
        self._read(replies, EnvActionReply, self._events.replied, over)
        self._events.started(reply)

    async def _act(self, messages: Sequence[Message], request: EnvActionRequest) -> None:
        await self._send(messages)
        self._requests.put(request)

    async def _end(self, messages: Sequence[Message], request: EnvActionRequest) -> None:
        await self._send(messages)
        try:
            reply = checked(await self._last_reply(request), EnvActionReply)
        except BaseException as error:
            if not is_failure(error):
                raise
            self._events.failed("OnEnd", describe(error))
            return
        self._events.ended(reply)

    async def _last_reply(self, request: EnvActionRequest) -> EnvActionReply:
        try:
            return await self._component.on_end(self._trial_id, request)
        except RemoteError as error:
            if not is_too_large(error):
                raise
            # Nothing else frees its session, and that is worth more than what it cannot take.
            self._log.warning("%s: OnEnd: %s", self._label, describe(error))
            bare = EnvActionRequest()
            bare.action_set.actions.extend(b"" for _ in request.action_set.actions)
            return await self._component.on_end(self._trial_id, bare)

    async def _send(self, messages: Sequence[Message]) -> None:
        if messages:
            request = EnvMessageRequest(messages=messages)
            await self._tell("OnMessage", self._component.on_message(self._trial_id, request))
