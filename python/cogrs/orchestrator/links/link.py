"""What the ports to environments and to agents have in common."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from cogrs.orchestrator.engine.backlog import Backlog, Sized
from cogrs.orchestrator.engine.log import trial_logger
from cogrs.orchestrator.links.tasks import Courier, Outlet, describe, pump
from cogrs.user_errors import is_failure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from cogrs.orchestrator.links.tasks import Tasks
    from cogrs.orchestrator.links.turns import Lane

Request = TypeVar("Request", bound=Sized)
Reply = TypeVar("Reply")


class Bond(NamedTuple):
    """What a link works with."""

    tasks: Tasks
    """For the background."""
    lane: Lane
    """Whose turns those of the link are among."""
    call_timeout: float
    """Seconds for calls that tell something."""
    release: Callable[[], None]
    """Called when the component is not used any more."""


class Link(Generic[Request]):
    """One component in one trial: calls in order, and one stream."""

    def __init__(self, trial_id: str, who: str, bond: Bond, crashed: Callable[[str], None]) -> None:
        """Be ready to call.

        Args:
            trial_id: In which trial.
            who: The component, for the log.
            bond: What to work with.
            crashed: Told of errors of our own.
        """
        self._who = f"trial {trial_id}: {who}"
        self._log = trial_logger(trial_id)
        self._bond = bond
        self._crashed = crashed
        self._courier = Courier(bond.tasks, bond.lane, crashed)
        self._unsent: Backlog[Request] = Backlog()
        self._requests: Outlet[Request] = Outlet(bond.lane, self._unsent)
        self._reader: asyncio.Task[None] | None = None
        self._closing = False

    def close(self, grace: float) -> None:
        """Half-close the stream, and cancel what is left after so many seconds."""
        self._closing = True
        self._courier.do(self._half_close)
        self._courier.stop()
        self._bond.tasks.spawn(self._close(grace))

    def _read(
        self,
        replies: AsyncIterator[Reply],
        kind: type[Reply],
        take: Callable[[Reply], None],
        over: Callable[[str], None],
    ) -> None:
        """Read the stream in the background; `over` is told how it ended."""

        async def read() -> None:
            try:
                how = await pump(replies, kind, take)
            finally:
                if (close := getattr(replies, "aclose", None)) is not None:
                    await close()
            self._requests.close()
            over(how)

        self._reader = self._bond.tasks.spawn(read(), self._crashed)

    async def _tell(self, call: str, answer: Awaitable[object]) -> BaseException | None:
        """Make a call without which the trial can go on; return how it failed, if it did."""
        limit = asyncio.timeout(self._bond.call_timeout or None)
        try:
            async with limit:
                await answer
        except BaseException as error:
            if not is_failure(error):
                raise
            late = f"no answer within {self._bond.call_timeout:g} s"
            what = late if limit.expired() else describe(error)
            self._log.warning("%s: %s: %s", self._who, call, what)
            return error
        return None

    async def _half_close(self) -> None:
        self._requests.close()

    async def _close(self, grace: float) -> None:
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await asyncio.wait({self._courier.task})
                    if self._reader is not None:
                        await asyncio.wait({self._reader})
        finally:
            self._courier.task.cancel()
            if self._reader is not None:
                self._reader.cancel()
            self._bond.release()
