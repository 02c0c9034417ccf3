"""Threads that step environments written in Python.

An env worker's thread alone makes, moves and closes its environments. Other threads only call
`halt`, `join` and `describe`. Env workers make their environments one after the other, in the order
of the games: each waits for its turn, an event that the one before sets.
"""

from __future__ import annotations

import threading
import time
import warnings
from typing import TYPE_CHECKING, Any

from cogrs.collector.environments.first import THREAD_NAME
from cogrs.collector.environments.owner import OwnerThread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cogrs import _core
    from cogrs.collector.environments.first import FirstEnv
    from cogrs.collector.environments.stepper import Failure, Stepper

PATIENCE = 0.5
"""Seconds after which an idle env worker checks whether its worker process is alive."""


class EnvWorker:
    """A thread that makes, moves and closes environments, as its step buffer says.

    It holds neither the game context nor the wrapper, so that those can go.
    """

    def __init__(
        self,
        core: _core.CollectorContext,
        number: int,
        stepper: Stepper,
        failed: Callable[[int, BaseException], None],
    ) -> None:
        """Create an env worker; `failed` is called with each game that fails and its exception."""
        self.next: EnvWorker | None = None
        self._core = core
        self._number = number
        self._stepper = stepper
        self._failed = failed
        self._games = core.step_buffer(number)[0][0]
        self._thread: OwnerThread | None = None
        self._turn = threading.Event()
        if number == 0:
            self._turn.set()
        self._halted = False

    def start(self, first: FirstEnv | None = None) -> None:
        """Start the thread, or take over that of `first`, the environment of game 0."""
        env = None
        if first is None:
            self._thread = OwnerThread(THREAD_NAME.format(self._number))
        else:
            self._thread, env = first.take_thread()
        self._thread.submit(lambda: self._run(env))
        self._thread.end()

    def _run(self, first: Any) -> None:
        try:
            self._make(first)
            self._work()
        except BaseException as error:
            self._core.fail(f"environments {self._number}: {type(error).__name__}: {error}")
        finally:
            self._stepper.close()

    def _make(self, first: Any) -> None:
        try:
            self._turn.wait()
            if not self._halted:
                self._stepper.make(first)
        finally:
            if self.next is not None:
                self.next._turn.set()

    def _work(self) -> None:
        begun = 0
        failed: list[tuple[int, str]] = []
        while (count := self._core.play(self._number, begun, failed, PATIENCE)) is not None:
            begun, failed = count, []
            if count == 0:
                self._stepper.check()
                continue
            failed = self._report(self._stepper.move(count))

    def _report(self, failures: Sequence[Failure]) -> list[tuple[int, str]]:
        for failure in failures:
            self._failed(int(self._games[failure.row]), failure.cause)
        return [(failure.row, failure.text) for failure in failures]

    def join(self, timeout: float) -> bool:
        """Wait for its end; return True if it has ended, or is the calling thread."""
        thread = self._thread
        if thread is None or thread.ident == threading.get_ident():
            return True
        return thread.join(timeout)

    def is_over(self) -> bool:
        """Return whether a later `join` has nothing to do."""
        return True

    def halt(self) -> None:
        """Stop beginning moves."""
        self._halted = True
        self._stepper.halt()
        self._turn.set()

    def describe(self) -> str:
        """Describe the move under way, and name the thread."""
        name = self._thread.name if self._thread else ""
        return f"{self._stepper.doing()} (thread {name})"


def join_all(
    env_workers: Sequence[EnvWorker], timeout: float, kill: Sequence[Callable[[], None]]
) -> None:
    """Wait for env workers after `halt`.

    When one hangs, `kill` ends the processes that they wait for. Environments that hang in this
    process are left to their threads, with a warning.
    """
    stuck = _stuck(env_workers, timeout)
    if stuck and kill:
        for each in kill:
            each()
        stuck = _stuck(stuck, timeout + 1.0)
    for env_worker in stuck:
        warnings.warn(
            f"an environment did not return within {timeout} s and is abandoned: "
            f"{env_worker.describe()}",
            RuntimeWarning,
            stacklevel=4,
        )


def _stuck(env_workers: Sequence[EnvWorker], timeout: float) -> list[EnvWorker]:
    end = time.monotonic() + timeout
    return [each for each in env_workers if not each.join(end - time.monotonic())]
