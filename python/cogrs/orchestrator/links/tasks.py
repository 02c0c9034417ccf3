"""What runs in the background for links, so that nothing is forgotten and no error is lost."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Generic, Protocol, Self, TypeVar

from cogrs.escape import escaped
from cogrs.hung_calls import cancel_tasks, is_abandoned
from cogrs.orchestrator.links.turns import Gate, Turns
from cogrs.user_errors import is_failure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine

    from cogrs.orchestrator.links.turns import Lane

_logger = logging.getLogger("cogrs.orchestrator")

T = TypeVar("T")


class Tasks:
    """Background tasks of one server."""

    def __init__(self) -> None:
        """Have none; for the loop that runs now."""
        self.turns = Turns()
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(
        self, work: Coroutine[object, object, None], crashed: Callable[[str], None] | None = None
    ) -> asyncio.Task[None]:
        """Run a coroutine.

        Args:
            work: What to run.
            crashed: Told of an exception that nobody thought of, which is logged in any case.
        """
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._finish(done, crashed))
        return task

    def _finish(self, task: asyncio.Task[None], crashed: Callable[[str], None] | None) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            _logger.error("a background task failed", exc_info=error)
            if crashed is not None:
                crashed(f"{type(error).__name__}: {error}")

    def cancel(self) -> None:
        """Cancel all, without waiting for them."""
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        """Cancel all, and wait for them; those that do not end are left behind."""
        while tasks := {task for task in self._tasks if not is_abandoned(task)}:
            for task in await cancel_tasks(tasks):
                _logger.warning("%s does not end when it is cancelled: it is abandoned", task)


class Queue(Protocol[T]):
    """What an outlet keeps things in."""

    def append(self, item: T, /) -> None:
        """Add the last one."""

    def popleft(self) -> T:
        """Take the first one."""
        ...

    def __len__(self) -> int:
        """Return how many there are."""
        ...


class Outlet(Generic[T]):
    """Things that are put in here and taken out elsewhere, such as the requests of a stream.

    An `asyncio.Queue` does more, for which a tick would pay several times.
    """

    def __init__(self, lane: Lane, items: Queue[T] | None = None) -> None:
        """Be empty and open.

        Args:
            lane: Whose turns those of the reader are among.
            items: Holds what was put in; None takes a deque.
        """
        self._items: Queue[T] = deque() if items is None else items
        self._gate = Gate(lane)
        self.closed = False

    def put(self, item: T) -> None:
        """Add an item; dropped when closed."""
        if not self.closed:
            self._items.append(item)
            self._gate.open()

    def close(self) -> None:
        """End when all items are taken out."""
        self.closed = True
        self._gate.open()

    def __aiter__(self) -> Self:
        """Return the items, once, until closed; for one reader."""
        return self

    async def __anext__(self) -> T:
        """Wait for the next item."""
        while not self._items:
            if self.closed:
                raise StopAsyncIteration
            await self._gate
        return self._items.popleft()


class Courier:
    """Does jobs for one component, one after the other."""

    def __init__(self, tasks: Tasks, lane: Lane, crashed: Callable[[str], None]) -> None:
        """Wait for the first job."""
        self._jobs: Outlet[Callable[[], Awaitable[None]]] = Outlet(lane)
        self._left = 0
        self.task = tasks.spawn(self._run(), crashed)

    @property
    def idle(self) -> bool:
        """Whether what needs no waiting can be done at once, without overtaking anything."""
        return not self._left and not self._jobs.closed

    def do(self, job: Callable[[], Awaitable[None]]) -> None:
        """Do a job after those before it; none is taken after `stop`."""
        self._left += 1
        self._jobs.put(job)

    def stop(self) -> None:
        """End when all jobs are done."""
        self._jobs.close()

    async def _run(self) -> None:
        async for job in self._jobs:
            await job()
            self._left -= 1


async def pump(stream: AsyncIterator[T], kind: type[T], take: Callable[[T], None]) -> str:
    """Hand on what a component sends until its stream is over, and return how it ended."""
    while True:
        try:
            item = checked(await anext(stream), kind)
        except StopAsyncIteration:
            return "its stream is over"
        except BaseException as error:
            if not is_failure(error):
                raise
            return describe(error)
        take(item)


def checked(reply: object, kind: type[T]) -> T:
    """Return what a component returned, if it is what it should be.

    Raises:
        TypeError: It is not.
    """
    if not isinstance(reply, kind):
        got = type(reply).__name__
        raise TypeError(f"expected {kind.__name__} to be returned, got {got}")
    return reply


def describe(error: BaseException) -> str:
    """Return what went wrong in a component, in words, on a line."""
    return escaped(str(error) or type(error).__name__)
