"""The base of the ports to environments and to agents: calls in order, and one stream."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from cogrs.orchestrator.engine.backlog import Backlog, Sized
from cogrs.orchestrator.engine.log import logger, trial_logger
from cogrs.orchestrator.links.component import checked, describe
from cogrs.orchestrator.links.queues import AsyncQueue, SerialTaskQueue
from cogrs.user_errors import is_failure

if TYPE_CHECKING:
    import logging
    from collections.abc import AsyncIterator, Awaitable, Callable

    from cogrs.orchestrator.links.background_tasks import BackgroundTasks
    from cogrs.orchestrator.links.cooperative_scheduler import RunQueue

Request = TypeVar("Request", bound=Sized)
Reply = TypeVar("Reply")


class LinkContext(NamedTuple):
    """The parts that a link works with."""

    tasks: BackgroundTasks
    run_queue: RunQueue
    """Resumes the tasks of the trial."""
    call_timeout: float
    """Seconds for calls without which the trial can go on, such as OnReward."""
    release: Callable[[], None]
    """Called when the component is not used any more."""


class Link(Generic[Request]):
    """One component in one trial."""

    def __init__(
        self, trial_id: str, label: str, context: LinkContext, crashed: Callable[[str], None]
    ) -> None:
        """Start the task that makes calls; `crashed` is called with errors of our own code."""
        self._label = f"trial {trial_id}: {label}"
        self._log = trial_logger(trial_id)
        self._context = context
        self._crashed = crashed
        self._calls = SerialTaskQueue(context.tasks, context.run_queue, crashed)
        self._unsent: Backlog[Request] = Backlog()
        self._requests: AsyncQueue[Request] = AsyncQueue(context.run_queue, self._unsent)
        self._reader: asyncio.Task[None] | None = None
        self._closing = False

    def close(self, grace: float) -> None:
        """Half-close the stream, and cancel what is left after `grace` seconds."""
        self._closing = True
        self._calls.put(self._half_close)
        self._calls.close()
        self._context.tasks.spawn(self._close(grace))

    def _read(
        self,
        replies: AsyncIterator[Reply],
        kind: type[Reply],
        take: Callable[[Reply], None],
        over: Callable[[str], None],
    ) -> None:
        """Read the stream in the background; call `over` with how it ended."""

        async def read() -> None:
            try:
                how = await _take_all(replies, kind, take)
            finally:
                if (close := getattr(replies, "aclose", None)) is not None:
                    await close()
            self._requests.close()
            over(how)

        self._reader = self._context.tasks.spawn(read(), self._crashed)

    async def _tell(self, call: str, answer: Awaitable[object]) -> BaseException | None:
        """Make a call without which the trial can go on; log and return its failure, if any."""
        return await tell(f"{self._label}: {call}", answer, self._context.call_timeout, self._log)

    async def _half_close(self) -> None:
        self._requests.close()

    async def _close(self, grace: float) -> None:
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await asyncio.wait({self._calls.task})
                    if self._reader is not None:
                        await asyncio.wait({self._reader})
        finally:
            self._calls.task.cancel()
            if self._reader is not None:
                self._reader.cancel()
            self._context.release()


async def _take_all(
    stream: AsyncIterator[Reply], kind: type[Reply], take: Callable[[Reply], None]
) -> str:
    """Take what a component sends until its stream is over, and return how it ended."""
    while True:
        try:
            item = checked(await anext(stream), kind)
        except StopAsyncIteration:
            return "its stream is over"
        except BaseException as error:
            if not is_failure(error):
                raise
            return describe(error)
        take(item)


async def tell(
    label: str,
    answer: Awaitable[object],
    call_timeout: float,
    log: logging.Logger | logging.LoggerAdapter[logging.Logger] = logger,
) -> BaseException | None:
    """Make a call without which all else can go on; log and return its failure, if any."""
    limit = asyncio.timeout(call_timeout or None)
    try:
        async with limit:
            await answer
    except BaseException as error:
        if not is_failure(error):
            raise
        late = f"no answer within {call_timeout:g} s"
        log.warning("%s: %s", label, late if limit.expired() else describe(error))
        return error
    return None
