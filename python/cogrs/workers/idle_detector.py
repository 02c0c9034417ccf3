"""Detects that the tasks of an event loop have nothing more to do for now."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


class IdleDetector:
    """Calls back when a whole round of an event loop passes without a request. Used on the loop.

    By then every task that could ask the policy has asked, so a batch need not wait for more.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, on_idle: Callable[[], None]) -> None:
        """Watch this loop from the first request on."""
        self._loop = loop
        self._on_idle = on_idle
        self._requested = False
        self._watching = False

    def note_request(self) -> None:
        """Note a request."""
        self._requested = True
        if not self._watching:
            self._watching = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        if self._requested:
            self._requested = False
            self._loop.call_soon(self._look)
        else:
            self._watching = False
            self._on_idle()
