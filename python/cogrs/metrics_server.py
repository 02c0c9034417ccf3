"""Serves metrics over HTTP, with bounds on connections, bytes and time.

A thread accepts connections, and each connection has a thread; `_lock` guards the open ones.
"""

from __future__ import annotations

import io
import socket
import threading
import time
from contextlib import contextmanager, suppress
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from cogrs.limits import METRICS_CONNECTIONS, METRICS_REQUEST_BYTES, METRICS_SECONDS
from cogrs.listen_address import check_listener
from cogrs.validation import check_flag, check_port, check_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from wsgiref.types import WSGIApplication

_LOOPBACK = "an address of the loopback, since metrics have neither TLS nor tokens"


class _Bounded(io.RawIOBase):
    """The first bytes of a connection, up to the limit."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._left = METRICS_REQUEST_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        room = memoryview(buffer)[: self._left]
        read = self._connection.recv_into(room) if room else 0
        self._left -= read
        return read


class _Handler(WSGIRequestHandler):
    def setup(self) -> None:
        super().setup()
        self.rfile = io.BufferedReader(_Bounded(self.connection))

    def log_message(self, *_args: object) -> None:
        """Log no requests."""


class _Server(ThreadingMixIn, WSGIServer):
    """A thread per connection, for a limited number of connections and time."""

    daemon_threads = True
    request_queue_size = 4 * METRICS_CONNECTIONS

    def __init__(self, *args: Any, **named: Any) -> None:
        self._since: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        super().__init__(*args, **named)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection on a thread, or close it at once if there are too many."""
        with self._lock:
            full = len(self._since) >= METRICS_CONNECTIONS
            if not full:
                self._since[request] = time.monotonic()
        if full:
            super().shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # the system has no more threads
            self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._since.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """End connections that are open for too long; called every half a second."""
        self._end(time.monotonic() - METRICS_SECONDS)

    def server_close(self) -> None:
        super().server_close()
        self._end(float("inf"))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing about broken connections."""

    def _end(self, before: float) -> None:
        with self._lock:
            late = [request for request, since in self._since.items() if since <= before]
            for request in late:
                # Its thread closes it, once its read or write fails.
                with suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)


@contextmanager
def serve_app(
    app: WSGIApplication, host: str, port: int, *, insecure: bool, consent: str
) -> Iterator[int]:
    """Serve a WSGI application while the block runs; yield the port. Raises as `serve_metrics`."""
    check_text("host", host)
    check_flag("insecure", insecure)
    check_listener("host", host, [_LOOPBACK], insecure=insecure, consent=consent)
    try:
        server = make_server(host, check_port("port", port), app, _Server, handler_class=_Handler)
    except OSError as error:
        raise OSError(f"metrics: cannot listen at {host}:{port}: {error}") from error
    thread = threading.Thread(target=server.serve_forever, name="cogrs-metrics", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
