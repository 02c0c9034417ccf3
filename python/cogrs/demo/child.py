"""The child's side of a process of the demo: told by its arguments, heard by lines of JSON.

It ends when its standard input does, and so with its parent, however that ends.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

from cogrs.demo.options import Role

if TYPE_CHECKING:
    from collections.abc import Callable

_GRACE = 3.0
"""Seconds for a process to end by itself."""


class Child:
    """This process, as its parent knows it."""

    def __init__(self) -> None:
        """Watch for the end."""
        self.ended = threading.Event()
        self._lock = threading.Lock()
        # The terminal's Ctrl-C is the parent's affair.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: self.ended.set())
        threading.Thread(target=self._watch, name="cogrs-watch", daemon=True).start()

    def say(self, **figures: Any) -> None:
        """Tell the parent something."""
        with self._lock:
            print(json.dumps(figures), flush=True)

    def _watch(self) -> None:
        while sys.stdin.buffer.read(1):
            pass
        self.ended.set()
        threading.Event().wait(_GRACE)
        os._exit(1)


def main(run: Callable[[Child, Role], None]) -> None:
    """Run a role of the demo in this process."""
    child = Child()
    try:
        run(child, Role.from_json(sys.argv[1]))
    except BrokenPipeError:
        os._exit(1)  # the parent is gone
    except Exception as error:
        child.say(failed=f"{type(error).__name__}: {error}")
        raise
