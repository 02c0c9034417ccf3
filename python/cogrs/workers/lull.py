"""When an event loop has come to the end of what it had to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


class Lull:
    """Tells when the tasks of a loop have asked whatever they have to ask for now."""

    def __init__(self, loop: asyncio.AbstractEventLoop, tell: Callable[[], None]) -> None:
        """Call `tell` on this loop when a whole round of it has passed without a question."""
        self._loop = loop
        self._tell = tell
        self._asked = False
        self._looking = False

    def asked(self) -> None:
        """Take note of a question; on the loop."""
        self._asked = True
        if not self._looking:
            self._looking = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        if self._asked:
            self._asked = False
            self._loop.call_soon(self._look)
        else:
            self._looking = False
            self._tell()
