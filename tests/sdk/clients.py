"""Client actors: a trial that they play in, and a connection that can be cut."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from cogrs import orchestrator, sdk
from tests.sdk.net import Counting, Echo

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from cogrs.orchestrator import Settings


@asynccontextmanager
async def game(
    told: Any,
    heard: Any = None,
    *,
    clients: int = 1,
    settings: Settings | None = None,
    **params: Any,
) -> AsyncIterator[tuple[orchestrator.Server, sdk.TrialController, str]]:
    """A trial's orchestrator: clients `c0`, `c1`, ... of class "human", and an agent if heard."""
    agents = {"agent": lambda: Echo(heard)} if heard is not None else None
    environments = {"env": lambda: Counting(told)}
    async with await sdk.serve(environments=environments, agents=agents) as endpoint:
        actors = [
            {"name": f"c{i}", "actor_class": "human", "endpoint": "client"} for i in range(clients)
        ]
        if heard is not None:
            actors.append({"name": "a", "actor_class": "bot", "endpoint": endpoint.address})
        trial = {"environment": {"endpoint": endpoint.address}, "actors": actors, **params}
        async with await orchestrator.serve(
            {"trial_params": trial}, port=0, settings=settings
        ) as server:
            where = f"127.0.0.1:{server.port}"
            async with sdk.TrialController(where) as controller:
                yield server, controller, where


class Line:
    """A connection that can be cut, or held up: a proxy of one port to another."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._writers: set[Any] = set()
        self.flows = asyncio.Event()
        """Cleared while what the client sends is held back."""
        self.flows.set()

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def _serve(self, reader: Any, writer: Any) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers |= {writer, far_writer}
        await asyncio.gather(_copy(reader, far_writer, self.flows), _copy(far_reader, writer))

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def close(self) -> None:
        self._server.close()
        self.cut()


async def _copy(reader: Any, writer: Any, flows: asyncio.Event | None = None) -> None:
    try:
        while data := await reader.read(65536):
            if flows is not None:
                await flows.wait()
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


def cut_off(
    seen: list[int], cut: Callable[[], Any]
) -> Callable[[sdk.ActorSession], Awaitable[None]]:
    """A player that loses its connection twice, each time before it acts."""

    async def play(session: sdk.ActorSession) -> None:
        async for event in session:
            if isinstance(event, sdk.Observation):
                seen.append(event.tick)
                if event.tick in (1, 3) and seen.count(event.tick) == 1:
                    cut()
                    continue
                await session.act(event.value)

    return play
