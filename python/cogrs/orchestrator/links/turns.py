"""Whose turn it is on the event loop, where each turn is too short to pay for a round of it."""

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
"""Seconds of turns of one lane after which it is another's."""

ROUND = 0.005
"""Seconds of turns of all lanes after which the event loop does other things.

Trials whose steps are dear ask their policy together then, as they come to it in one round."""


class Turns:
    """Lets tasks go on that wait at gates, without a round of the event loop for each.

    Lanes come one after the other: what belongs together, such as a trial, goes on for a while,
    since what it touches is in the processor's cache then.
    """

    def __init__(self) -> None:
        """Have nobody waiting; for the loop that runs now."""
        self.loop = asyncio.get_running_loop()
        self._lanes: WeakValueDictionary[str, Lane] = WeakValueDictionary()
        self._due: deque[Lane] = deque()
        self._scheduled = False

    def lane(self, name: str) -> Lane:
        """Return the lane of this name, which is there for as long as somebody holds it."""
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = Lane(self)
        return lane

    def add(self, lane: Lane) -> None:
        """Take a lane that has turns now."""
        self._due.append(lane)
        if not self._scheduled:
            self._scheduled = True
            self.loop.call_soon(self._run)

    def _run(self) -> None:
        due = self._due
        until = time.perf_counter() + ROUND
        try:
            while due and (now := time.perf_counter()) < until:
                lane = due.popleft()
                try:
                    lane.run(now + SLICE)
                finally:
                    if lane.due:
                        due.append(lane)
        finally:
            self._scheduled = bool(due)
            if due:
                self.loop.call_soon(self._run)


class Lane:
    """Gates of tasks that belong together; they are let go in the order in which they opened."""

    def __init__(self, turns: Turns) -> None:
        """Have nobody waiting."""
        self.turns = turns
        self.due: deque[Gate] = deque()
        self._running = False

    def add(self, gate: Gate) -> None:
        """Let the task at a gate go on after those before it, never from within this call."""
        if not self.due and not self._running:
            self.turns.add(self)
        self.due.append(gate)

    def run(self, until: float) -> None:
        """Let tasks go on, at least one, until it is so late by `time.perf_counter`."""
        due, now = self.due, time.perf_counter
        self._running = True
        try:
            while due:
                due.popleft().let_go()
                if now() > until:
                    break
        finally:
            self._running = False


class Gate:
    """What one task at a time awaits, over and over.

    To tasks it is a future, of those that `asyncio.isfuture` knows by their attribute.
    """

    def __init__(self, lane: Lane) -> None:
        """Be shut."""
        self._lane = lane
        self._wake: Callable[[Gate], object] | None = None
        self._context: Context | None = None
        self._open = False
        self._cancelled: asyncio.CancelledError | None = None
        self._asyncio_future_blocking = False

    def open(self) -> None:
        """Let the task that waits go on, when it is its turn."""
        if self._wake is not None and not self._open:
            self._open = True
            self._lane.add(self)

    def let_go(self) -> None:
        """Let the task go on now."""
        wake, context = self._wake, self._context
        self._wake = self._context = None
        self._open = False
        assert wake is not None
        assert context is not None
        context.run(wake, self)

    def __await__(self) -> Generator[Any, None, None]:
        """Wait until it is opened."""
        self._asyncio_future_blocking = True
        yield self

    # What a task asks of a future.

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop of the tasks that may wait."""
        return self._lane.turns.loop

    def add_done_callback(self, wake: Callable[[Gate], object], *, context: Context) -> None:
        """Take what makes the task go on."""
        self._wake, self._context = wake, context

    def cancel(self, msg: object = None) -> bool:
        """Let the task go on with a cancellation."""
        self._cancelled = asyncio.CancelledError() if msg is None else asyncio.CancelledError(msg)
        self.open()
        return True

    def result(self) -> None:
        """Tell the task, which goes on, whether it is cancelled."""
        cancelled, self._cancelled = self._cancelled, None
        if cancelled is not None:
            raise cancelled
