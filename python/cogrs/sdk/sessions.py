"""The sessions of one service, and the streams to them."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from grpc import StatusCode

from cogrs.hung_calls import cancel_tasks, wait_running
from cogrs.sdk.call import CallError
from cogrs.sdk.session import Session, session_name
from cogrs.threads import Threads

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_logger = logging.getLogger("cogrs.sdk")

Request = TypeVar("Request")
Reply = TypeVar("Reply")
AnySession = TypeVar("AnySession", bound="Session[Any]")

_PATIENCE = 10.0
"""Seconds after which it is told that a method of a session that is lost still runs."""

_LEAST = 0.2
"""Seconds that `lost` gets in any case when a server stops."""


class Sessions(Generic[AnySession]):
    """The sessions of one service. What leaves it without an end is lost."""

    def __init__(self, stream_timeout: float, threads: str) -> None:
        """Create an empty table.

        Args:
            stream_timeout: Seconds within which a session that has started needs its stream; who
                asked for it is taken for gone then.
            threads: What the threads of plain methods are called.
        """
        self._stream_timeout = stream_timeout
        self.threads = Threads(threads)
        """Where sessions have their threads from."""
        self._sessions: dict[tuple[str, ...], AnySession] = {}
        self._timers: dict[tuple[str, ...], asyncio.TimerHandle] = {}
        self._open: set[AnySession] = set()
        """All that were not lost yet, whoever has them."""
        self._losing: dict[AnySession, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._sessions)

    def add(self, key: tuple[str, ...], session: AnySession) -> None:
        """Keep a session.

        Raises:
            CallError: There is one already.
        """
        if key in self._sessions:
            raise CallError(StatusCode.ALREADY_EXISTS, f"{session.who} is here already")
        self._sessions[key] = session
        self.open(session)

    def open(self, session: AnySession) -> None:
        """Keep a session until it is lost."""
        self._open.add(session)

    def expect_stream(self, key: tuple[str, ...]) -> None:
        """Free a session if its stream is not opened in time."""
        if key in self._sessions:
            loop = asyncio.get_running_loop()
            self._timers[key] = loop.call_later(self._stream_timeout, self._forget, key)

    def open_stream(self, key: tuple[str, ...]) -> AnySession:
        """Return the session whose stream is opened.

        Raises:
            CallError: There is no such session, or it has a stream.
        """
        session = self.get(key)
        timer = self._timers.pop(key, None)
        if timer is None:
            raise CallError(StatusCode.ALREADY_EXISTS, f"{session.who} has a stream already")
        timer.cancel()
        return session

    def get(self, key: tuple[str, ...]) -> AnySession:
        """Return a session.

        Raises:
            CallError: There is none.
        """
        if key not in self._sessions:
            raise CallError(StatusCode.NOT_FOUND, f"{session_name(*key)} is not here")
        return self._sessions[key]

    def take(self, key: tuple[str, ...]) -> AnySession:
        """Return a session, which is to be freed by whoever takes it.

        Raises:
            CallError: There is none.
        """
        session = self.get(key)
        del self._sessions[key]
        if timer := self._timers.pop(key, None):
            timer.cancel()
        return session

    def free(self, key: tuple[str, ...]) -> None:
        """Lose a session, if it is still here."""
        if key in self._sessions:
            self.lose(self.take(key))

    def lose(self, session: AnySession) -> None:
        """Give a session up, unless it has ended, whatever becomes of the task that asks."""
        if session in self._open and session not in self._losing:
            task = self._losing[session] = asyncio.ensure_future(self._lose(session))
            task.add_done_callback(lambda _: self._close(session))

    async def _lose(self, session: AnySession) -> None:
        late = asyncio.get_running_loop().call_later(_PATIENCE, self._tell_late, session)
        try:
            await session.lose()
        finally:
            late.cancel()

    def _close(self, session: AnySession) -> None:
        self._losing.pop(session, None)
        self._open.discard(session)
        session.close()

    async def close(self, grace: float) -> None:
        """Lose all, and wait until they know; what does not return is named and left behind.

        Args:
            grace: Seconds to wait; 0.2 at least, and a little more for what is cancelled then.
        """
        for key in list(self._sessions):
            self.free(key)
        for session in self._open:
            self.lose(session)
        if self._losing:
            await wait_running(self._losing.values(), max(grace, _LEAST))
            await self._leave([each for each, task in self._losing.items() if not task.done()])
        self.threads.close()

    async def _leave(self, late: list[AnySession]) -> None:
        for session in late:
            self._tell_late(session)
        await cancel_tasks([task for each in late if (task := each.task)])
        losing = [task for each in late if (task := self._losing.get(each))]
        await cancel_tasks(losing)
        for session in late:
            self._close(session)

    def _tell_late(self, session: AnySession) -> None:
        if not session.told_late:
            session.told_late = True
            what = session.unfinished or "its last call"
            _logger.warning(
                "%s: %s does not return: nobody waits for it any more", session.who, what
            )

    def _forget(self, key: tuple[str, ...]) -> None:
        who, seconds = self._sessions[key].who, self._stream_timeout
        _logger.warning("%s: nobody opened its stream within %g s", who, seconds)
        self.free(key)


class Replies(Generic[Request, Reply]):
    """What a session answers to each request; it is freed when the stream is over.

    No generator: a loop that ends cannot close one in which a method is under way.
    """

    def __init__(
        self, sessions: Sessions[Any], key: tuple[str, ...], requests: AsyncIterator[Request]
    ) -> None:
        """Open the stream of a session when the first reply is asked for."""
        self._sessions = sessions
        self._key = key
        self._requests = requests
        self._session: Any = None
        self._over = False

    def __aiter__(self) -> Self:
        """Return the replies."""
        return self

    async def __anext__(self) -> Reply:
        """Return the next reply.

        Raises:
            CallError: The session cannot be had, or failed.
        """
        if self._over:
            raise StopAsyncIteration
        if self._session is None:
            self._session = self._sessions.open_stream(self._key)
        try:
            reply: Reply | None = None
            if not self._session.over:
                reply = await self._session.answer(await anext(self._requests))
        except BaseException:
            await self.aclose()
            raise
        if reply is None:
            await self.aclose()
            raise StopAsyncIteration
        return reply

    async def aclose(self) -> None:
        """Free the session, if it was opened."""
        if self._session is not None and not self._over:
            self._sessions.free(self._key)
        self._over = True
