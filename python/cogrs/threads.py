"""Daemon threads that call plain functions for an event loop, each its calls in order.

Threading: a `WorkerThread` takes calls from a `SimpleQueue` and sets each call's outcome before it
reports it: by releasing the call's lock, for a loop that waits for a quick function, or by
`call_soon_threadsafe`. `busy` and `quick` are written by the thread and read by the loop, without a
lock: a stale value costs time alone. A `ThreadPool` belongs to one event loop at a time.
"""

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
"""Threads of one pool at most. While all are taken, their users share them."""

_MAX_IDLE = 64
"""Idle threads that are kept at most, to be used again."""

_QUICK = 1e-4
"""Seconds up to which a call is quick, so that the loop waits for the next one of that name.

For others it goes on and is woken later, which takes as long as a quick call."""

_WAIT = 5e-4
"""Seconds that the loop waits at most."""

CallOutcome: TypeAlias = "tuple[Any, BaseException | None]"
"""The value that a call returned, and the exception that it raised instead."""


class _Call:
    """One call of a function, on its way to the thread and back."""

    __slots__ = ("args", "done", "function", "loop", "outcome", "result")

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.function = function
        self.args = args
        self.outcome: CallOutcome | None = None
        self.done: threading.Lock | None = None
        """Locked until the call is done, if the loop waits for it."""
        self.loop: asyncio.AbstractEventLoop
        self.result: asyncio.Future[CallOutcome] | None = None

    def to_loop(self) -> asyncio.Future[CallOutcome]:
        """Return a future of the running loop for the outcome."""
        self.loop = asyncio.get_running_loop()
        self.result = result = self.loop.create_future()
        return result

    def make(self) -> float:
        """Make the call, unless its future was cancelled; return the seconds that it took."""
        if self.result is not None and self.result.cancelled():
            return 0.0
        begin = time.perf_counter()
        outcome: CallOutcome
        try:
            outcome = self.function(*self.args), None
        except (KeyboardInterrupt, GeneratorExit) as error:  # Ctrl-C does not reach this thread
            outcome = None, as_exception(error)
        except BaseException as error:
            outcome = None, error
        took = time.perf_counter() - begin
        self.outcome = outcome
        return took

    def tell(self) -> None:
        """Report the outcome to the loop."""
        if self.done is not None:
            self.done.release()
        # Set by the loop before that looks for the outcome, which is there by now.
        if self.result is not None and self.outcome is not None:
            with suppress(RuntimeError):  # the loop is closed, and waits no more
                self.loop.call_soon_threadsafe(_settle, self.result, self.outcome)


def _settle(result: asyncio.Future[CallOutcome], outcome: CallOutcome) -> None:
    if not result.done():
        result.set_result(outcome)


class WorkerThread:
    """A thread that calls functions in order. It keeps no reference to a call that is done."""

    def __init__(self, name: str) -> None:
        """Start it; RuntimeError if the system has no more threads."""
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self.busy: Callable[..., Any] | None = None
        """The function that it calls now."""
        self.quick: set[str] = set()
        """Names of functions that were quick the last time."""
        self.users = 0
        """Number of its users."""
        thread = threading.Thread(target=_work, args=(self, self._calls), name=name, daemon=True)
        thread.start()

    def call(
        self, function: Callable[..., Any], *args: Any
    ) -> CallOutcome | asyncio.Future[CallOutcome]:
        """Call a function after the calls before it.

        Returns:
            The outcome, or a future of it on the running loop. A call that has not begun when its
            future is cancelled is not made.
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
        """End the thread after the calls before this."""
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
        """Create a pool without threads.

        Args:
            name: Name of the threads.
            most: Number of threads at most.
        """
        self._name = name
        self._most = most
        self._workers: set[WorkerThread] = set()
        self._idle: list[WorkerThread] = []
        # A pool that is garbage collected ends its threads.
        weakref.finalize(self, _end_all, self._idle).atexit = False

    def __len__(self) -> int:
        """Return the number of threads, without those that were left behind."""
        return len(self._workers)

    def take(self) -> WorkerThread:
        """Return an idle or a new worker, or, when there are too many, the least shared one.

        Raises:
            RuntimeError: The pool is empty, and the system has no more threads.
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
        """Take a worker back. One that is still busy is left behind and not used again."""
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
        """End idle threads. The pool can be used again."""
        self._workers.difference_update(self._idle)
        _end_all(self._idle)


def _end_all(workers: list[WorkerThread]) -> None:
    for worker in workers:
        worker.end()
    workers.clear()


class DaemonExecutor(ThreadPoolExecutor):
    """Calls each function on a new daemon thread, so that one that hangs keeps no process alive.

    Made to be the default executor of a loop, as of `asyncio.to_thread`.
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
        """Leave calls under way alone."""
        del wait, cancel_futures
