"""The page as an ASGI app: a few files, and the WebSocket by which it plays."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute

from cogrs.limits import WEB_CONNECTIONS
from cogrs.web.connection import Connection
from cogrs.web.console_connection import ConsoleConnection
from cogrs.web.origin import Origin
from cogrs.web.seats import Seats

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from starlette.requests import Request
    from starlette.websockets import WebSocket

    from cogrs.web.console import Console
    from cogrs.web.place import Place
    from cogrs.web.seats import Role

_FILES = {
    "/": ("page.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
}

_CONSOLE_FILES = {
    "/console": ("console.html", "text/html"),
    "/console.js": ("console.js", "text/javascript"),
    "/console.css": ("console.css", "text/css"),
    "/recording.js": ("recording.js", "text/javascript"),
}

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' blob: data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


_GRACE = 1.0
"""Seconds in which judgements are sent before the clients of an app are closed."""


class Page:
    """Places for people, and the app that serves them.

    Attributes:
        app: The ASGI app. It may be mounted in another one.
        console: What operators see at `/console`; None for no such page.
    """

    def __init__(self, hosts: Sequence[str] = (), *, console: Console | None = None) -> None:
        """Create a page without places.

        Args:
            hosts: Names under which browsers may reach it, besides those of the loopback.
            console: What operators see at `/console`; None for no such page.
        """
        self.console = console
        self.seats = Seats()
        self._origin = Origin(hosts)
        self._connections: set[Connection] = set()
        self._running: dict[Place, asyncio.Task[None]] = {}
        self._closers: list[Callable[[], Awaitable[Any]]] = []
        sockets = [WebSocketRoute("/ws", self._connect)]
        self._files = dict(_FILES)
        if console is not None:
            self._files |= _CONSOLE_FILES
            sockets.append(WebSocketRoute("/console/ws", self._connect_console))
        routes = [Route(path, self._send_file) for path in self._files]
        self.app = Starlette(routes=[*routes, *sockets])
        self.app.state.page = self

    def invite(self, place: Place, role: Role = "player") -> str:
        """Return a token for a place: for one join, or for any number of spectators.

        A link has it in its fragment: `http://127.0.0.1:8000/#TOKEN`.
        """
        return self.seats.invite(place, role)

    def start(self, place: Place) -> None:
        """Play the trials of a place, from now on; a second call does nothing."""
        if place not in self._running:
            self._running[place] = asyncio.ensure_future(place.run())

    def add_closer(self, closer: Callable[[], Awaitable[Any]]) -> None:
        """Call a function when the page closes, such as the `close` of a client."""
        self._closers.append(closer)

    async def close(self) -> None:
        """End all places, close all connections, and call the closers."""
        for connection in list(self._connections):
            connection.end(1001, "the server stops")
        for task in self._running.values():
            task.cancel()
        if self._running:
            await asyncio.wait(self._running.values())
        if self._closers:
            judging = [place.finish_judging(_GRACE) for place in self._running]
            await asyncio.gather(*judging)
        while self._closers:
            await self._closers.pop()()

    async def _send_file(self, request: Request) -> Response:
        if (fault := self._origin.find_fault(request)) is not None:
            return PlainTextResponse(fault, 403, _HEADERS)
        name, kind = self._files[
            request.scope["path"].removeprefix(request.scope["root_path"]) or "/"
        ]
        content = (files("cogrs.web") / "static" / name).read_bytes()
        return Response(content, media_type=f"{kind}; charset=utf-8", headers=_HEADERS)

    async def _connect(self, socket: WebSocket) -> None:
        await self._serve(Connection(socket, self.seats, self.start), socket)

    async def _connect_console(self, socket: WebSocket) -> None:
        assert self.console is not None
        await self._serve(ConsoleConnection(socket, self.console), socket)

    async def _serve(self, connection: Connection, socket: WebSocket) -> None:
        fault = self._origin.find_fault(socket)
        if fault is not None:
            await socket.close(1008, fault)
            return
        self._connections.add(connection)
        try:
            with suppress(ConnectionError):
                await connection.serve(crowded=self.crowded)
        finally:
            self._connections.discard(connection)

    @property
    def crowded(self) -> bool:
        """Whether there are too many connections."""
        return len(self._connections) > WEB_CONNECTIONS
