"""Seconds that calls have waited."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class WaitClock:
    """Adds up the seconds of waits, up to now for those that go on. Any thread may call."""

    def __init__(self) -> None:
        """Start at 0."""
        self._lock = threading.Lock()
        self._ended = 0.0
        self._began: dict[object, float] = {}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the seconds of the block."""
        wait, began = object(), time.monotonic()
        with self._lock:
            self._began[wait] = began
        try:
            yield
        finally:
            with self._lock:
                self._ended += time.monotonic() - self._began.pop(wait)

    def add(self, seconds: float) -> None:
        """Count a wait that was measured elsewhere."""
        with self._lock:
            self._ended += seconds

    @property
    def seconds(self) -> float:
        """All seconds up to now."""
        with self._lock:
            now = time.monotonic()
            return self._ended + sum(now - began for began in self._began.values())
