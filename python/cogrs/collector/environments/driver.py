"""Threads that move games which are written in Python."""

from __future__ import annotations

import threading
import time
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cogrs import _core
    from cogrs.collector.environments.stepper import Stepper

PATIENCE = 0.5
"""Seconds after which a driver that has nothing to do looks whether its worker lives."""


class Driver:
    """A thread that does what a desk says.

    Moves of many games cross to the core and back in one call. It holds neither the game context
    nor the wrapper, so that those can go.
    """

    def __init__(
        self,
        core: _core.CollectorContext,
        number: int,
        stepper: Stepper,
        failed: Callable[[int, BaseException], None],
    ) -> None:
        """`failed` is told the exceptions of games."""
        self._core = core
        self._number = number
        self._stepper = stepper
        self._failed = failed
        # Daemonic: an environment that hangs must not hold the program up.
        self._thread = threading.Thread(
            target=self._run, name=f"cogrs-environments-{number}", daemon=True
        )

    def start(self) -> None:
        """Let it go."""
        self._thread.start()

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self._core.fail(f"environments {self._number}: {type(error).__name__}: {error}")
        finally:
            self._stepper.close()

    def _work(self) -> None:
        games = self._core.desk(self._number)[0][0]
        done = 0
        failed: list[tuple[int, str]] = []
        while (count := self._core.play(self._number, done, failed, PATIENCE)) is not None:
            done, failed = count, []
            if count == 0:
                self._stepper.check()
                continue
            for failure in self._stepper.move(count):
                self._failed(int(games[failure.row]), failure.cause)
                failed.append((failure.row, failure.text))

    def join(self, timeout: float) -> bool:
        """Wait for its end; whether it has come."""
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(max(timeout, 0.0))
        return not self._thread.is_alive() or self._thread is threading.current_thread()

    def describe(self) -> str:
        """What it is about, and what its thread is called."""
        return f"{self._stepper.doing()} (thread {self._thread.name})"


def join_all(drivers: Sequence[Driver], timeout: float, kill: Sequence[Callable[[], None]]) -> None:
    """Wait for the ends of drivers that were told to end.

    When one hangs, `kill` ends the processes that they wait for; what hangs in this process is left
    to its thread, with a warning.
    """
    stuck = _stuck(drivers, timeout)
    if stuck and kill:
        for each in kill:
            each()
        stuck = _stuck(stuck, timeout + 1.0)
    for driver in stuck:
        warnings.warn(
            f"an environment did not come back within {timeout} s and is abandoned: "
            f"{driver.describe()}",
            RuntimeWarning,
            stacklevel=4,
        )


def _stuck(drivers: Sequence[Driver], timeout: float) -> list[Driver]:
    end = time.monotonic() + timeout
    return [driver for driver in drivers if not driver.join(end - time.monotonic())]
