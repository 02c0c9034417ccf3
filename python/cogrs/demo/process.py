"""The parent's side of a process of the demo."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cogrs.demo.options import Role

_READY = 60.0
"""Seconds for a process to say that it is ready: it may import and compile first."""

_GRACE = 4.0
"""Seconds for a process to end after it was told to."""


class ProcessFailedError(RuntimeError):
    """A process of the demo ended by itself."""


class Process:
    """A child process in a role: see `cogrs.demo.child`."""

    def __init__(self, name: str, role: Role, figures: queue.SimpleQueue[dict[str, Any]]) -> None:
        """Start it; what it says after it is ready goes to `figures`."""
        self.name = name
        self._figures = figures
        self._ready: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"cogrs.demo.{name}", role.to_json()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Ctrl-C is the parent's affair.
            start_new_session=True,
        )
        threading.Thread(target=self._listen, name=f"cogrs-{name}", daemon=True).start()

    def wait_ready(self) -> Any:
        """Return what the process says when it is ready.

        Raises:
            ProcessFailedError: It ended instead, or took too long.
        """
        deadline = time.monotonic() + _READY
        while time.monotonic() < deadline:
            try:
                return self._ready.get(timeout=0.1)
            except queue.Empty:
                self.check()
        raise ProcessFailedError(f"the {self.name} process was not ready within {_READY:.0f} s")

    def check(self) -> None:
        """Tell whether it runs.

        Raises:
            ProcessFailedError: It does not.
        """
        code = self._process.poll()
        if code is not None:
            raise ProcessFailedError(f"the {self.name} process ended by itself, exit code {code}")

    def tell_end(self) -> None:
        """Have it end."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    def end(self) -> None:
        """Wait until it has ended; one that does not is killed."""
        self.tell_end()
        try:
            self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                said = json.loads(line)
                if "ready" in said:
                    self._ready.put(said["ready"])
                else:
                    self._figures.put(said)
