"""Threads that move games which are written in Python."""

from __future__ import annotations

import threading
import time
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cogrs import _core
    from cogrs.collector.environments.stepper import Failure, LocalStepper, Stepper

PATIENCE = 0.5
"""Seconds after which a driver that has nothing to do looks whether its worker lives."""


class Driver:
    """A thread that does what a desk says, or leaves that to the threads that wait for batches.

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
        self._games = core.desk(number)[0][0]
        # Held by the thread that moves games.
        self._moving = threading.Lock()
        self._mover = 0
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
            with self._moving:
                self._stepper.close()

    def _work(self) -> None:
        begun = 0
        failed: list[tuple[int, str]] = []
        while (count := self._core.play(self._number, begun, failed, PATIENCE)) is not None:
            begun, failed = count, []
            if count == 0:
                self._stepper.check()
                continue
            with self._moving:
                failures = self._stepper.move(count)
            failed = self._tell(failures)

    def _tell(self, failures: Sequence[Failure]) -> list[tuple[int, str]]:
        for failure in failures:
            self._failed(int(self._games[failure.row]), failure.cause)
        return [(failure.row, failure.text) for failure in failures]

    def join(self, timeout: float) -> bool:
        """Wait for its end; whether it has come, or has to wait for the caller's."""
        here = threading.get_ident()
        if here in (self._thread.ident, self._mover):
            return True
        if self._thread.ident is not None:
            self._thread.join(max(timeout, 0.0))
        return not self._thread.is_alive()

    def halt(self) -> None:
        """Have it begin no more moves."""
        self._stepper.halt()

    def describe(self) -> str:
        """What it is about, and what its thread is called."""
        mover = self._mover or self._thread.ident
        names = [each.name for each in threading.enumerate() if each.ident == mover]
        return f"{self._stepper.doing()} (thread {', '.join(names)})"


class InlineDriver(Driver):
    """A driver whose moves are made by threads that wait for batches, while they are quick."""

    _stepper: LocalStepper

    def wait(self, gid: int | None) -> _core.CollectorDelivery | None:
        """As `CollectorContext.wait` without a timeout, and make moves meanwhile.

        A KeyboardInterrupt breaks off the move that it comes into. That game begins an episode in a
        new environment, and the others are where they were.

        Raises:
            RuntimeError: As that, or the caller is inside of an environment's own code.
        """
        if self._mover == threading.get_ident():
            raise RuntimeError("an environment waited for batches inside of its own move")
        stepper = self._stepper
        failed: list[tuple[int, str]] = []
        try:
            while True:
                turn = self._core.attend(gid, None, stepper.progress, failed)
                if not isinstance(turn, int):
                    return turn
                self._make_moves(turn)
                failed = self._tell(stepper.failures)
        except BaseException:
            self._recover()
            raise

    def _make_moves(self, count: int) -> None:
        with self._moving:
            self._mover = threading.get_ident()
            try:
                self._stepper.make_moves(count, inline=True)
            finally:
                self._mover = 0

    def _recover(self) -> None:
        """Tell of moves that this thread was given, if it has not done so."""
        if not self._core.is_moving():
            return
        stepper = self._stepper
        stepper.settle()
        failures = stepper.failures if stepper.progress[0] else []
        failed = self._tell(failures)
        self._core.report(stepper.progress, failed)


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
