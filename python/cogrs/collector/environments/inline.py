"""Steps environments in the thread that waits for their batch.

The first wait decides under a lock which thread this is; afterwards that thread alone touches the
stepper, `_moving` and `_inside`, which others read. After Ctrl-C the stepper's lists say which rows
are to be reported, and the next wait goes on.
"""

from __future__ import annotations

import threading
import time
import warnings
from typing import TYPE_CHECKING

from cogrs.collector.environments.env_worker import EnvWorker

if TYPE_CHECKING:
    from collections.abc import Callable

    from cogrs import _core
    from cogrs.collector.environments.first import FirstEnv
    from cogrs.collector.environments.stepper import LocalStepper

_SLICE = 1.0
"""Seconds after which a waiting thread checks whether the thread that steps games is alive."""

_ABSENCE = 10
"""Slices without a batch and without that thread before a warning."""


class InlineEnvWorker(EnvWorker):
    """An env worker without a thread: the first wait decides which thread moves the games.

    A wait without a timeout makes it the thread that waits; it makes, moves and closes the
    environments from then on. A wait with one makes it a thread of their own, since a move may
    take longer than the timeout.
    """

    _stepper: LocalStepper

    def __init__(
        self,
        core: _core.CollectorContext,
        number: int,
        stepper: LocalStepper,
        failed: Callable[[int, BaseException], None],
    ) -> None:
        """Create an env worker; the arguments are those of `EnvWorker`."""
        super().__init__(core, number, stepper, failed)
        self._first: FirstEnv | None = None
        self._choosing = threading.Lock()
        self._owner: threading.Thread | None = None
        # Depth of waits of that thread; whether it is making a move.
        self._inside = 0
        self._moving = False
        self._closed = threading.Event()
        self._warned = False

    def start(self, first: FirstEnv | None = None) -> None:
        """Keep the first environment until the thread that steps it is known."""
        self._first = first

    def wait(self, gid: int | None, timeout: float | None) -> _core.CollectorDelivery | None:
        """Wait as `CollectorContext.wait` does, and make this thread's moves meanwhile.

        A KeyboardInterrupt breaks off the move under way. That game begins an episode in a new
        environment, and the others keep their states.

        Raises:
            RuntimeError: As there; or an environment's own code called this; or the thread that
                owns the environments has ended.
        """
        if self._thread is None and self._owner is None:
            self._choose(timeout)
        if self._thread is not None:
            return self._core.wait(gid, timeout)
        if self._owner is not threading.current_thread():
            return self._wait_for_owner(gid, timeout)
        if self._moving:
            raise RuntimeError("an environment called Wait or Run during its own move")
        self._inside += 1
        try:
            return self._attend(gid, timeout)
        finally:
            self._inside -= 1
            if self._halted:
                self._close()

    def _choose(self, timeout: float | None) -> None:
        with self._choosing:
            if self._thread is not None or self._owner is not None or self._halted:
                return
            first, self._first = self._first, None
            assert first is not None
            if timeout is not None:
                super().start(first)
                return
            env = first.take_here()
            if env is not None:
                self._stepper.adopt(0, env)
            self._owner = threading.current_thread()

    def _attend(self, gid: int | None, timeout: float | None) -> _core.CollectorDelivery | None:
        stepper = self._stepper
        end = None if timeout is None else time.monotonic() + timeout
        failed: list[tuple[int, str]] = []
        try:
            while True:
                left = None if end is None else max(end - time.monotonic(), 0.0)
                turn = self._core.attend(gid, left, stepper.progress, failed)
                if not isinstance(turn, int):
                    return turn
                self._make_moves(turn)
                failed = self._report(stepper.failures)
        except BaseException:
            self._recover()
            raise

    def _make_moves(self, count: int) -> None:
        self._moving = True
        try:
            self._stepper.make_moves(count, inline=True)
        finally:
            self._moving = False

    def _recover(self) -> None:
        """Report the moves that this thread was handed, unless that is done."""
        if not self._core.is_moving():
            return
        stepper = self._stepper
        stepper.settle()
        failures = stepper.failures if stepper.progress[0] else []
        failed = self._report(failures)
        self._core.report(stepper.progress, failed)

    def _wait_for_owner(
        self, gid: int | None, timeout: float | None
    ) -> _core.CollectorDelivery | None:
        owner = self._owner
        end = None if timeout is None else time.monotonic() + timeout
        absent = 0
        while True:
            left = _SLICE if end is None else min(max(end - time.monotonic(), 0.0), _SLICE)
            delivery = self._core.wait(gid, left)
            if delivery is not None or (end is not None and time.monotonic() >= end):
                return delivery
            if owner is not None and not owner.is_alive():
                raise RuntimeError(
                    f"the environments belong to thread {owner.name}, the first that called Run, "
                    "which has ended; num_threads=1 gives them a thread of their own"
                )
            absent = 0 if self._inside else absent + 1
            if absent == _ABSENCE and not self._warned and owner is not None:
                self._warned = True
                warnings.warn(
                    f"the environments belong to thread {owner.name}, the first that called Run, "
                    "and wait for it to call Run again; num_threads=1 gives them a thread of their "
                    "own",
                    RuntimeWarning,
                    stacklevel=6,
                )

    def join(self, timeout: float) -> bool:
        """See `EnvWorker`. Environments of another thread are closed when that comes back."""
        if self._first is not None:
            self._first.close()
        owner = self._owner
        if owner is None:
            return super().join(timeout)
        if owner is threading.current_thread():
            if not self._inside:
                self._close()
            return True
        if not owner.is_alive():
            self._close()
        # In a callback, or elsewhere: its next wait closes them.
        return not self._inside or self._closed.wait(max(timeout, 0.0))

    def is_over(self) -> bool:
        """See `EnvWorker`."""
        return self._owner is None or self._closed.is_set()

    def _close(self) -> None:
        self._stepper.close()
        self._closed.set()

    def describe(self) -> str:
        """See `EnvWorker`."""
        if self._owner is None:
            return super().describe()
        return f"{self._stepper.doing()} (thread {self._owner.name})"
