"""Code of users that does not return: it is named, and left behind."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import math
import sys
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from weakref import WeakSet

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Mapping
    from types import CodeType, FrameType

Result = TypeVar("Result")
Awaited = TypeVar("Awaited", bound="asyncio.Future[Any]")
Function = TypeVar("Function", bound="Callable[..., Any]")

_logger = logging.getLogger("cogrs")

_FAREWELL = 0.8
"""Seconds for a coroutine to end that was cancelled since its time is over."""

_FRAMES = 5
"""Functions that are named where nothing better is known."""

_SLICE = 0.02
"""Seconds between two looks whether a task has ended."""

CANCELLATION = 0.1
"""Seconds for calls and tasks to end that were cancelled."""


class TimeLimitError(TimeoutError):
    """A coroutine took longer than `run_limited` allows."""


class Server(Protocol):
    """A server of gRPC."""

    async def stop(self, grace: float | None) -> None:
        """Stop."""


_abandoned: WeakSet[asyncio.Task[Any]] = WeakSet()
"""Tasks that nobody waits for any more."""

_callers: dict[CodeType, Callable[[Mapping[str, Any]], str]] = {}
"""Functions that call users' code, with what names such a call by their local variables."""


async def cancel_tasks(tasks: Collection[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
    """Cancel tasks, and return those that do not end within 0.1 s, which are left behind.

    Args:
        tasks: What to cancel. What was left behind before is not waited for.
    """
    waiting = {task for task in tasks if task not in _abandoned}
    for task in waiting:
        task.cancel()
    if not waiting:
        return set()
    late = await wait_running(waiting, CANCELLATION)
    for task in late:
        abandon(task)
    return late


async def wait_running(tasks: Iterable[Awaited], seconds: float) -> set[Awaited]:
    """Wait for tasks for some seconds of this loop's, and return those that are not done.

    Time in which the loop gets no turn counts little: on a busy machine a task that is about to end
    is not taken for one that does not.

    Args:
        tasks: What to wait for.
        seconds: How long, when the loop always gets its turn.
    """
    late = set(tasks)
    slices = max(1, math.ceil(seconds / _SLICE))
    for _ in range(slices):
        if not late:
            break
        _, late = await asyncio.wait(late, timeout=seconds / slices)
    return late


async def run_limited(
    work: Coroutine[Any, Any, Result], seconds: float | None, name: str
) -> Result:
    """Run a coroutine of a user's for a limited time; it is left behind if it does not end then.

    Args:
        work: The coroutine.
        seconds: The limit; None for none.
        name: What the warning calls it.

    Raises:
        TimeLimitError: It took longer.
    """
    task = asyncio.ensure_future(work)
    try:
        if not (await asyncio.wait({task}, timeout=seconds))[0]:
            raise TimeLimitError
    except asyncio.CancelledError:
        # SystemExit passes the task by and ends its loop: nobody else asks the task for it.
        error = task.exception() if task.done() and not task.cancelled() else None
        if error is not None and not isinstance(error, SystemExit):
            _logger.error("%s failed when it was cancelled", name, exc_info=error)
        raise
    finally:
        if not task.done():
            task.cancel()
            await wait_running({task}, _FAREWELL)
        if not task.done():
            _logger.warning("%s does not return: nobody waits for it any more", name)
            abandon(task)
    return task.result()


def abandon(task: asyncio.Task[Any]) -> None:
    """Leave a task behind that does not end when it is cancelled: its loop ends without it.

    `asyncio.run` would wait for it for ever.
    """
    if task.done() or task in _abandoned:
        return
    _abandoned.add(task)
    for other in asyncio.all_tasks():
        # It would not end before the one that it awaits does, either.
        if getattr(other, "_fut_waiter", None) is task:
            abandon(other)
    asyncio._unregister_task(task)
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    # A coroutine that catches everything would run for ever when it is collected, in the process's
    # last moments at the latest.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(task))


def is_abandoned(task: asyncio.Task[Any]) -> bool:
    """Return whether a task was left behind."""
    return task in _abandoned


@asynccontextmanager
async def stopping(servers: Collection[Server], grace: float) -> AsyncIterator[float]:
    """Stop gRPC servers around a block, which deals with calls that do not end.

    Args:
        servers: The servers.
        grace: Seconds that their calls get; they are cancelled before the block is entered.

    Yields:
        What is left of these seconds.
    """
    until = time.monotonic() + grace
    tasks = [asyncio.ensure_future(server.stop(grace)) for server in servers]
    if tasks:
        await asyncio.wait(tasks, timeout=grace + CANCELLATION)
    yield max(until - time.monotonic(), 0.0)
    await wait_running(tasks, CANCELLATION)
    for task in tasks:
        if task.done():
            task.result()
        else:
            abandon(task)


def names_call(
    name: Callable[[Mapping[str, Any]], str],
) -> Callable[[Function], Function]:
    """Declare that a function calls users' code, and how such a call is named.

    Args:
        name: Returns the name, given the local variables of the function.
    """

    def declare(function: Function) -> Function:
        _callers[function.__code__] = name
        return function

    return declare


def running_call(thread: int | None) -> str:
    """Return what a thread is busy with: the call of users' code, or the innermost functions.

    Args:
        thread: The thread's identifier.
    """
    innermost = frame = None if thread is None else sys._current_frames().get(thread)
    while frame is not None:
        if frame.f_code in _callers:
            return _callers[frame.f_code](frame.f_locals)
        frame = frame.f_back
    return "nothing" if innermost is None else _stack(innermost)


def qualified_name(called: Any) -> str:
    """Return the name of a function, or of a method with the class of its object."""
    function = getattr(called, "func", called)  # of a functools.partial
    owner = getattr(function, "__self__", None)
    if owner is None or isinstance(owner, type):
        return _short(getattr(function, "__qualname__", type(function).__qualname__))
    # A user knows a function that plays, and not the class that is made of it.
    kind, name = type(owner).__qualname__, getattr(function, "__name__", "")
    return str(getattr(owner, "function_name", _short(f"{kind}.{name}")))


def _short(name: str) -> str:
    """Return a qualified name without the functions around what it names."""
    return name.rpartition("<locals>.")[2]


def _stack(frame: FrameType | None) -> str:
    places: list[str] = []
    while frame is not None and len(places) < _FRAMES:
        code = frame.f_code
        places.append(f"{_short(code.co_qualname)} ({code.co_filename}:{frame.f_lineno})")
        frame = frame.f_back
    return ", in ".join(places)
