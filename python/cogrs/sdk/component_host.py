"""What the hosts of environments, agents, hooks and data logs have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from cogrs.sdk.component_table import AnyComponent, ComponentTable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Reply = TypeVar("Reply")


class ComponentHost(Generic[AnyComponent]):
    """What an orchestrator calls of one service. Its methods are those of `local://` components.

    They raise `CallError` for a component that is not served here, or is served already, for an
    unknown implementation, and for each exception of the user's code.
    """

    def __init__(self, threads: str, stream_timeout: float = 0.0) -> None:
        """Host nothing yet; see `ComponentTable`."""
        self.components: ComponentTable[AnyComponent] = ComponentTable(stream_timeout, threads)

    async def _start(
        self, key: tuple[str, ...], component: AnyComponent, start: Callable[[], Awaitable[Reply]]
    ) -> Reply:
        """Keep a component and start it; its stream has to follow."""
        self.components.add(key, component)
        try:
            reply = await start()
        except BaseException:
            self.components.free(key)
            raise
        self.components.expect_stream(key)
        return reply

    async def _end(
        self, key: tuple[str, ...], end: Callable[[AnyComponent], Awaitable[Reply]]
    ) -> Reply:
        """Bring a component to its end, and free it."""
        component = self.components.take(key)
        try:
            return await end(component)
        finally:
            self.components.lose(component)

    async def close(self, grace: float = 1.0) -> None:
        """Lose what is under way, within about so many seconds."""
        await self.components.close(grace)

    on_stop = close
