"""A child process's side of the demo: told by its arguments, it reports by lines of JSON.

It ends when its standard input ends, and so with its parent, however the parent ends. Two threads
watch for that and for SIGTERM; any thread may call any method of `Parent`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any, NoReturn

from cogrs.demo.options import ProcessConfig

if TYPE_CHECKING:
    from collections.abc import Callable

_GRACE = 1.5
"""Seconds for a process to end by itself; its parent waits a little longer."""


class Parent:
    """The parent process, as this process sees it."""

    def __init__(self) -> None:
        """Watch for the parent's end, and for SIGTERM."""
        self.stop_request = threading.Event()
        """Set when this process is to end."""
        # What libraries print is not for the parent.
        self._output = os.dup(sys.stdout.fileno())
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        reader, writer = os.pipe()
        # The terminal's Ctrl-C is the parent's affair.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # A handler that set the event itself would deadlock if it interrupted a holder of its lock.
        signal.signal(signal.SIGTERM, lambda *_: os.write(writer, b"x"))
        for name, descriptor, grace in (
            ("cogrs-sigterm", reader, None),
            ("cogrs-parent", sys.stdin.fileno(), _GRACE),
        ):
            threading.Thread(
                target=self._watch, args=(descriptor, grace), name=name, daemon=True
            ).start()

    def send(self, **figures: Any) -> None:
        """Report to the parent."""
        line = json.dumps(figures) + "\n"
        try:
            # One write, so that lines of several threads do not mix.
            os.write(self._output, line.encode())
        except BrokenPipeError:  # the parent is gone
            self.stop_request.set()

    def _watch(self, descriptor: int, grace: float | None) -> None:
        """Request the end when a descriptor can be read or is at its end; enforce it after that."""
        os.read(descriptor, 1)
        self.stop_request.set()
        if grace is not None:
            time.sleep(grace)
            os._exit(1)


def main(run: Callable[[Parent, ProcessConfig], None]) -> NoReturn:
    """Run a part of the demo in this process, and end the process."""
    parent = Parent()
    code = 0
    try:
        run(parent, ProcessConfig.from_json(sys.argv[1]))
    except Exception as error:
        # During the end, failures that come of other processes' ends do not count.
        if not parent.stop_request.is_set():
            parent.send(failed=" ".join(f"{type(error).__name__}: {error}".split()))
            traceback.print_exc()
            code = 1
    # All is closed and saved. Threads of XLA, which cannot be joined, abort a process now and then
    # when they need the interpreter during its shutdown; so it is not shut down.
    sys.stderr.flush()
    os._exit(code)
