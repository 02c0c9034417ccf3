"""Peers of a page that mean harm: the person who plays does not notice."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from cogrs import orchestrator, sdk
from cogrs.web import Page, Place, game_of, serve_page
from tests.orchestrator.net import on_loop
from tests.web.stage import Walk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest

SLACK = 60.0
"""Seconds that nothing comes near, unless it hangs."""


class Scene:
    """A page with one place, and the person who plays there."""

    def __init__(self, port: int, player: Any, spectator: str, token: str) -> None:
        self.port, self.player, self.spectator, self.token = port, player, spectator, token
        self.url = f"ws://127.0.0.1:{port}/ws"

    async def step(self) -> int:
        """Act once; return the tick that follows."""
        await send(self.player, "action", value=1)
        return int((await until(self.player, "tick"))["tick"])


async def send(socket: Any, kind: str, **fields: Any) -> None:
    await socket.send(json.dumps({"type": kind, **fields}))


async def until(socket: Any, kind: str, **fields: Any) -> Any:
    async with asyncio.timeout(SLACK):
        async for text in socket:
            message = {} if isinstance(text, bytes) else json.loads(text)
            if message.get("type") == kind and all(message[k] == v for k, v in fields.items()):
                return message
    raise AssertionError(f"no {kind} came")


async def closed(socket: Any) -> int:
    """Wait for the close; return its code."""
    async with asyncio.timeout(SLACK):
        try:
            while True:
                await socket.recv()
        except ConnectionClosed:
            return int(socket.close_code)


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    factory = sdk.GymnasiumEnvironment.factory(lambda: Walk(10_000), frames_to=["ada"])
    ada = {"name": "ada", "actor_class": "person", "endpoint": "client"}
    params = {"environment": {"endpoint": "local://walk"}, "actors": [ada]}
    local = {"walk": sdk.local_environments({"": factory})}
    async with (
        await orchestrator.serve({"trial_params": params}, port=0, local=local) as server,
        sdk.TrialController(f"127.0.0.1:{server.port}") as controller,
        sdk.ClientActor(f"127.0.0.1:{server.port}") as client,
    ):

        async def join() -> sdk.ClientSession:
            return await client.join((await controller.start_trial()).id, name="ada")

        page, place = Page(), Place(game_of(Walk, "Walk", mode="press"), join)
        async with serve_page(page) as pages:
            token = page.invite(place)
            async with connect(f"ws://127.0.0.1:{pages.port}/ws") as player:
                await send(player, "join", token=token)
                await until(player, "tick", tick=0)
                yield Scene(pages.port, player, page.invite(place, "spectator"), token)


@on_loop
async def test_sockets_that_ask_for_nothing_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cogrs.web.server.WEB_JOIN_SECONDS", 0.2)
    async with scene() as on:
        sent = (
            b"",
            b"GET / HTTP/1.1\r\nHost: 127",
            b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET",
        )
        for start in sent:
            reader, writer = await asyncio.open_connection("127.0.0.1", on.port)
            writer.write(start)
            async with asyncio.timeout(SLACK):
                await reader.read()  # until the server closes
            writer.close()
        assert await on.step() == 1


@on_loop
async def test_sockets_beyond_the_bound_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cogrs.web.server.WEB_CONNECTIONS", 4)
    async with scene() as on, AsyncExitStack() as stack:
        for _ in range(7):  # and the player
            _, writer = await asyncio.open_connection("127.0.0.1", on.port)
            stack.callback(writer.close)
        reader, writer = await asyncio.open_connection("127.0.0.1", on.port)
        stack.callback(writer.close)
        async with asyncio.timeout(SLACK):
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
        assert await on.step() == 1


@on_loop
async def test_spectators_that_do_not_read_hold_nothing_up() -> None:
    async with scene() as on, AsyncExitStack() as stack:
        for _ in range(20):
            socket = await stack.enter_async_context(
                connect(on.url, max_queue=1, close_timeout=0.1)
            )
            await send(socket, "join", token=on.spectator)
        for tick in range(1, 20):
            assert await on.step() == tick


@on_loop
async def test_flood_and_guesses_close_their_own_connections_alone() -> None:
    async with scene() as on:
        for token, code in (("guess", 4001), (on.token, 4002), ("\ud800", 4001)):
            async with connect(on.url) as socket:
                await send(socket, "join", token=token)
                assert await closed(socket) == code
        async with connect(on.url) as socket:
            await send(socket, "join", token=on.spectator)
            for kind in ("action", "leave", "feedback"):
                await send(socket, kind, value=1, tick=1)
                assert not (await until(socket, "ack", of=kind))["ok"]
            with suppress(ConnectionClosed):
                for _ in range(1000):
                    await send(socket, "ping")
            assert await closed(socket) == 1008
        assert await on.step() == 1


@on_loop
async def test_judgement_that_waits_to_be_stored_does_not_hold_the_person_up() -> None:
    ended, stored = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def keep(trial: str, reward: sdk.Reward) -> bool:
        loop.call_soon_threadsafe(ended.set)
        return asyncio.run_coroutine_threadsafe(stored.wait(), loop).result(SLACK)

    made = sdk.GymnasiumEnvironment.factory(lambda: Walk(1), frames_to=["ada"])
    ada = {"name": "ada", "actor_class": "person", "endpoint": "client"}
    params = {"environment": {"endpoint": "local://walk"}, "actors": [ada]}
    local = {"walk": sdk.local_environments({"": made})}
    async with (
        await orchestrator.serve({"trial_params": params}, port=0, local=local) as server,
        sdk.TrialController(f"127.0.0.1:{server.port}") as controller,
        sdk.ClientActor(f"127.0.0.1:{server.port}") as client,
    ):

        async def join() -> sdk.ClientSession:
            return await client.join((await controller.start_trial()).id, name="ada")

        page, place = Page(), Place(game_of(Walk, "Walk", mode="press"), join, keep_late=keep)
        async with serve_page(page) as pages:
            url = f"ws://127.0.0.1:{pages.port}/ws"
            async with connect(url) as player:
                await send(player, "join", token=page.invite(place))
                key = (await until(player, "hello"))["session"]
                first = (await until(player, "state", state="playing"))["trial"]
                await send(player, "action", value=1)
                await until(player, "state", state="ended", trial=first)
                await send(player, "feedback", tick=1, value=1, trial=first)
                await asyncio.wait_for(ended.wait(), SLACK)
                await send(player, "ping", id=3)
                await until(player, "ack", of="ping", id=3)
            # The page was closed meanwhile: the judgement is there when it comes back.
            stored.set()
            await place.finish_judging(SLACK)
            async with connect(url) as player:
                await send(player, "join", session=key)
                assert (await until(player, "ack", of="feedback"))["stored"]
