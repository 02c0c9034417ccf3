"""A user's objects in their trials: each is called by one at a time, and none is forgotten."""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from grpc import StatusCode

from cogrs.failure import is_failure
from cogrs.sdk.call import CallError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

_logger = logging.getLogger("cogrs.sdk")


class Losable(Protocol):
    """An environment, or an agent."""

    def lost(self) -> Any:
        """Give up."""


User = TypeVar("User", bound=Losable)
Result = TypeVar("Result")


async def settled(value: Any) -> Any:
    """Wait for a value if it has to be waited for: methods of users may be plain or async."""
    return await value if inspect.isawaitable(value) else value


class Session(Generic[User]):
    """One object of a user's in one trial."""

    def __init__(self, who: str) -> None:
        """Have no object yet.

        Args:
            who: Trial and component, for errors and the log.
        """
        self.who = who
        self._user: User | None = None
        # No method is called while another is awaited: an end must not meet a step.
        self._turn = asyncio.Lock()
        self._over = False

    async def make(self, make: Callable[[], User], start: Callable[[User], Awaitable[Any]]) -> Any:
        """Make the object, and start it.

        Raises:
            CallError: That failed.
        """
        async with self._turn:
            return await self._guard("start", self._make(make, start))

    async def call(self, what: str, job: Callable[[User], Awaitable[Result]]) -> Result:
        """Have a job done with the object.

        Args:
            what: Which method it is about.
            job: Does it.

        Raises:
            CallError: It failed, or came too late.
        """
        async with self._turn:
            return await self._guard(what, job(self._present()))

    async def last(self, job: Callable[[User], Awaitable[Result]]) -> Result:
        """Have the last job done: the end.

        Raises:
            CallError: As `call`.
        """
        async with self._turn:
            result = await self._guard("end", job(self._present()))
            self._over = True
            return result

    async def lose(self) -> None:
        """Give the object up, unless it was brought to its end."""
        async with self._turn:
            if self._over or self._user is None:
                return
            self._over = True
            try:
                await self.tell(self._user.lost)
            except BaseException as error:
                if not is_failure(error):
                    raise
                _logger.exception("%s: lost failed", self.who)

    async def tell(self, method: Callable[..., Any], *args: Any) -> Any:
        """Call a method of the object, wherever such are called, and wait for what comes of it."""
        return await settled(method(*args))

    def finish(self) -> None:
        """Take the end as reached; nothing is called any more."""
        self._over = True

    async def _make(self, make: Callable[[], User], start: Callable[[User], Awaitable[Any]]) -> Any:
        self._user = make()
        return await start(self._user)

    def _present(self) -> User:
        if self._over or self._user is None:
            raise CallError(StatusCode.NOT_FOUND, f"{self.who} is over")
        return self._user

    async def _guard(self, what: str, work: Awaitable[Result]) -> Result:
        try:
            return await work
        except BaseException as error:
            if not is_failure(error):
                raise
            _logger.exception("%s: %s failed", self.who, what)
            text = f"{self.who}: {what} failed: {type(error).__name__}: {error}"
            raise CallError(StatusCode.UNKNOWN, text) from error


AnySession = TypeVar("AnySession", bound="Session[Any]")


class Sessions(Generic[AnySession]):
    """The sessions of one service. What leaves it without an end is lost."""

    def __init__(self, stream_timeout: float) -> None:
        """Have none.

        Args:
            stream_timeout: Seconds within which a session that has started needs its stream; who
                asked for it is taken for gone then.
        """
        self._stream_timeout = stream_timeout
        self._sessions: dict[tuple[str, ...], AnySession] = {}
        self._timers: dict[tuple[str, ...], asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()

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
        task = asyncio.ensure_future(session.lose())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self, grace: float) -> None:
        """Lose all, and wait until they know, for so many seconds."""
        for key in list(self._sessions):
            self.free(key)
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=grace)
            for task in late:
                task.cancel()
            if late:
                _logger.error("%d sessions did not end within %g s", len(late), grace)
                await asyncio.wait(late)

    def _forget(self, key: tuple[str, ...]) -> None:
        who, seconds = self._sessions[key].who, self._stream_timeout
        _logger.warning("%s: nobody opened its stream within %g s", who, seconds)
        self.free(key)


def session_name(trial_id: str, *actor: str) -> str:
    """Return what errors call the environment of a trial, or an actor in it."""
    return f"trial {trial_id}: actor {actor[0]!r}" if actor else f"trial {trial_id}: environment"


def choose(implementations: Mapping[str, Result], name: str) -> Result:
    """Return the implementation of a name; "" stands for the first.

    Raises:
        CallError: There is none.
    """
    if not name:
        return next(iter(implementations.values()))
    if name not in implementations:
        known = ", ".join(repr(each) for each in implementations)
        text = f"implementation: expected one of {known}; got {name!r}"
        raise CallError(StatusCode.NOT_FOUND, text)
    return implementations[name]
