"""The child's side of a process of the demo: told by its arguments, heard by lines of JSON.

It ends when its standard input does, and so with its parent, however that ends.
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
"""Seconds for a process to end by itself: its parent's are a little more."""


class StopRequest:
    """Whether the end was asked for.

    A thread sets the event for handlers of signals: one that did so itself would wait for ever if
    it interrupted who holds the event's lock.
    """

    def __init__(self) -> None:
        """Have no end yet."""
        self._event = threading.Event()
        self._reader, self._writer = os.pipe()
        threading.Thread(target=self._listen, name="cogrs-end", daemon=True).start()

    def set_from_handler(self, *_: object) -> None:
        """Ask for the end, from a handler of signals."""
        os.write(self._writer, b"x")

    def set(self) -> None:
        """Ask for the end, from anywhere else."""
        self._event.set()

    def is_set(self) -> bool:
        """Whether it was asked for."""
        return self._event.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is asked for; return whether it was."""
        return self._event.wait(timeout)

    def _listen(self) -> None:
        os.read(self._reader, 1)
        self._event.set()


class Parent:
    """This process, as its parent knows it."""

    def __init__(self) -> None:
        """Watch for the end."""
        self.stop_request = StopRequest()
        # What libraries print is not for the parent.
        self._parent = os.dup(sys.stdout.fileno())
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        # The terminal's Ctrl-C is the parent's affair.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self.stop_request.set_from_handler)
        threading.Thread(target=self._watch, name="cogrs-watch", daemon=True).start()

    def send(self, **figures: Any) -> None:
        """Tell the parent something."""
        line = json.dumps(figures) + "\n"
        try:
            # One write, so that lines of several threads do not mix.
            os.write(self._parent, line.encode())
        except BrokenPipeError:  # the parent is gone
            self.stop_request.set()

    def _watch(self) -> None:
        while os.read(sys.stdin.fileno(), 1):
            pass
        self.stop_request.set()
        time.sleep(_GRACE)
        os._exit(1)


def main(run: Callable[[Parent, ProcessConfig], None]) -> NoReturn:
    """Run a part of the demo in this process, and end it."""
    parent = Parent()
    code = 0
    try:
        run(parent, ProcessConfig.from_json(sys.argv[1]))
    except Exception as error:
        # What the others no longer do is no failure by then.
        if not parent.stop_request.is_set():
            parent.send(failed=" ".join(f"{type(error).__name__}: {error}".split()))
            traceback.print_exc()
            code = 1
    # All is closed and saved. Threads of XLA, which nobody can join, abort a process now and then
    # when they ask for an interpreter that is going; so it does not go.
    sys.stderr.flush()
    os._exit(code)
