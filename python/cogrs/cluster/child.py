"""One part as its supervisor sees it: started, watched, started again after failures, ended."""

from __future__ import annotations

import contextlib
import logging
import signal
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

from cogrs.cluster.process import start_process
from cogrs.cluster.restart_rule import RestartRule

if TYPE_CHECKING:
    import subprocess

    from cogrs.cluster.run_folder import RunFolder

_logger = logging.getLogger("cogrs.cluster")

_RETRY: Final = 0.2
"""Seconds until a start that could not be made yet is tried again."""


class Child(ABC):
    """A part, and its failures; where and how it runs is said by its subclass."""

    def __init__(self, role: str, index: int, generation: int) -> None:
        """Start nothing yet; the first `tend` does."""
        self.role, self.index = role, index
        self.name = f"{role}-{index}"
        self.generation = generation
        self.restarts = 0
        self.error = ""
        self.given_up = False
        self.asked_to_end = False
        self._rule = RestartRule()
        self._due: float | None = 0.0
        self._runs: Any = None
        """What runs, or has ended unseen."""

    @abstractmethod
    def _start(self) -> Any:
        """Start it, and return what runs; None to be called again soon."""

    @abstractmethod
    def _exit_code(self) -> int | None:
        """Return the exit code of what runs; None while it does."""

    @abstractmethod
    def _send(self, number: int) -> None:
        """Ask what runs to end by SIGTERM, or kill it by SIGKILL."""

    @abstractmethod
    def _why(self, code: int) -> str:
        """Return why it has ended with an exit code."""

    @abstractmethod
    def _close(self) -> None:
        """Release what has ended."""

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._runs is not None and self._exit_code() is None

    def tend(self) -> int | None:
        """Start it when it is due; return the exit code when it has ended just now."""
        if self._runs is None:
            if self._due is not None and time.monotonic() >= self._due:
                self.asked_to_end = False
                self._runs = self._start()
                self._due = None if self._runs is not None else time.monotonic() + _RETRY
            return None
        code = self._exit_code()
        if code is not None:
            self._close()
            self._runs = None
        return code

    def fail(self, code: int) -> None:
        """Note that it has ended unasked; it is started again later, or given up."""
        self.error = self._why(code)
        delay = self._rule.delay(time.monotonic())
        _logger.error("%s failed: %s", self.name, self.error)
        if delay is None:
            self.given_up = True
            _logger.error("%s is given up", self.name)
            return
        self.restarts += 1
        self.generation += 1
        self._due = time.monotonic() + delay

    def signal(self, number: int) -> None:
        """Ask it to end, or kill it; it is not started again."""
        if self.alive:
            self._send(number)
        self.asked_to_end = True
        self._due = None

    def renew(self) -> None:
        """Start it again after it was ended on purpose."""
        self.generation += 1
        self._due = 0.0


class ProcessChild(Child):
    """A process of this machine."""

    def __init__(self, folder: RunFolder, role: str, index: int, generation: int) -> None:
        """Start nothing yet."""
        super().__init__(role, index, generation)
        self._folder = folder

    def _start(self) -> subprocess.Popen[bytes]:
        self._folder.error(self.role, self.index).unlink(missing_ok=True)
        arguments = (self.role, self.index, self.generation)
        with open(self._folder.log(self.role, self.index), "ab") as log:
            return start_process(self._folder, "cogrs.cluster.process", arguments, log)

    def _exit_code(self) -> int | None:
        code: int | None = self._runs.poll()
        return code

    def _send(self, number: int) -> None:
        self._runs.send_signal(number)

    def _close(self) -> None:
        self._runs.stdin.close()

    def _why(self, code: int) -> str:
        if code < 0:
            return f"ended by {signal.Signals(-code).name}"
        with contextlib.suppress(OSError):
            return self._folder.error(self.role, self.index).read_text().strip()
        return f"ended with exit code {code}, though nobody had asked for that"
