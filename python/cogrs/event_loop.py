"""Objects of an event loop, checks of calls to them, and a filter of what loops report."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import Any, Self


class AsyncCloseable:
    """An object of an event loop that is closed where the block of its `async with` ends."""

    @abstractmethod
    async def close(self) -> None:
        """Close it."""

    async def __aenter__(self) -> Self:
        """Return the object."""
        return self

    async def __aexit__(self, *_exc: object) -> None:
        """Close it."""
        await self.close()


def is_harmless(context: dict[str, Any]) -> bool:
    """Return whether a report is one that grpc.aio causes when a process has several event loops.

    An event wakes all of them, and one takes it; the others find nothing and report an error
    (https://github.com/grpc/grpc/issues/25364). So does an event of a loop that was closed.

    Args:
        context: The argument of the loop's exception handler.
    """
    error = context.get("exception")
    found_nothing = isinstance(error, BlockingIOError) or str(error) == "Event loop is closed"
    return found_nothing and "PollerCompletionQueue._handle_events" in repr(context.get("handle"))


def handle_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what a loop reports, as by default, but leave out harmless reports."""
    if not is_harmless(context):
        loop.default_exception_handler(context)


def check_no_loop(call: str, instead: str) -> None:
    """Refuse a blocking call on a thread that runs an event loop, with a RuntimeError.

    The error names the call, and what to use instead.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(f"{call} blocks, and an event loop runs here, as in a notebook: {instead}")


def check_own_loop(what: str, loop: asyncio.AbstractEventLoop, instead: str) -> None:
    """Refuse a call in another event loop than the one of an object, with a RuntimeError."""
    if asyncio.get_running_loop() is not loop:
        state = "is closed" if loop.is_closed() else "is not the one that runs here"
        raise RuntimeError(f"{what} belongs to an event loop that {state}: {instead}")
