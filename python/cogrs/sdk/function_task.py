"""A user's async function that runs as long as a trial, as a task of the event loop.

A queue of events leads to it, one answer at a time comes back. The same function plays as an agent
and as a client.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from cogrs.hung_calls import abandon, qualified_name
from cogrs.user_errors import as_exception, is_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_logger = logging.getLogger("cogrs.sdk")

Event = TypeVar("Event")

_running: set[asyncio.Task[Any]] = set()
"""Tasks that run: the event loop holds them only weakly."""


class EventQueue(Generic[Event]):
    """Events for a function, as an async iterator, and the future of its next answer."""

    def __init__(self) -> None:
        """Create an empty queue."""
        self._queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self._asked: asyncio.Future[Any] | None = None
        self.over = False
        """Whether no event will follow those that are here."""

    def tell(self, event: Event) -> None:
        """Add an event."""
        self._queue.put_nowait(event)

    def close(self) -> None:
        """Add no more."""
        if not self.over:
            self.over = True
            self._queue.put_nowait(None)

    def ask(self) -> asyncio.Future[Any]:
        """Return the future of the function's next answer."""
        self._asked = asyncio.get_running_loop().create_future()
        return self._asked

    def answer(self, value: Any) -> bool:
        """Set the answer; return False if nothing waits for it."""
        asked, self._asked = self._asked, None
        if asked is None or asked.done():
            return False
        asked.set_result(value)
        return True

    def __aiter__(self) -> Self:
        """Return the events."""
        return self

    async def __anext__(self) -> Event:
        """Return the next event."""
        event = await self._queue.get()
        if event is None:
            self._queue.put_nowait(None)
            raise StopAsyncIteration
        return event


class FunctionTask(Generic[Event]):
    """One run of a function."""

    def __init__(
        self, who: str, events: EventQueue[Event], function: Callable[[], Coroutine[Any, Any, Any]]
    ) -> None:
        """Start it."""
        self._who = who
        self._events = events
        self._task = asyncio.ensure_future(_run(function))
        self._told = False
        _running.add(self._task)
        self._task.add_done_callback(self._done)

    async def ask(self, *events: Event, optional: bool = False) -> Any:
        """Send events to the function, and return its answer; raise what it raises instead.

        A RuntimeError if it returned without an answer; None then if that is `optional`.
        """
        asked = self._events.ask()
        for event in events:
            self._events.tell(event)
        try:
            await asyncio.wait({asked, self._task}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not asked.done():
                asked.cancel()
        if not asked.cancelled():
            return asked.result()
        self._told = True
        self._task.result()
        if optional:
            return None
        raise RuntimeError("the function returned, but the trial goes on")

    async def finish(self) -> None:
        """Close the queue, and wait until the function returns; raise what it raises."""
        self._events.close()
        self._told = True
        await self._task

    async def cancel(self) -> None:
        """Cancel the function and wait for it; leave it behind when this is cancelled too."""
        self._told = True
        self._task.cancel()
        try:
            await asyncio.wait({self._task})
        except asyncio.CancelledError:
            abandon(self._task)
            raise

    def _done(self, task: asyncio.Task[Any]) -> None:
        _running.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and self._events.over and not self._told:
            _logger.error("%s: its function failed after the end", self._who, exc_info=error)


class FunctionComponent(Generic[Event]):
    """An environment or agent that is one async function over a session."""

    inline = True

    def __init__(self, function: Callable[[Any], Coroutine[Any, Any, Any]]) -> None:
        """Play by this function."""
        self._function = function
        self.function_name = qualified_name(function)
        self._events: EventQueue[Event]
        self._task: FunctionTask[Event] | None = None

    def _start(self, name: str, events: EventQueue[Event], session: Any) -> None:
        self._events = events
        self._task = FunctionTask(name, events, lambda: self._function(session))

    async def lost(self) -> None:
        """Cancel the function."""
        if self._task is not None:
            await self._task.cancel()

    @property
    def _running(self) -> FunctionTask[Event]:
        if self._task is None:
            raise RuntimeError("it has not started")
        return self._task


async def _run(function: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    try:
        return await function()
    except BaseException as error:
        if isinstance(error, Exception) or not is_failure(error):
            raise
        raise as_exception(error) from error
