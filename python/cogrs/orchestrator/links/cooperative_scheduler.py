"""Resumes tasks that wait for each other, without a round of the event loop for each.

A task that waits for a request is resumed in order, never within the call that woke it. What
belongs together, such as a trial, shares a run queue, which goes on for up to `SLICE`, since what
it touches is in the processor's cache then; all run queues together go on for up to `ROUND`, and
then the event loop does other things.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from contextvars import Context

SLICE = 0.001
"""Seconds of one run queue after which it is the next one's turn."""

ROUND = 0.005
"""Seconds of all run queues after which the event loop does other things.

Trials with expensive steps ask their policy together then, as they come to it in one round."""


class CooperativeScheduler:
    """Gives run queues their turns, one after the other."""

    def __init__(self) -> None:
        """Create a scheduler for the running loop."""
        self.loop = asyncio.get_running_loop()
        self._run_queues: WeakValueDictionary[str, RunQueue] = WeakValueDictionary()
        self._due: deque[RunQueue] = deque()
        self._scheduled = False

    def run_queue(self, name: str) -> RunQueue:
        """Return the run queue of this name, which lives as long as a link uses it."""
        run_queue = self._run_queues.get(name)
        if run_queue is None:
            run_queue = self._run_queues[name] = RunQueue(self)
        return run_queue

    def add(self, run_queue: RunQueue) -> None:
        """Give a run queue a turn."""
        self._due.append(run_queue)
        if not self._scheduled:
            self._scheduled = True
            self.loop.call_soon(self._run)

    def _run(self) -> None:
        due = self._due
        until = time.perf_counter() + ROUND
        try:
            while due and (now := time.perf_counter()) < until:
                run_queue = due.popleft()
                try:
                    run_queue.run(now + SLICE)
                finally:
                    if run_queue.due:
                        due.append(run_queue)
        finally:
            self._scheduled = bool(due)
            if due:
                self.loop.call_soon(self._run)


class RunQueue:
    """Waiters of tasks that belong together, resumed in the order in which they were woken."""

    def __init__(self, scheduler: CooperativeScheduler) -> None:
        """Create an empty run queue."""
        self.scheduler = scheduler
        self.due: deque[Waiter] = deque()
        self._running = False

    def add(self, waiter: Waiter) -> None:
        """Resume a waiter after those before it, never from within this call."""
        if not self.due and not self._running:
            self.scheduler.add(self)
        self.due.append(waiter)

    def run(self, until: float) -> None:
        """Resume waiters, at least one, until the time `until` by `time.perf_counter`."""
        due, now = self.due, time.perf_counter
        self._running = True
        try:
            while due:
                due.popleft().resume()
                if now() > until:
                    break
        finally:
            self._running = False


class Waiter:
    """An awaitable that one task at a time awaits, over and over.

    To tasks it is a future, which `asyncio.isfuture` recognises by an attribute.
    """

    def __init__(self, run_queue: RunQueue) -> None:
        """Create a waiter that is not woken."""
        self._run_queue = run_queue
        self._callback: Callable[[Waiter], object] | None = None
        self._context: Context | None = None
        self._woken = False
        self._cancelled: asyncio.CancelledError | None = None
        self._asyncio_future_blocking = False

    def wake(self) -> None:
        """Queue the task that waits, if there is one, to be resumed."""
        if self._callback is not None and not self._woken:
            self._woken = True
            self._run_queue.add(self)

    def resume(self) -> None:
        """Resume the task now."""
        callback, context = self._callback, self._context
        self._callback = self._context = None
        self._woken = False
        assert callback is not None
        assert context is not None
        context.run(callback, self)

    def __await__(self) -> Generator[Any, None, None]:
        """Wait until it is woken."""
        self._asyncio_future_blocking = True
        yield self

    # The interface of a future that tasks use.

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop of the tasks that may wait."""
        return self._run_queue.scheduler.loop

    def add_done_callback(self, callback: Callable[[Waiter], object], *, context: Context) -> None:
        """Keep the callback that resumes the task."""
        self._callback, self._context = callback, context

    def cancel(self, msg: object = None) -> bool:
        """Resume the task with a cancellation."""
        self._cancelled = asyncio.CancelledError() if msg is None else asyncio.CancelledError(msg)
        self.wake()
        return True

    def result(self) -> None:
        """Raise the cancellation of the task that is resumed, if it was cancelled."""
        cancelled, self._cancelled = self._cancelled, None
        if cancelled is not None:
            raise cancelled
