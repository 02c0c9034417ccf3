"""A user's async function that lives as long as a trial: events to it, its answers back."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from cogrs.hung_calls import abandon
from cogrs.user_errors import as_exception, is_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_logger = logging.getLogger("cogrs.sdk")

Event = TypeVar("Event")

_running: set[asyncio.Task[Any]] = set()
"""Functions that run: the event loop alone would forget them."""


class EventQueue(Generic[Event]):
    """Events for a function, in their order, and what waits for its answer. An async iterator."""

    def __init__(self) -> None:
        """Have no events yet."""
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._asked: asyncio.Future[Any] | None = None
        self._over = False

    @property
    def over(self) -> bool:
        """Whether no event will follow those that are here."""
        return self._over

    def tell(self, event: Event) -> None:
        """Add an event."""
        self._events.put_nowait(event)

    def close(self) -> None:
        """Add no more."""
        if not self._over:
            self._over = True
            self._events.put_nowait(None)

    def ask(self) -> asyncio.Future[Any]:
        """Return what the function's next answer is the result of."""
        self._asked = asyncio.get_running_loop().create_future()
        return self._asked

    def answer(self, value: Any) -> bool:
        """Answer; False if nobody waits."""
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
        event = await self._events.get()
        if event is None:
            self._events.put_nowait(None)
            raise StopAsyncIteration
        return event


class FunctionTask(Generic[Event]):
    """One run of a function."""

    def __init__(
        self, who: str, inbox: EventQueue[Event], function: Callable[[], Coroutine[Any, Any, Any]]
    ) -> None:
        """Start it."""
        self._who = who
        self._inbox = inbox
        self._task = asyncio.ensure_future(_run(function))
        self._told = False
        _running.add(self._task)
        self._task.add_done_callback(self._done)

    async def ask(self, *events: Event, optional: bool = False) -> Any:
        """Tell it events, and wait for its answer.

        Args:
            events: What it is told.
            optional: It may return without an answer, which is None then.

        Raises:
            RuntimeError: It returned instead.
            Exception: Whatever it raised instead.
        """
        asked = self._inbox.ask()
        for event in events:
            self._inbox.tell(event)
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
        """Tell it that nothing follows, and wait until it returns.

        Raises:
            Exception: Whatever it raised.
        """
        self._inbox.close()
        self._told = True
        await self._task

    async def cancel(self) -> None:
        """Cancel it, and wait for that; it is left behind when this is cancelled, too."""
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
        if error is not None and self._inbox.over and not self._told:
            _logger.error("%s: its function failed after the end", self._who, exc_info=error)


async def _run(function: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    try:
        return await function()
    except BaseException as error:
        if isinstance(error, Exception) or not is_failure(error):
            raise
        raise as_exception(error) from error
