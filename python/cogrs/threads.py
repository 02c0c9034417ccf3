"""Daemon threads that call plain functions for an event loop, each its own in their order."""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias

from cogrs.user_errors import as_exception

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_THREADS = 1000
"""Threads of one pool at most. While all are taken, sessions share them."""

_MAX_IDLE = 64
"""Idle threads that are kept, so that the next session need not start one."""

_QUICK = 1e-4
"""Seconds up to which a call is quick: the loop waits for the next one of that name.

Where it does not, it goes on meanwhile, and is woken, which takes as long as such a call does."""

_WAIT = 5e-4
"""Seconds for which the loop waits at most."""

CallOutcome: TypeAlias = "tuple[Any, BaseException | None]"
"""What a call returned, and what it raised instead."""


class _Call:
    """One call of a function, on its way to the thread and back."""

    __slots__ = ("args", "done", "function", "loop", "outcome", "result")

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.function = function
        self.args = args
        self.outcome: CallOutcome | None = None
        self.done: threading.Lock | None = None
        """Locked until it is done, if somebody waits there."""
        self.loop: asyncio.AbstractEventLoop
        self.result: asyncio.Future[CallOutcome] | None = None

    def to_loop(self) -> asyncio.Future[CallOutcome]:
        """Return a future of the running loop for the outcome."""
        self.loop = asyncio.get_running_loop()
        self.result = result = self.loop.create_future()
        return result

    def make(self) -> float:
        """Make the call, unless nobody wants it any more; return the seconds that it took."""
        if self.result is not None and self.result.cancelled():
            return 0.0
        begin = time.perf_counter()
        outcome: CallOutcome
        try:
            outcome = self.function(*self.args), None
        except (KeyboardInterrupt, GeneratorExit) as error:  # nobody pressed Ctrl-C on this thread
            outcome = None, as_exception(error)
        except BaseException as error:
            outcome = None, error
        took = time.perf_counter() - begin
        self.outcome = outcome
        return took

    def tell(self) -> None:
        """Tell whoever waits that it is made."""
        if self.done is not None:
            self.done.release()
        # Set by the loop before that looks for the outcome, which is there by now.
        if self.result is not None and self.outcome is not None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self.loop.call_soon_threadsafe(_settle, self.result, self.outcome)


def _settle(result: asyncio.Future[CallOutcome], outcome: CallOutcome) -> None:
    if not result.done():
        result.set_result(outcome)


class WorkerThread:
    """A thread. It holds nothing of what it called before."""

    def __init__(self, name: str) -> None:
        """Start it.

        Raises:
            RuntimeError: The system has no more threads.
        """
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self.busy: Callable[..., Any] | None = None
        """What it calls now."""
        self.quick: set[str] = set()
        """Names of functions that were quick the last time."""
        self.users = 0
        """How many have it."""
        thread = threading.Thread(target=_work, args=(self, self._calls), name=name, daemon=True)
        thread.start()

    def call(
        self, function: Callable[..., Any], *args: Any
    ) -> CallOutcome | asyncio.Future[CallOutcome]:
        """Call a function after those before it.

        Returns:
            What was returned, and what was raised, a failure always; or a future of that, on the
            running loop. A call that has not begun when its future is cancelled is not made.
        """
        call = _Call(function, args)
        if self.users > 1 or self.busy or _name(function) not in self.quick:
            result = call.to_loop()
            self._calls.put(call)
            return result
        call.done = threading.Lock()
        call.done.acquire()
        self._calls.put(call)
        if call.done.acquire(timeout=_WAIT) and call.outcome is not None:
            return call.outcome
        result = call.to_loop()
        return result if call.outcome is None else call.outcome

    def end(self) -> None:
        """End the thread when it has done what it was asked to."""
        self._calls.put(None)


def _work(worker: WorkerThread, calls: SimpleQueue[_Call | None]) -> None:
    while (call := calls.get()) is not None:
        name = _name(call.function)
        worker.busy = call.function
        if call.make() < _QUICK:
            worker.quick.add(name)
        else:
            worker.quick.discard(name)
        worker.busy = None
        call.tell()
        del call


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", "")


class ThreadPool:
    """A pool of workers, for one event loop at a time."""

    def __init__(self, name: str, most: int = MAX_THREADS) -> None:
        """Start none yet.

        Args:
            name: What the threads are called.
            most: How many there are at most.
        """
        self._name = name
        self._most = most
        self._workers: set[WorkerThread] = set()
        self._idle: list[WorkerThread] = []
        # A pool that is garbage collected ends its threads.
        weakref.finalize(self, _end_all, self._idle).atexit = False

    def __len__(self) -> int:
        """Return how many threads there are, without those that were left behind."""
        return len(self._workers)

    def take(self) -> WorkerThread:
        """Return a worker that nobody has, or, where there are too many, the least shared one.

        Raises:
            RuntimeError: There is none, and the system has no more threads.
        """
        worker = self._idle.pop() if self._idle else self._make()
        worker.users += 1
        return worker

    def _make(self) -> WorkerThread:
        if len(self._workers) < self._most:
            try:
                worker = WorkerThread(self._name)
            except RuntimeError:
                if not self._workers:
                    raise
            else:
                self._workers.add(worker)
                return worker
        return min(self._workers, key=lambda each: each.users)

    def give_back(self, worker: WorkerThread) -> None:
        """Take a worker back. One that is still busy is left behind: nobody gets it any more."""
        worker.users -= 1
        if worker.busy is not None:
            self._workers.discard(worker)
        if worker.users:
            return
        if worker in self._workers and len(self._idle) < _MAX_IDLE:
            self._idle.append(worker)
        else:
            self._workers.discard(worker)
            worker.end()

    def close(self) -> None:
        """End the threads that nobody has. The pool can be used again."""
        self._workers.difference_update(self._idle)
        _end_all(self._idle)


def _end_all(workers: list[WorkerThread]) -> None:
    for worker in workers:
        worker.end()
    workers.clear()


class DaemonExecutor(ThreadPoolExecutor):
    """Calls each function on a new daemon thread: the process ends without those that hang.

    To be the default executor of a loop, as of `asyncio.to_thread`.
    """

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call a function."""
        future: Future[Any] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                value = function(*args, **kwargs)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(value)

        threading.Thread(target=run, name="cogrs-executor", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leave alone what is under way."""
        del wait, cancel_futures
