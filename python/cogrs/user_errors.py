"""What counts as a failure of code that somebody else wrote."""

from __future__ import annotations

import asyncio
import threading


def is_failure(error: BaseException) -> bool:
    """Return whether an exception is a failure of the code that was called from a task.

    Code may call `sys.exit`, await something that was cancelled, or panic in Rust, and a loop that
    let that through would end, or leave who waits for an answer without one. What is none: Ctrl-C,
    which comes to the main thread alone, the cancellation of the task that runs, and the end of a
    coroutine that nobody waits for.
    """
    if isinstance(error, asyncio.CancelledError):
        return not is_cancelled()
    if isinstance(error, KeyboardInterrupt):
        return threading.current_thread() is not threading.main_thread()
    return not isinstance(error, GeneratorExit)


def is_cancelled() -> bool:
    """Return whether somebody cancels the task that runs, rather than what it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def as_exception(error: BaseException) -> Exception:
    """Return a failure as what may be raised in a task, or into a future.

    A future takes no `StopIteration`, and a loop ends with the task that raises `SystemExit`.
    """
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    told = RuntimeError(f"{type(error).__name__}: {error}")
    told.__cause__ = error
    return told
