"""Holds new trials back while a replay server's rate limiter lets no entries in.

Agents run on event loops and ask here; one thread waits for the server, whatever their number.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cogrs.replay import ReplayMemoryClient

_logger = logging.getLogger("cogrs.workers")

_SLICE: Final = 0.2
"""Seconds that the thread waits at a time: in between it looks whether a trial still waits."""


class TrialGate:
    """Lets trials wait until the server takes entries. Any thread, and any event loop, may call."""

    def __init__(self, client: ReplayMemoryClient, seconds: float | None) -> None:
        """Hold each trial back for so many seconds at most; None as long as it takes, 0 never."""
        self._client = client
        self._seconds = seconds
        self._changed = threading.Condition()
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = set()
        self._closed = False
        self._thread: threading.Thread | None = None

    async def wait(self) -> None:
        """Wait until a trial may begin, or has waited long enough."""
        if self._seconds == 0:
            return
        loop = asyncio.get_running_loop()
        entry = loop, loop.create_future()
        with self._changed:
            if self._closed:
                return
            self._waiting.add(entry)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="cogrs-trial-gate", daemon=True
                )
                self._thread.start()
            self._changed.notify()
        try:
            # A trial that has waited for so long begins all the same.
            with suppress(TimeoutError):
                await asyncio.wait_for(entry[1], self._seconds)
        finally:
            with self._changed:
                self._waiting.discard(entry)

    def close(self) -> None:
        """Release all trials, and end the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()
        self._open()

    def _run(self) -> None:
        while self._has_waiting():
            try:
                is_open = self._client.wait_to_insert(timeout=_SLICE)
            except Exception as error:
                # Any exception that ended this thread would hold trials back for ever.
                _logger.warning("trials are not held back: %s", error)
                is_open = True
            if is_open:
                self._open()

    def _has_waiting(self) -> bool:
        """Wait until a trial waits; return False when this is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            return not self._closed

    def _open(self) -> None:
        """Release all trials that wait."""
        with self._changed:
            waiting, self._waiting = self._waiting, set()
        for loop, future in waiting:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_resolve, future)


def _resolve(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
