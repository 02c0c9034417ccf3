"""Event loops: calls that may not block one, and a filter of their reports."""

from __future__ import annotations

import asyncio
from typing import Any


def is_harmless(context: dict[str, Any]) -> bool:
    """Return whether a loop reports what grpc.aio does when a process has several event loops.

    An event wakes all of them, and one takes it; the others find nothing and report an error
    (https://github.com/grpc/grpc/issues/25364). So does an event of a loop that has been closed.

    Args:
        context: What the loop passes to its exception handler.
    """
    error = context.get("exception")
    found_nothing = isinstance(error, BlockingIOError) or str(error) == "Event loop is closed"
    return found_nothing and "PollerCompletionQueue._handle_events" in repr(context.get("handle"))


def handle_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what a loop reports, as it does by default, but leave out the harmless reports."""
    if not is_harmless(context):
        loop.default_exception_handler(context)


def check_no_loop(call: str, instead: str) -> None:
    """Refuse a call that blocks where an event loop runs, which it would stop.

    Args:
        call: The call's name.
        instead: What to write there.

    Raises:
        RuntimeError: An event loop runs on this thread.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(f"{call} blocks, and an event loop runs here, as in a notebook: {instead}")


def check_own_loop(what: str, loop: asyncio.AbstractEventLoop, instead: str) -> None:
    """Refuse a call in another event loop than the one that something runs on.

    Args:
        what: What runs.
        loop: Where it runs.
        instead: What to write instead.

    Raises:
        RuntimeError: Another event loop runs here.
    """
    if asyncio.get_running_loop() is not loop:
        state = "is closed" if loop.is_closed() else "is not the one that runs here"
        raise RuntimeError(f"{what} belongs to an event loop that {state}: {instead}")
