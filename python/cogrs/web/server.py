"""A server of a page on the running event loop: uvicorn, without its signal handlers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from typing import TYPE_CHECKING, Any, Self

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from cogrs.limits import WEB_CONNECTIONS, WEB_JOIN_SECONDS, WEB_MESSAGE_BYTES
from cogrs.listen_address import check_listener
from cogrs.tls import ServerTls
from cogrs.validation import check_kind, check_port, check_text

if TYPE_CHECKING:
    from cogrs.web.page import Page

_GRACE = 1
"""Seconds for connections to close."""


class _Quiet(uvicorn.Server):
    """Leaves signals to the program."""

    def capture_signals(self) -> Any:
        return contextlib.nullcontext()


class _BoundedHttp(H11Protocol):
    """HTTP with a bound on sockets, and on their time without a request: uvicorn has neither."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > 2 * WEB_CONNECTIONS:
            transport.abort()
        else:
            self._watch()

    def _watch(self) -> None:
        self.loop.call_later(WEB_JOIN_SECONDS, self._close_if_idle)

    def _close_if_idle(self) -> None:
        if self.transport.is_closing() or self.transport.get_protocol() is not self:
            return  # closed, or a WebSocket by now
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
        else:
            self._watch()


class PageServer:
    """A page that listens; see `serve_page`. Use it as an async context manager.

    Attributes:
        port: The port that it listens at.
    """

    def __init__(self, page: Page, listener: socket.socket, tls: ServerTls | None) -> None:
        """Hold a socket that is bound."""
        self._page = page
        self._listener = listener
        self._secure = tls is not None
        host, self.port = listener.getsockname()[:2]
        self._host = f"[{host}]" if ":" in host else host
        files: dict[str, Any] = {}
        if tls is not None:
            files = {
                "ssl_certfile": os.fspath(tls.certificate),
                "ssl_keyfile": os.fspath(tls.key),
            }
            if tls.client_ca is not None:
                files |= {"ssl_ca_certs": os.fspath(tls.client_ca), "ssl_cert_reqs": 2}
        config = uvicorn.Config(
            page.app,
            http=_BoundedHttp,
            log_config=None,
            log_level="warning",
            access_log=False,
            lifespan="off",
            server_header=False,
            ws_max_size=2 * WEB_MESSAGE_BYTES,
            ws_max_queue=32,
            ws_per_message_deflate=False,
            timeout_graceful_shutdown=_GRACE,
            **files,
        )
        self._server = _Quiet(config)
        self._serving: asyncio.Task[None] | None = None

    def url(self, token: str, host: str = "", path: str = "") -> str:
        """Return the link with a token; of the page at `path`, such as `console`."""
        scheme = "https" if self._secure else "http"
        return f"{scheme}://{host or self._host}:{self.port}/{path}#{token}"

    async def __aenter__(self) -> Self:
        """Serve; return once it answers.

        Raises:
            RuntimeError: It did not start; the log says why.
        """
        self._serving = asyncio.ensure_future(self._server.serve(sockets=[self._listener]))
        while not self._server.started:
            if self._serving.done():
                self._serving.result()
                raise RuntimeError("the page's server did not start: see the log")
            await asyncio.sleep(0.01)
        return self

    async def __aexit__(self, *_exc: object) -> None:
        """Close the page, and stop."""
        await self._page.close()
        self._server.should_exit = True
        if self._serving is not None:
            await asyncio.wait({self._serving}, timeout=_GRACE + 1)
            self._serving.cancel()
        self._listener.close()


def serve_page(
    page: Page,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    tls: ServerTls | None = None,
    insecure: bool = False,
) -> PageServer:
    """Return a server of a page, which serves while it is entered.

    Args:
        page: The page.
        host: Address to listen at; only this machine reaches the default. Others need `tls`.
        port: Port; 0 takes a free one.
        tls: Certificates; None serves without TLS.
        insecure: Let other machines in without TLS.

    Raises:
        OSError: The port is taken, or the address does not exist.
        TypeError: An argument has the wrong type.
        ValueError: The port is out of range, other machines would reach it without TLS, or a file
            of `tls` has another content than expected.
    """
    check_text("host", host)
    check_port("port", port)
    check_kind("tls", tls, ServerTls | None, "a ServerTls or None")
    check_listener("host", host, [] if tls else ["tls"], insecure=insecure)
    if tls is not None:
        tls.credentials()  # reads and checks the files
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host.strip("[]"), port))
        listener.listen(128)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return PageServer(page, listener, tls)
