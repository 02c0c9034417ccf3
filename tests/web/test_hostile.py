"""Peers of a page that mean harm: the person who plays does not notice."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from tests.orchestrator.net import on_loop
from tests.web.scene import scene
from tests.web.sockets import SLACK, closed, send, until
from tests.web.walk import Walk

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest

    from cogrs import sdk
    from tests.web.scene import Scene


class Played:
    """A page with one place, and the person who plays there."""

    def __init__(self, on: Scene, player: Any, token: str) -> None:
        self.player, self.token, self.url = player, token, on.socket
        self.console = on.socket.replace("/ws", "/console/ws")
        assert on.page.console is not None
        self.invite_operator = on.page.console.invite
        self.port, self.spectator = on.pages.port, on.page.invite(on.place, "spectator")

    async def step(self) -> int:
        """Act once; return the tick that follows."""
        await send(self.player, "action", value=1)
        return int((await until(self.player, "tick"))["tick"])

    @asynccontextmanager
    async def operator(self) -> AsyncIterator[Any]:
        """Connect as an operator."""
        async with connect(self.console) as socket:
            await send(socket, "join", token=self.invite_operator())
            await until(socket, "console")
            yield socket


@asynccontextmanager
async def played() -> AsyncIterator[Played]:
    async with scene(lambda: Walk(10_000), mode="press") as on:
        token = on.page.invite(on.place)
        async with connect(on.socket) as player:
            await send(player, "join", token=token)
            await until(player, "tick", tick=0)
            yield Played(on, player, token)


@on_loop
async def test_sockets_that_ask_for_nothing_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cogrs.web.server.WEB_JOIN_SECONDS", 0.2)
    async with played() as on:
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
    async with played() as on, AsyncExitStack() as stack:
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
    async with played() as on, AsyncExitStack() as stack:
        for _ in range(20):
            socket = await stack.enter_async_context(connect(on.url, max_queue=1))
            stack.callback(socket.transport.abort)  # it would wait for what it does not read
            await send(socket, "join", token=on.spectator)
        for tick in range(1, 20):
            assert await on.step() == tick


@on_loop
async def test_flood_and_guesses_close_their_own_connections_alone() -> None:
    async with played() as on:
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

    async with scene(lambda: Walk(1), mode="press", place={"keep_late": keep}) as on:
        async with connect(on.socket) as player:
            await send(player, "join", token=on.page.invite(on.place))
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
        await on.place.finish_judging(SLACK)
        async with connect(on.socket) as player:
            await send(player, "join", session=key)
            assert (await until(player, "ack", of="feedback"))["stored"]


MALFORMED = [
    b"\x01\x02",
    "",
    "[1]",
    '{"type": 3}',
    '{"type": "terminate"}',
    '{"type": "terminate", "trial": 3}',
    '{"type": "show", "trial": "x", "tick": -1}',
    '{"type": "list", "until": NaN}',
    '{"type": "open", "trial": "' + "x" * 201 + '"}',
    '{"type": "action", "value": 1}',
    '{"type": "join", "token": "x"}',
    '{"type": "ping", "pad": "' + "x" * 20_000 + '"}',
    "[" * 10_000,
]


@on_loop
async def test_malformed_messages_close_the_console_of_their_sender_alone() -> None:
    async with played() as on, on.operator() as operator:
        for text in MALFORMED:
            async with on.operator() as other:
                await other.send(text)
                assert await closed(other) in (1008, 1009), text
            # Without a token nothing is even read.
            async with connect(on.console) as stranger:
                await stranger.send(text)
                assert await closed(stranger) in (1008, 1009, 4001), text
        assert await on.step() == 1
        await until(operator, "report")


@on_loop
async def test_guessed_tokens_of_operators_end_no_trial() -> None:
    async with played() as on:
        for token in ("guess", "", on.token, on.spectator, "\ud800", "x" * 200):
            async with connect(on.console) as socket:
                await send(socket, "join", token=token)
                await send(socket, "terminate", trial="any")
                assert await closed(socket) == 4001
        assert await on.step() == 1


@on_loop
async def test_flood_of_an_operator_closes_that_console_alone() -> None:
    async with played() as on, on.operator() as operator, on.operator() as flooding:
        with suppress(ConnectionClosed):
            for number in range(1000):
                await send(flooding, ("ping", "list", "open")[number % 3], trial="x")
        assert await closed(flooding) == 1008
        assert await on.step() == 1
        await until(operator, "report")
