"""The components of one service, and the streams to them.

Nothing stays: what leaves the table without an end is told `lost`, in a task of its own, since the
call that notices is often being cancelled. A start whose stream never opens goes by a timer, an
orchestrator that vanished by keepalive pings, everything else when the server stops. A method that
does not return by then is named in the log and left behind (`cogrs.hung_calls`).

Everything here runs on one event loop, without locks.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from grpc import StatusCode

from cogrs.hung_calls import cancel_tasks, wait_running
from cogrs.sdk.call_error import CallError
from cogrs.sdk.hosted_component import HostedComponent, component_name
from cogrs.threads import ThreadPool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_logger = logging.getLogger("cogrs.sdk")

Request = TypeVar("Request")
Reply = TypeVar("Reply")
AnyComponent = TypeVar("AnyComponent", bound="HostedComponent[Any]")

_PATIENCE = 10.0
"""Seconds after which the log says that a method of a lost component still runs."""

_LEAST = 0.2
"""Seconds that `lost` gets in any case when a server stops."""


class ComponentTable(Generic[AnyComponent]):
    """The components of one service, by trial and actor."""

    def __init__(self, stream_timeout: float, threads: str) -> None:
        """Create an empty table; a started component has `stream_timeout` seconds for a stream."""
        self._stream_timeout = stream_timeout
        self.threads = ThreadPool(threads)
        self._components: dict[tuple[str, ...], AnyComponent] = {}
        self._timers: dict[tuple[str, ...], asyncio.TimerHandle] = {}
        self._open: set[AnyComponent] = set()
        """All that may still have to be lost, in the table or not."""
        self._losing: dict[AnyComponent, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        """Return the number of components."""
        return len(self._components)

    def add(self, key: tuple[str, ...], component: AnyComponent) -> None:
        """Keep a component; a CallError if its key is taken."""
        if key in self._components:
            raise CallError(StatusCode.ALREADY_EXISTS, f"{component.label} is already served here")
        self._components[key] = component
        self.open(component)

    def open(self, component: AnyComponent) -> None:
        """Keep a component that has no key, until it is lost."""
        self._open.add(component)

    def expect_stream(self, key: tuple[str, ...]) -> None:
        """Free a component if its stream does not open in time."""
        if key in self._components:
            loop = asyncio.get_running_loop()
            self._timers[key] = loop.call_later(self._stream_timeout, self._forget, key)

    def open_stream(self, key: tuple[str, ...]) -> AnyComponent:
        """Return the component whose stream opens; a CallError if it has one already."""
        component = self.get(key)
        timer = self._timers.pop(key, None)
        if timer is None:
            raise CallError(StatusCode.ALREADY_EXISTS, f"{component.label} has a stream already")
        timer.cancel()
        return component

    def get(self, key: tuple[str, ...]) -> AnyComponent:
        """Return a component; a CallError if it is not here."""
        if key not in self._components:
            raise CallError(StatusCode.NOT_FOUND, f"{component_name(*key)} is not served here")
        return self._components[key]

    def take(self, key: tuple[str, ...]) -> AnyComponent:
        """Remove and return a component, which the caller has to `lose`."""
        component = self.get(key)
        del self._components[key]
        if timer := self._timers.pop(key, None):
            timer.cancel()
        return component

    def free(self, key: tuple[str, ...]) -> None:
        """Lose a component, if it is still here."""
        if key in self._components:
            self.lose(self.take(key))

    def lose(self, component: AnyComponent) -> None:
        """Give a component up, unless it has ended; the caller may be cancelled meanwhile."""
        if component in self._open and component not in self._losing:
            task = self._losing[component] = asyncio.ensure_future(self._lose(component))
            task.add_done_callback(lambda _: self._close(component))

    async def _lose(self, component: AnyComponent) -> None:
        late = asyncio.get_running_loop().call_later(_PATIENCE, self._report_late, component)
        try:
            await component.lose()
        finally:
            late.cancel()

    def _close(self, component: AnyComponent) -> None:
        self._losing.pop(component, None)
        self._open.discard(component)
        component.close()

    async def close(self, grace: float) -> None:
        """Lose all components, waiting `grace` seconds, 0.2 at least, for their methods.

        Those that do not return are cancelled, named and left behind.
        """
        for key in list(self._components):
            self.free(key)
        for component in self._open:
            self.lose(component)
        if self._losing:
            await wait_running(self._losing.values(), max(grace, _LEAST))
            await self._leave([each for each, task in self._losing.items() if not task.done()])
        self.threads.close()

    async def _leave(self, late: list[AnyComponent]) -> None:
        for component in late:
            self._report_late(component)
        await cancel_tasks([task for each in late if (task := each.task)])
        losing = [task for each in late if (task := self._losing.get(each))]
        await cancel_tasks(losing)
        for component in late:
            self._close(component)

    def _report_late(self, component: AnyComponent) -> None:
        if not component.reported_late:
            component.reported_late = True
            what = component.unfinished or "its last call"
            _logger.warning("%s: %s does not return and is abandoned", component.label, what)

    def _forget(self, key: tuple[str, ...]) -> None:
        who, seconds = self._components[key].label, self._stream_timeout
        _logger.warning("%s: nobody opened its stream within %g s", who, seconds)
        self.free(key)


class ResponseStream(Generic[Request, Reply]):
    """The replies of a component to requests; it is freed when the stream is over.

    Not a generator: a loop that ends cannot close one in which a method is under way.
    """

    def __init__(
        self,
        components: ComponentTable[Any],
        key: tuple[str, ...],
        requests: AsyncIterator[Request],
    ) -> None:
        """Open the stream of a component at the first reply."""
        self._components = components
        self._key = key
        self._requests = requests
        self._component: Any = None
        self._over = False

    def __aiter__(self) -> Self:
        """Return the replies."""
        return self

    async def __anext__(self) -> Reply:
        """Return the next reply; a CallError if the component is not here, or failed."""
        if self._over:
            raise StopAsyncIteration
        if self._component is None:
            self._component = self._components.open_stream(self._key)
        try:
            reply: Reply | None = None
            if not self._component.over:
                reply = await self._component.answer(await anext(self._requests))
        except BaseException:
            await self.aclose()
            raise
        if reply is None:
            await self.aclose()
            raise StopAsyncIteration
        return reply

    async def aclose(self) -> None:
        """Free the component, if it was opened."""
        if self._component is not None and not self._over:
            self._components.free(self._key)
        self._over = True
