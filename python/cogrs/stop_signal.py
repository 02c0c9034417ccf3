"""Ctrl-C and SIGTERM as a flag that programs check between two steps.

This module imports little, since a signal during its imports ends in a traceback.
"""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, Self


class StopSignal:
    """A flag that SIGINT and SIGTERM set while the context is entered, on the main thread.

    A flag, unlike an exception, leaves nothing half done, imports included.
    """

    def __init__(self) -> None:
        self.number = 0
        """The first signal that came, or 0."""
        self.quiet = False
        """Set while a live display has the terminal: signals then print nothing."""
        self._announced = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, _frame: FrameType | None = None) -> None:
        self.number = self.number or number
        if not self.quiet:
            self.announce()

    def is_set(self) -> bool:
        """Whether a signal came."""
        return self.number != 0

    @property
    def code(self) -> int:
        """The exit code of shells for the signal."""
        return 128 + self.number

    def announce(self) -> None:
        """Print "stopping", once."""
        if not self._announced:
            self._announced = True
            # A handler may run in the middle of a print, which is not reentrant.
            try:
                os.write(1, b"stopping\n")
            except OSError:  # the output is closed
                return
