"""Time, as the engine sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from cogrs.orchestrator.engine.log import logger

if TYPE_CHECKING:
    from collections.abc import Callable


class Timer(Protocol):
    """A call that will be made later."""

    def cancel(self) -> object:
        """Cancel the call."""


class Clock(Protocol):
    """Tells the time, and calls back."""

    def now(self) -> float:
        """Return seconds that never go backwards."""

    def wall_ns(self) -> int:
        """Return nanoseconds since the Unix epoch."""

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        """Call back in `delay` seconds, from the outermost level."""


class GuardedClock:
    """A `Clock` whose callbacks may fail: their owner is told, and can end in order."""

    def __init__(self, clock: Clock, crashed: Callable[[str], None]) -> None:
        """Create a clock that logs errors of callbacks, and calls `crashed` with their texts."""
        self._clock = clock
        self._crashed = crashed
        self.now = clock.now
        self.wall_ns = clock.wall_ns

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        """Call back in `delay` seconds."""

        def call() -> None:
            try:
                callback()
            except Exception as error:
                logger.exception("a timer failed")
                self._crashed(f"{type(error).__name__}: {error}")

        return self._clock.call_later(delay, call)


class Alarm:
    """A timeout that is cheap to postpone: no timer is cancelled or made for that."""

    def __init__(self, clock: Clock, callback: Callable[[], None]) -> None:
        """Create an alarm that is not set."""
        self._clock = clock
        self._callback = callback
        self._due: float | None = None
        self._timer: Timer | None = None
        self._wakes = 0.0

    def set(self, delay: float) -> None:
        """Call back in `delay` seconds instead of the time set before; 0 stands for never."""
        if delay <= 0:
            self.stop()
            return
        self._due = self._clock.now() + delay
        if self._timer is not None and self._wakes > self._due:
            self._disarm()
        if self._timer is None:
            self._arm(delay)

    def stop(self) -> None:
        """Cancel the callback."""
        self._due = None
        self._disarm()

    def _arm(self, delay: float) -> None:
        self._wakes = self._clock.now() + delay
        self._timer = self._clock.call_later(delay, self._wake)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self) -> None:
        self._timer = None
        if self._due is None:
            return
        left = self._due - self._clock.now()
        if left > 0:
            self._arm(left)
            return
        self._due = None
        self._callback()
