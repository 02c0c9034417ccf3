"""How long a call waits: until a moment, or for ever."""

from __future__ import annotations

import threading
import time
from typing import Final

from cogrs.validation import check_timeout

SLICE: Final = 0.1
"""Seconds that a call waits at a time: in between it looks whether its object was closed."""


class Deadline:
    """The moment at which a wait ends."""

    __slots__ = ("_end",)

    def __init__(self, seconds: float | None) -> None:
        """Start now; None never ends."""
        self._end: float | None = None
        if seconds is not None and seconds <= threading.TIMEOUT_MAX:
            self._end = time.monotonic() + seconds

    @classmethod
    def of(cls, name: str, timeout: float | None) -> Deadline:
        """Return the end of a wait that begins now, for an argument; as `check_timeout`."""
        return cls(check_timeout(name, timeout))

    @property
    def left(self) -> float | None:
        """Seconds until then, 0 afterwards; None for ever."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    @property
    def passed(self) -> bool:
        """Whether it is over."""
        return self.left == 0

    def within(self, seconds: float) -> float:
        """Return the seconds until then, at most so many."""
        left = self.left
        return seconds if left is None else min(seconds, left)
