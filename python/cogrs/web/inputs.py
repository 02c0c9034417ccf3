"""What a person's controls say for the tick that is open."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

Mode = Literal["hold", "press", "queue"]

MODES: Final = ("hold", "press", "queue")

_QUEUED = 64
"""Presses that wait for their ticks; the oldest is dropped."""


class Inputs:
    """The action that is held, pressed or queued, and whether the person takes over."""

    def __init__(self, mode: Mode) -> None:
        """Create controls that nobody touches."""
        self.mode = mode
        self.tick = -1
        """The tick that is open; -1 between two ticks."""
        self.held: Any = None
        """The action of the controls that are down; None without any."""
        self.takeover = False
        self.paused = False
        self.present = False
        """Whether a person is connected."""
        self._pressed: deque[Any] = deque(maxlen=_QUEUED)
        self._changed = asyncio.Event()

    def take(self, tick: int | None, value: Any, *, takeover: bool) -> bool:
        """Take what the page says; return False if it is about a past tick."""
        if tick is not None and tick != self.tick:
            return False
        self.held, self.takeover = value, takeover
        if value is not None and (self.mode == "queue" or self.tick >= 0):
            self._pressed.append(value)
        self._changed.set()
        return True

    def release(self) -> None:
        """Release all controls, as when the page is gone."""
        self.held, self.takeover = None, False
        self._changed.set()

    def set(self, *, paused: bool | None = None, present: bool | None = None) -> None:
        """Note that the person pauses, or is there."""
        self.paused = self.paused if paused is None else paused
        self.present = self.present if present is None else present
        self._changed.set()

    def open(self, tick: int) -> None:
        """Open a tick: presses for earlier ticks are over, unless they queue."""
        self.tick = tick
        if self.mode != "queue":
            self._pressed.clear()

    def close(self) -> None:
        """Close the tick."""
        self.tick = -1

    async def wait_until(self, holds: Callable[[], bool], until: float | None = None) -> bool:
        """Wait until something holds of these controls, or a time of the loop; return whether."""
        loop = asyncio.get_running_loop()
        while not holds():
            self._changed.clear()
            left = None if until is None else until - loop.time()
            if left is not None and left <= 0:
                return False
            try:
                async with asyncio.timeout(left):
                    await self._changed.wait()
            except TimeoutError:
                return holds()
        return True

    async def next_press(self) -> Any:
        """Wait for a press, and take it."""
        await self.wait_until(lambda: bool(self._pressed) and not self.paused)
        return self._pressed.popleft()
