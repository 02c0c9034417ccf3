"""Errors of user code: which of them count as its failure, and as what they are raised again."""

from __future__ import annotations

import asyncio
import threading


def is_failure(error: BaseException) -> bool:
    """Return whether an exception is a failure of the user code that a task called.

    Code may call `sys.exit`, await a cancelled future, or panic in Rust; without this check such an
    exception would end the event loop, or leave a caller without a reply. Not failures are Ctrl-C,
    which only the main thread gets, the cancellation of the running task, and `GeneratorExit`.
    """
    if isinstance(error, asyncio.CancelledError):
        return not is_cancelled()
    if isinstance(error, KeyboardInterrupt):
        return threading.current_thread() is not threading.main_thread()
    return not isinstance(error, GeneratorExit)


def is_cancelled() -> bool:
    """Return whether the running task is being cancelled, rather than something it awaits."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def as_exception(error: BaseException) -> Exception:
    """Return a failure as an exception that can be raised in a task, or set in a future.

    Futures refuse `StopIteration`, and a task that raises `SystemExit` ends its loop.
    """
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    told = RuntimeError(f"{type(error).__name__}: {error}")
    told.__cause__ = error
    return told
