"""One connection of a page: what it is sent, of which the latest wins."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_MOST_WAITING = 1000
"""Control messages that wait for a page that does not read."""


class Viewer:
    """Sends texts in order; of ticks and pictures only the latest, so that nothing queues up."""

    def __init__(
        self,
        send_text: Callable[[str], Awaitable[Any]],
        send_bytes: Callable[[bytes], Awaitable[Any]],
    ) -> None:
        """Send by these functions, once `run` is awaited."""
        self._send_text = send_text
        self._send_bytes = send_bytes
        self._texts: deque[str] = deque()
        self._tick: str | None = None
        self._picture: bytes | None = None
        self._changed = asyncio.Event()
        self.closing: tuple[int, str] | None = None
        """Code and reason with which the connection is to be closed."""

    def tell(self, text: str) -> None:
        """Send a control message."""
        self._texts.append(text)
        if len(self._texts) > _MOST_WAITING:
            self.close(1008, "the page does not read its messages")
        self._changed.set()

    def show_tick(self, text: str) -> None:
        """Send a tick, in place of one that has not been sent yet."""
        self._tick = text
        self._changed.set()

    def show_picture(self, picture: bytes) -> None:
        """Send a picture, in place of one that has not been sent yet."""
        self._picture = picture
        self._changed.set()

    def close(self, code: int, reason: str) -> None:
        """Send what waits, and then close the connection."""
        self.closing = self.closing or (code, reason)
        self._changed.set()

    async def run(self) -> None:
        """Send until the connection is to be closed."""
        while True:
            if self._texts:
                await self._send_text(self._texts.popleft())
            elif self._tick is not None:
                text, self._tick = self._tick, None
                await self._send_text(text)
            elif self._picture is not None:
                picture, self._picture = self._picture, None
                await self._send_bytes(picture)
            elif self.closing is not None:
                return
            else:
                self._changed.clear()
                await self._changed.wait()
