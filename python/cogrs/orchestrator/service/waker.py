"""What wakes the calls that write streams.

All of it runs on the orchestrator's event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from cogrs.limits import WOKEN_AT_ONCE

if TYPE_CHECKING:
    from cogrs.orchestrator.engine.errors import OrchestratorError


class Waker:
    """A `ReaderPort`: wakes the call that writes a stream."""

    def __init__(self) -> None:
        """Create a waker that has not been woken."""
        self._woken = asyncio.Event()
        self._error: OrchestratorError | None = None

    def wake(self) -> None:
        """Wake the call: there is something to take."""
        self._woken.set()

    def close(self, error: OrchestratorError) -> None:
        """End the stream with this error, once everything was taken."""
        self._error = error
        self._woken.set()

    async def wait(self) -> None:
        """Wait until woken, when nothing is left to take; raise the error that ended the stream."""
        if self._error is not None:
            raise self._error
        await self._woken.wait()
        self._woken.clear()


class SharedWaker(Waker):
    """A waker of one of many streams that are told of the same changes."""

    def __init__(self, queue: WakeQueue) -> None:
        """Create a waker that waits its turn in a queue."""
        super().__init__()
        self._queue = queue
        self._due = False

    def wake(self) -> None:
        """Queue the stream: there is something to take."""
        if not self._due:
            self._due = True
            self._queue.add(self)

    def wake_now(self) -> None:
        """Wake the stream, whose turn has come."""
        self._due = False
        super().wake()


class WakeQueue:
    """Wakes many streams, up to `WOKEN_AT_ONCE` in each round of the event loop."""

    def __init__(self) -> None:
        """Create an empty queue."""
        self._due: deque[SharedWaker] = deque()

    def add(self, waker: SharedWaker) -> None:
        """Wake a stream after those before it."""
        if not self._due:
            asyncio.get_running_loop().call_soon(self._run)
        self._due.append(waker)

    def _run(self) -> None:
        for _ in range(min(len(self._due), WOKEN_AT_ONCE)):
            self._due.popleft().wake_now()
        if self._due:
            asyncio.get_running_loop().call_soon(self._run)
