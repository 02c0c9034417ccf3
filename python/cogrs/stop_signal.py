"""Ctrl-C and SIGTERM, as a flag that is looked at between two steps.

It imports the least: until it has, a signal ends in a traceback.
"""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, Self


class StopSignal:
    """Whether somebody has asked for the end. A flag leaves nothing half done, in imports neither.

    Signals are heard while it is entered, for which the thread has to be the main thread.
    """

    def __init__(self) -> None:
        """Begin without one."""
        self.number = 0
        """The signal that came first; 0: none."""
        self.quiet = False
        """Whether `hear` is not to write, because a live display has the terminal."""
        self._told = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        """Hear signals."""
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self.hear)
        return self

    def __exit__(self, *_exc: object) -> None:
        """Leave signals to whoever had them."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def hear(self, number: int, _frame: FrameType | None = None) -> None:
        """Take note of a signal."""
        self.number = self.number or number
        if not self.quiet:
            self.tell()

    def is_set(self) -> bool:
        """Whether a signal came."""
        return self.number != 0

    @property
    def code(self) -> int:
        """The exit code that tells of the signal, as shells do it."""
        return 128 + self.number

    def tell(self) -> None:
        """Say once, and at once, that the end has begun."""
        if not self._told:
            self._told = True
            # A handler may run in the middle of a print, which must not be entered again.
            try:
                os.write(1, b"stopping\n")
            except OSError:  # nobody reads it
                return
