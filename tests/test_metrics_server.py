"""The listener that everybody may ask for metrics, over HTTP."""

from __future__ import annotations

import socket
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest

from cogrs import limits, metrics_server, serve_orchestrator
from cogrs.orchestrator.metrics import Metrics, serve_metrics

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT = 60.0


@pytest.fixture(scope="module")
def metrics() -> Iterator[Metrics]:
    with serve_orchestrator(port=0) as running:
        yield Metrics(running)


def read_page(port: int) -> str:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=LIMIT) as page:
        return str(page.read().decode())


def closed(connection: socket.socket) -> bytes:
    """Read until the other side closes, and return what came."""
    connection.settimeout(LIMIT)
    found = b""
    try:
        while part := connection.recv(1 << 16):
            found += part
    except ConnectionError:
        pass
    return found


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.0.2.1", "a-machine.test"])
def test_metrics_beyond_the_loopback_need_insecure(metrics: Metrics, host: str) -> None:
    with (
        pytest.raises(
            ValueError, match=r"host: other machines reach .* or insecure=True"
        ) as caught,
        serve_metrics(metrics, host, 0),
    ):
        raise AssertionError("it listens")
    assert "metrics have neither TLS nor tokens" in str(caught.value)


def test_metrics_beyond_the_loopback_are_served_if_insecure(metrics: Metrics) -> None:
    with serve_metrics(metrics, "0.0.0.0", 0, insecure=True) as port:
        assert "cogrs_trials" in read_page(port)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(("127.0.0.1", 70000), "port: expected"), (("127.0.0.1", -1), "port: expected")],
)
def test_bad_arguments_are_refused_by_name(
    metrics: Metrics, arguments: tuple[Any, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words), serve_metrics(metrics, *arguments):
        raise AssertionError("it listens")


def test_connections_are_bounded_and_the_next_are_served(metrics: Metrics) -> None:
    before = threading.active_count()
    with serve_metrics(metrics, "127.0.0.1", 0) as port, ExitStack() as stack:
        idle = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), LIMIT))
            for _ in range(3 * limits.METRICS_CONNECTIONS)
        ]
        # Those beyond the limit are closed at once.
        for connection in idle[limits.METRICS_CONNECTIONS :]:
            assert closed(connection) == b""
        assert threading.active_count() <= before + 1 + limits.METRICS_CONNECTIONS
        for connection in idle[: limits.METRICS_CONNECTIONS]:
            connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert b"cogrs_trials" in closed(connection)
        assert "cogrs_trials" in read_page(port)


def test_too_large_request_is_refused(metrics: Metrics) -> None:
    with (
        serve_metrics(metrics, "127.0.0.1", 0) as port,
        socket.create_connection(("127.0.0.1", port), LIMIT) as connection,
    ):
        connection.sendall(b"GET /metrics HTTP/1.0\r\n")
        junk = b"x: " + b"y" * 1000 + b"\r\n"
        try:
            for _ in range(limits.METRICS_REQUEST_BYTES // len(junk) + 100):
                connection.sendall(junk)
        except ConnectionError:
            pass
        closed(connection)
        assert "cogrs_trials" in read_page(port)


def test_slow_request_is_ended(metrics: Metrics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_server, "METRICS_SECONDS", 0.2)
    with (
        serve_metrics(metrics, "127.0.0.1", 0) as port,
        socket.create_connection(("127.0.0.1", port), LIMIT) as connection,
    ):
        connection.sendall(b"GET /met")
        assert b"cogrs_trials" not in closed(connection)


def test_close_ends_connections(metrics: Metrics) -> None:
    with serve_metrics(metrics, "127.0.0.1", 0) as port:
        connection = socket.create_connection(("127.0.0.1", port), LIMIT)
        connection.sendall(b"GET /met")
    with connection:
        closed(connection)
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), LIMIT)
