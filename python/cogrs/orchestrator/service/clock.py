"""A clock on an event loop."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class LoopClock:
    """A `Clock` on the running event loop."""

    def __init__(self) -> None:
        """Create a clock on the running event loop."""
        self._loop = asyncio.get_running_loop()

    def now(self) -> float:
        """Return monotonic seconds; the time of some loops stands still within a round."""
        return time.monotonic()

    def wall_ns(self) -> int:
        """Return nanoseconds since the Unix epoch."""
        return time.time_ns()

    def call_later(self, delay: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """Call back in `delay` seconds."""
        return self._loop.call_later(delay, callback)
