"""Workers and proxies on the caller's own threads."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import zmq

from cogrs import Bind, Conn, ReplayMemoryClient, ReplayMemoryServer
from tests.replay import build, network
from tests.replay.network import LOOPBACK, SLACK, Call, arrived, connected, eventually, made


@contextmanager
def working(server: ReplayMemoryServer, *calls: Any) -> Iterator[None]:
    """Run calls on threads until the server is closed; each has to return None then."""
    running = [Call(call) for call in calls]
    try:
        yield
        for each in running:
            assert each.blocks(0)
    finally:
        server.close()
        for each in running:
            assert each.result() is None


def assert_serves(server: ReplayMemoryServer, *clients: ReplayMemoryClient) -> None:
    before = server.total_caches
    for client in clients:
        build.add_uniform(client.rem, 5)
        for _ in range(10):
            client.update_counter()
            assert client.push_cache() == 0
    arrived(server, before + 10 * len(clients))
    assert server.total_episodes == len(clients)
    network.assert_consistent(server.get_batch(8, wait=SLACK))


def test_workers_that_bind_report_their_endpoint() -> None:
    server = made(1)
    with working(
        server,
        lambda: server.rep_worker_main(LOOPBACK, Bind),
        lambda: server.pull_worker_main(LOOPBACK, "Bind"),
    ):
        eventually(lambda: server.rep_endpoint and server.pull_endpoint)
        with connected(server) as client:
            assert_serves(server, client)


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_behind_proxies(workers: int) -> None:
    server = made(1)
    rep_back, pull_back = network.unused_endpoints(2)
    each_worker = [
        lambda: server.rep_worker_main(rep_back, Conn),
        lambda: server.pull_worker_main(pull_back, "Conn"),
    ]
    with working(
        server,
        *each_worker * workers,
        lambda: server.rep_proxy_main(LOOPBACK, rep_back),
        lambda: server.pull_proxy_main(LOOPBACK, pull_back),
    ):
        eventually(lambda: server.rep_endpoint and server.pull_endpoint)
        assert rep_back != server.rep_endpoint
        with connected(server) as client, connected(server) as other:
            assert_serves(server, client, other)


def test_worker_of_one_server_may_serve_behind_the_proxy_of_another() -> None:
    front, server = made(1), made(1)
    rep_back, pull_back = network.unused_endpoints(2)
    with (
        working(
            front,
            lambda: front.rep_proxy_main(LOOPBACK, rep_back),
            lambda: front.pull_proxy_main(LOOPBACK, pull_back),
        ),
        working(
            server,
            lambda: server.rep_worker_main(rep_back, Conn),
            lambda: server.pull_worker_main(pull_back, Conn),
        ),
    ):
        eventually(lambda: front.rep_endpoint and front.pull_endpoint)
        with connected(front) as client:
            assert_serves(server, client)


def test_client_may_push_to_workers_that_bind_beside_each_other() -> None:
    with made(1).start() as server:
        first = server.pull_endpoint
        server.start()
        at = (server.pub_endpoint, server.rep_endpoint, [first, server.pull_endpoint])
        assert first != server.pull_endpoint
        with ReplayMemoryClient(*at, max_step=16) as client:
            assert_serves(server, client)


@pytest.mark.parametrize("kind", ["rep", "pull"])
def test_second_bind_at_an_endpoint_is_refused_with_a_word_about_proxies(kind: str) -> None:
    with made().start() as server:
        endpoint = getattr(server, f"{kind}_endpoint")
        with pytest.raises(OSError, match=f"{endpoint}.*{kind}_proxy_main"):
            getattr(server, f"{kind}_worker_main")(endpoint, Bind)


@pytest.mark.parametrize("kind", ["rep", "pull"])
@pytest.mark.parametrize("mode", ["bind", "Connect", "", None, 1])
def test_other_modes_are_refused(kind: str, mode: Any) -> None:
    with made() as server, pytest.raises(ValueError, match=r"^mode"):
        getattr(server, f"{kind}_worker_main")(LOOPBACK, mode)


@pytest.mark.parametrize("kind", ["rep", "pull"])
def test_worker_in_mode_conn_refuses_a_wildcard_endpoint(kind: str) -> None:
    with made() as server, pytest.raises(ValueError, match=r"^endpoint: expected"):
        getattr(server, f"{kind}_worker_main")(LOOPBACK, Conn)


@pytest.mark.parametrize("kind", ["rep", "pull"])
@pytest.mark.parametrize("bad", ["front_ep", "back_ep"])
def test_proxy_names_an_invalid_endpoint(kind: str, bad: str) -> None:
    given = {"front_ep": LOOPBACK, "back_ep": LOOPBACK} | {bad: "nowhere"}
    with made() as server, pytest.raises(ValueError, match=f"^{bad}: expected"):
        getattr(server, f"{kind}_proxy_main")(**given)


@pytest.mark.parametrize("kind", ["rep", "pull"])
def test_proxy_with_an_occupied_back_endpoint_frees_its_front_endpoint(kind: str) -> None:
    (front,) = network.unused_endpoints(1)
    with made() as server, made() as other:
        with pytest.raises(OSError, match="back_ep"):
            getattr(server, f"{kind}_proxy_main")(front, other.pub_endpoint)
        network.once_free(lambda: made(pub_endpoint=front)).close()


def test_server_endpoints_are_the_fronts_of_its_proxies() -> None:
    server = made()
    rep, rep_back, pull, pull_back = network.unused_endpoints(4)
    with working(
        server,
        lambda: server.rep_proxy_main(rep, rep_back),
        lambda: server.pull_proxy_main(pull, pull_back),
    ):
        eventually(lambda: (server.rep_endpoint, server.pull_endpoint) == (rep, pull))


def test_proxy_without_workers_keeps_requests_until_there_is_one() -> None:
    server = made()
    rep_back, pull_back = network.unused_endpoints(2)
    with working(
        server,
        lambda: server.rep_proxy_main(LOOPBACK, rep_back),
        lambda: server.pull_proxy_main(LOOPBACK, pull_back),
    ):
        eventually(lambda: server.rep_endpoint and server.pull_endpoint)
        with connected(server, None, timeout=60) as client:
            asks = Call(lambda: client.sync_sizes(8))
            assert asks.blocks()
            worker = Call(lambda: server.rep_worker_main(rep_back, Conn))
            asks.result()
            assert client.rem.max_step == 8
    worker.result()


def test_hostile_messages_pass_a_proxy_and_stop_there() -> None:
    server = made(1)
    rep_back, pull_back = network.unused_endpoints(2)
    with working(
        server,
        lambda: server.rep_worker_main(rep_back, Conn),
        lambda: server.pull_worker_main(pull_back, Conn),
        lambda: server.rep_proxy_main(LOOPBACK, rep_back),
        lambda: server.pull_proxy_main(LOOPBACK, pull_back),
    ):
        eventually(lambda: server.rep_endpoint and server.pull_endpoint)
        with network.raw(zmq.PUSH, server.pull_endpoint) as socket:
            socket.send_multipart([b"garbage"] * 3000)
            socket.send(bytes(64 << 20))
            eventually(lambda: server.total_refused == 1)
        with network.raw(zmq.DEALER, server.rep_endpoint) as socket:
            socket.send(b"no envelope")
            socket.send_multipart([b""] * 3000)
            socket.send_multipart([b"", b"garbage"])
            assert socket.recv_multipart()[0] == b""
        with connected(server) as client:
            assert_serves(server, client)
