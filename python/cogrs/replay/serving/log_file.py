"""The log file of a server: lines of many clients, each client's in order.

Several workers of a server take lines from their sockets at the same time, so a line can overtake
another. A line that comes early waits, at most for a period: a line that is lost on the way holds
up nothing. One lock guards all of it, writing included. No thread flushes: workers call `tick`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from cogrs.escape import escaped

if TYPE_CHECKING:
    from collections.abc import Callable

_logger = logging.getLogger("cogrs.replay")

_PERIOD = 1.0
"""Seconds between flushes, and that a line waits for those before it."""

_MOST_STREAMS = 10_000
"""Clients whose next number is remembered; a line of a forgotten one waits for a period."""

_MOST_EARLY = 16 << 20
"""Characters of lines that wait for those before them."""

_MODES = ("w", "a", "x", "w+", "a+", "x+", "r+")


class LogFile:
    """Writes lines in the order in which each client numbered them. Any thread may call."""

    def __init__(self) -> None:
        """Drop all lines until `open` is called."""
        self._lock = threading.Lock()
        self._file: IO[Any] | None = None
        self._closed = False
        self.path: str | None = None  # None before `open`
        self.total_lines = 0  # that have come, with and without a file
        self._next: dict[int, int] = {}
        self._early: dict[int, dict[int, str]] = {}
        self._early_size = 0
        self._due = time.monotonic() + _PERIOD

    def open(self, path: str | bytes | os.PathLike[str], mode: str) -> None:
        """See `ReplayMemoryServer.set_logfile`; the old file stays where an error is raised."""
        text = _without_b(mode)
        if text not in _MODES:
            known = ", ".join(_MODES)
            raise ValueError(f"mode: expected one of {known}, with or without b, got {mode!r}")
        try:
            name = os.fsdecode(path)
        except TypeError:
            got = type(path).__name__
            raise TypeError(f"logfile_path: expected a path, got {got}") from None
        file = Path(name).open(text, encoding="utf-8", newline="\n")  # noqa: SIM115
        with self._lock:
            old, self._file, self.path = self._file, file, name
            if self._closed:
                old, self._file = file, None
        if old is not None:
            _close(old)

    def add(self, sender: int, stream: int, number: int, text: str) -> None:
        """Add line `number` of a client."""
        now = datetime.now().astimezone().isoformat(timespec="microseconds")
        with self._lock:
            self.total_lines += 1
            early = self._early.setdefault(stream, {})
            self._early_size -= len(early.get(number, ""))
            early[number] = f"{now},{sender:08x},{escaped(text)}\n"
            self._early_size += len(early[number])
            following = self._next.get(stream, 0)
            while following in early:
                line = early.pop(following)
                self._early_size -= len(line)
                self._write(line)
                following += 1
            # The client that has been silent longest comes first.
            self._next[stream] = max(following, self._next.pop(stream, 0))
            if not early:
                del self._early[stream]
            if self._early_size > _MOST_EARLY:
                self._write_early()
            while len(self._next) > _MOST_STREAMS:
                del self._next[next(iter(self._next))]

    def tick(self) -> None:
        """Flush when it is due; to be called often."""
        if time.monotonic() < self._due:
            return
        with self._lock:
            self._due = time.monotonic() + _PERIOD
            self._write_early()
            self._use_file(lambda file: file.flush())

    def close(self) -> None:
        """Write the lines that wait and close the file."""
        with self._lock:
            self._closed = True
            self._write_early()
            file, self._file = self._file, None
        if file is not None:
            _close(file)

    def _write_early(self) -> None:
        for stream, early in self._early.items():
            numbers = sorted(early)
            for number in numbers:
                self._write(early[number])
            self._next[stream] = max(numbers[-1] + 1, self._next.get(stream, 0))
        self._early.clear()
        self._early_size = 0

    def _write(self, line: str) -> None:
        self._use_file(lambda file: file.write(line))

    def _use_file(self, use: Callable[[IO[Any]], object]) -> None:
        """Use the file, if it is open. When the disk is full, a worker logs that and goes on."""
        if self._file is None:
            return
        try:
            use(self._file)
        except OSError as error:
            _logger.error("log file %s: %s; lines are dropped from now on", self.path, error)
            broken, self._file = self._file, None
            with contextlib.suppress(OSError):
                broken.close()


def _without_b(mode: object) -> str | None:
    """Return a mode without its b, which stands last or before a plus; None for another value."""
    if not isinstance(mode, str) or mode.count("b") > 1 or mode.startswith("b"):
        return None
    return mode.replace("b", "")


def _close(file: IO[Any]) -> None:
    """Close a file; an error is logged, for it is too late for anything else."""
    try:
        file.close()
    except OSError as error:
        _logger.error("log file %s: %s; its last lines are lost", file.name, error)
