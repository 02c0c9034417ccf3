"""What event loops complain of though nothing is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio


def is_noise(context: dict[str, Any]) -> bool:
    """Return whether a loop complains of what grpc.aio does when a process has several loops.

    Each of them is woken for an event that one of them takes; the other finds nothing, and tells
    (https://github.com/grpc/grpc/issues/25364). An event that belongs to a loop which is closed
    by now is told of, too.

    Args:
        context: As the loop gives it to its exception handler.
    """
    error = context.get("exception")
    found_nothing = isinstance(error, BlockingIOError) or str(error) == "Event loop is closed"
    return found_nothing and "PollerCompletionQueue._handle_events" in repr(context.get("handle"))


def leave_out(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Handle what a loop complains of as it would by itself, except for noise."""
    if not is_noise(context):
        loop.default_exception_handler(context)
