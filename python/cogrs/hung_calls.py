"""Calls of user code that do not return: they are named in a warning, and abandoned.

Everything runs on the event loop of the tasks; `running_call` may be called by any thread.
"""

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
"""Seconds for a coroutine to end after it was cancelled by `run_limited`."""

_FRAMES = 5
"""Number of innermost functions that are named if no call of user code is found."""

_SLICE = 0.02
"""Seconds between two checks whether a task has ended."""

CANCELLATION = 0.1
"""Seconds for cancelled calls and tasks to end."""


class TimeLimitError(TimeoutError):
    """A coroutine exceeded the limit of `run_limited`."""


class Server(Protocol):
    """A gRPC server."""

    async def stop(self, grace: float | None) -> None:
        """Stop."""


_abandoned: WeakSet[asyncio.Task[Any]] = WeakSet()
"""Abandoned tasks."""

_callers: dict[CodeType, Callable[[Mapping[str, Any]], str]] = {}
"""Functions that call user code, with functions that name the call by their local variables."""


async def cancel_tasks(tasks: Collection[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
    """Cancel tasks, and abandon and return those that do not end within 0.1 s.

    Tasks that were abandoned before are ignored.
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
    """Wait for tasks, and return those that are not done.

    The wait is sliced, so that time in which a busy machine does not run the loop counts little.
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
    """Run a coroutine of user code; after `seconds` cancel it, and raise TimeLimitError.

    If it goes on, it is abandoned, with a warning that calls it `name`.
    """
    task = asyncio.ensure_future(work)
    try:
        if not (await asyncio.wait({task}, timeout=seconds))[0]:
            raise TimeLimitError
    except asyncio.CancelledError:
        # SystemExit ends the loop by itself; any other error would be lost with the task.
        error = task.exception() if task.done() and not task.cancelled() else None
        if error is not None and not isinstance(error, SystemExit):
            _logger.error("%s failed when it was cancelled", name, exc_info=error)
        raise
    finally:
        if not task.done():
            task.cancel()
            await wait_running({task}, _FAREWELL)
        if not task.done():
            _logger.warning("%s does not return: it is abandoned", name)
            abandon(task)
    return task.result()


def abandon(task: asyncio.Task[Any]) -> None:
    """Abandon a task that does not end when it is cancelled, for which `asyncio.run` would wait."""
    if task.done() or task in _abandoned:
        return
    _abandoned.add(task)
    for other in asyncio.all_tasks():
        # A task that awaits it would not end either.
        if getattr(other, "_fut_waiter", None) is task:
            abandon(other)
    asyncio._unregister_task(task)
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    # When it is collected, a coroutine that catches everything would run for ever.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(task))


def is_abandoned(task: asyncio.Task[Any]) -> bool:
    """Return whether a task was abandoned."""
    return task in _abandoned


@asynccontextmanager
async def stopping(servers: Collection[Server], grace: float) -> AsyncIterator[float]:
    """Stop gRPC servers within `grace` seconds, then run a block for calls that do not end.

    Yields the seconds that are left.
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
    """Decorate a function that calls user code; `name` names the call by its local variables."""

    def declare(function: Function) -> Function:
        _callers[function.__code__] = name
        return function

    return declare


def running_call(thread: int | None) -> str:
    """Return the name of the user code that a thread calls, or else its innermost functions."""
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
    # For async functions, the user's function instead of our class around it.
    kind, name = type(owner).__qualname__, getattr(function, "__name__", "")
    return str(getattr(owner, "function_name", _short(f"{kind}.{name}")))


def _short(name: str) -> str:
    """Return a qualified name without enclosing functions."""
    return name.rpartition("<locals>.")[2]


def _stack(frame: FrameType | None) -> str:
    places: list[str] = []
    while frame is not None and len(places) < _FRAMES:
        code = frame.f_code
        places.append(f"{_short(code.co_qualname)} ({code.co_filename}:{frame.f_lineno})")
        frame = frame.f_back
    return ", in ".join(places)
