"""Queues between a link and its tasks: of items that a task takes, and of calls in order."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from cogrs.orchestrator.links.cooperative_scheduler import RunQueue, Waiter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from cogrs.orchestrator.engine.backlog import Backlog
    from cogrs.orchestrator.links.background_tasks import BackgroundTasks

T = TypeVar("T")


class AsyncQueue(Generic[T]):
    """Items that one task takes by `async for`, such as the requests of a stream.

    An `asyncio.Queue` does more, which costs every tick several times as much.
    """

    def __init__(self, run_queue: RunQueue, items: Backlog[Any] | None = None) -> None:
        """Create an open queue, which keeps its items in a backlog, or in a deque."""
        self._items: deque[T] | Backlog[Any] = deque() if items is None else items
        self._waiter = Waiter(run_queue)
        self.closed = False

    def put(self, item: T) -> None:
        """Add an item; dropped when closed."""
        if not self.closed:
            self._items.append(item)
            self._waiter.wake()

    def close(self) -> None:
        """End the iteration when all items are taken."""
        self.closed = True
        self._waiter.wake()

    def __aiter__(self) -> Self:
        """Return the queue itself; for one task."""
        return self

    async def __anext__(self) -> T:
        """Wait for the next item."""
        while not self._items:
            if self.closed:
                raise StopAsyncIteration
            await self._waiter
        return self._items.popleft()


class SerialTaskQueue:
    """Runs calls for one component, one after the other."""

    def __init__(
        self, tasks: BackgroundTasks, run_queue: RunQueue, crashed: Callable[[str], None]
    ) -> None:
        """Start the task that runs the calls."""
        self._calls: AsyncQueue[Callable[[], Awaitable[None]]] = AsyncQueue(run_queue)
        self._left = 0
        self.task = tasks.spawn(self._run(), crashed)

    @property
    def idle(self) -> bool:
        """Whether a send that needs no wait may bypass the queue, since it overtakes nothing."""
        return not self._left and not self._calls.closed

    def put(self, call: Callable[[], Awaitable[None]]) -> None:
        """Run a call after those before it; dropped after `close`."""
        self._left += 1
        self._calls.put(call)

    def close(self) -> None:
        """End the task when all calls are done."""
        self._calls.close()

    async def _run(self) -> None:
        async for call in self._calls:
            await call()
            self._left -= 1
