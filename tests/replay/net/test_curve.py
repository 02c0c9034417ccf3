"""Servers and clients with keys: connections that are accepted and refused."""

import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import zmq

from cogrs import Conn, KeyPair, ReplayMemoryClient, ReplayMemoryServer
from cogrs.replay.net.key_folder import KeyFolder
from tests.replay import build, network
from tests.replay.network import (
    LOOPBACK,
    SLACK,
    Call,
    arrived,
    connected,
    eventually,
    made,
    our_threads,
    restarted,
    started,
)

SERVER, CLIENT, OTHER, STRANGER = (KeyPair.new() for _ in range(4))
KEYS: dict[str, Any] = {"key": CLIENT, "server_key": SERVER.public}
SAFE: dict[str, Any] = {"key": SERVER, "allow": [CLIENT.public, OTHER.public]}


def assert_served(server: ReplayMemoryServer, client: ReplayMemoryClient) -> None:
    """All that a client does is done."""
    before, episodes = server.total_caches, server.total_episodes
    client.sync_sizes(64)
    build.add_uniform(client.rem, 20)
    client.update_counter()
    assert server.total_episodes > episodes
    assert client.push_cache() == 0
    arrived(server, before + 1)
    server.pub_bytes("model", b"weights")
    assert client.sub_bytes("model", timeout=SLACK, last=True) == b"weights"


def assert_refused(server: ReplayMemoryServer, **keys: Any) -> None:
    """Nothing that a client does is done, and it learns where and why."""
    sub, req, push = network.endpoints(server)
    with ReplayMemoryClient(sub, req, push, timeout=1.5, **keys) as client:
        with pytest.raises(TimeoutError, match=rf"sync_sizes: .*{req}.* keys?\b"):
            client.sync_sizes(64)
        with pytest.raises(TimeoutError, match=rf"sub_bytes: .*{sub}.* keys?\b"):
            client.sub_bytes("model", timeout=1.5, last=True)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "cogrs.replay"]


# -- who has the right keys --


def test_client_in_the_list_is_served() -> None:
    with started(1, **SAFE) as server, connected(server, None, **KEYS) as client:
        assert_served(server, client)
        other = {"key": OTHER, "server_key": SERVER.public}
        with connected(server, **other) as second:
            assert_served(server, second)
        server.set_logfile("/dev/null", "w")
        client.write_log("line")


def test_keys_are_read_from_files_and_folders(tmp_path: Any) -> None:
    server_public, server_secret = SERVER.save("server", tmp_path)
    allowed = tmp_path / "allowed"
    public, _ = CLIENT.save("client", allowed)
    secret = allowed / "client.key_secret"
    for allow in (allowed, str(allowed), [public], [str(public)]):
        with (
            started(1, key=str(server_secret), allow=allow) as server,
            connected(server, None, key=secret, server_key=server_public) as client,
        ):
            assert_served(server, client)


def test_key_that_comes_into_the_folder_later(tmp_path: Any) -> None:
    with started(1, key=SERVER, allow=tmp_path) as server:
        assert_refused(server, **KEYS)
        CLIENT.save("client", tmp_path)
        with connected(server, None, **KEYS) as client:
            assert_served(server, client)


def test_others_are_answered_while_a_folder_is_read(tmp_path: Any, monkeypatch: Any) -> None:
    CLIENT.save("client", tmp_path)
    reads, goes_on = threading.Event(), threading.Event()
    read = KeyFolder.has

    def slow(folder: KeyFolder, key: bytes, asked_at: float) -> bool:
        reads.set()
        goes_on.wait(3 * SLACK)
        return read(folder, key, asked_at)

    with started(1, key=SERVER, allow=tmp_path) as server:
        with connected(server, **KEYS):
            pass
        monkeypatch.setattr(KeyFolder, "has", slow)
        late = {"key": OTHER, "server_key": SERVER, "timeout": 3 * SLACK}
        newcomer = Call(lambda: connected(server, **late).close())
        assert reads.wait(SLACK)
        with connected(server, **KEYS) as client:
            assert_served(server, client)
        OTHER.save("other", tmp_path)
        goes_on.set()
        newcomer.result(within=3 * SLACK)


def test_subscriber_that_was_refused_is_taken_later(tmp_path: Any) -> None:
    """Its connection is tried again, without a new client."""
    with started(1, key=SERVER, allow=tmp_path) as server:
        server.pub_bytes("model", b"weights")
        with connected(server, None, **KEYS) as client:
            with pytest.raises(TimeoutError):
                client.sub_bytes("model", timeout=1.5, last=True)
            CLIENT.save("client", tmp_path)
            assert client.sub_bytes("model", timeout=2 * SLACK, last=True) == b"weights"


def test_messages_on_the_network_are_encrypted() -> None:
    word = b"a word that nobody else may read"
    for keys, safe in (({}, {}), (KEYS, SAFE)):
        with started(1, **safe) as server, wire(server.pub_endpoint) as (endpoint, seen):
            _, req, push = network.endpoints(server)
            with ReplayMemoryClient(endpoint, req, push, **keys) as client:
                server.pub_bytes("model", word)
                assert client.sub_bytes("model", timeout=SLACK, last=True) == word
            assert (word in b"".join(seen)) == (not safe)


@contextmanager
def wire(to: str) -> Iterator[tuple[str, list[bytes]]]:
    """An endpoint that passes one connection on to another, and what goes over it."""
    seen: list[bytes] = []
    host, port = to.removeprefix("tcp://").split(":")
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

        def copy(one: socket.socket, other: socket.socket) -> None:
            try:
                while data := one.recv(65536):
                    seen.append(data)
                    other.sendall(data)
                other.shutdown(socket.SHUT_WR)
            except OSError:
                pass

        def serve() -> None:
            one, _ = listening.accept()
            with one, socket.create_connection((host, int(port))) as other:
                back = threading.Thread(target=copy, args=(other, one))
                back.start()
                copy(one, other)
                back.join()

        serving = threading.Thread(target=serve)
        serving.start()
        yield f"tcp://127.0.0.1:{listening.getsockname()[1]}", seen
        serving.join(SLACK)


def test_largest_frame_fits() -> None:
    """Enciphered frames are larger; a cache whose frames are as large as can be arrives."""
    with started(1, s=build.np.zeros(1 << 20, build.np.uint8), cache_size=4, **SAFE) as server:
        server.rem.cache_flags = [True] + [False] * 13
        with connected(server, **KEYS) as client:
            client.rem.add_episode(
                **build.steps(6, s=build.np.zeros((6, 1 << 20), build.np.uint8)), **build.UNIFORM
            )
            assert client.push_cache() == 0
            arrived(server, 1)


def test_workers_behind_proxies() -> None:
    with made(1, **SAFE) as server, made(1, **SAFE) as worker:
        rep, pull = network.unused_endpoints(2)
        calls = [
            Call(lambda: server.rep_proxy_main(LOOPBACK, rep)),
            Call(lambda: server.pull_proxy_main(LOOPBACK, pull)),
            Call(lambda: worker.rep_worker_main(rep, Conn)),
            Call(lambda: worker.pull_worker_main(pull, Conn)),
        ]
        eventually(lambda: server.rep_endpoint and server.pull_endpoint)
        with connected(server, None, **KEYS) as client:
            client.sync_sizes(64)
            build.add_uniform(client.rem, 20)
            client.push_cache()
            arrived(worker, 1)
        assert_refused(server, key=STRANGER, server_key=SERVER.public)
        assert_refused(server)
        assert all(call.blocks(0) for call in calls)
        server.close()
        worker.close()
        for call in calls:
            call.result()


def test_client_may_not_be_a_worker(caplog: Any) -> None:
    """Who gets in at the back of a proxy would get what the others send."""
    with made(1, **SAFE) as server, zmq.Context() as context:
        (back,) = network.unused_endpoints(1)
        call = Call(lambda: server.pull_proxy_main(LOOPBACK, back))
        eventually(lambda: server.pull_endpoint)
        with context.socket(zmq.PULL) as thief:
            thief.linger = 0
            thief.curve_publickey = CLIENT.public.encode()
            thief.curve_secretkey = CLIENT.secret.encode()
            thief.curve_serverkey = SERVER.public.encode()
            thief.connect(back)
            eventually(lambda: lines(caplog))
            with context.socket(zmq.PUSH) as push:
                push.linger = 0
                push.curve_publickey = CLIENT.public.encode()
                push.curve_secretkey = CLIENT.secret.encode()
                push.curve_serverkey = SERVER.public.encode()
                push.connect(server.pull_endpoint)
                push.send(b"secret")
                assert not thief.poll(300)
        server.close()
        call.result()
    assert CLIENT.public in lines(caplog)[0]
    assert "workers" in lines(caplog)[0]


# -- who has not --

WRONG = {
    "no keys": {},
    "not in the list": {"key": STRANGER, "server_key": SERVER.public},
    "wrong server key": {"key": CLIENT, "server_key": STRANGER.public},
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_client_with_wrong_keys_is_refused_and_others_are_served(wrong: Any, caplog: Any) -> None:
    with started(1, **SAFE) as server, connected(server, None, **KEYS) as client:
        assert_served(server, client)
        assert_refused(server, **wrong)
        assert_served(server, client)
        server.get_batch(4, wait=SLACK)
        assert_refused(server, **wrong)
        assert_served(server, client)


def test_client_that_is_not_allowed_is_logged_once(caplog: Any) -> None:
    with started(1, **SAFE) as server:
        for _ in range(2):
            assert_refused(server, **WRONG["not in the list"])
    assert [STRANGER.public in line for line in lines(caplog)] == [True]
    assert "127.0.0.1" in lines(caplog)[0]
    assert caplog.records[0].levelno == logging.WARNING


@pytest.mark.parametrize("wrong", ["no keys", "wrong server key"])
def test_client_without_keys_is_logged_once_per_endpoint(wrong: Any, caplog: Any) -> None:
    with started(1, **SAFE) as server:
        for _ in range(2):
            assert_refused(server, **WRONG[wrong])
        eventually(lambda: len(lines(caplog)) >= 2)
        time.sleep(0.6)
        told = lines(caplog)
        endpoints = [server.pub_endpoint, server.rep_endpoint]
    assert sorted(told) == sorted(
        f"refused a connection to {each} that ended before it showed a key; "
        "further ones are not reported"
        for each in endpoints
    )


def test_good_clients_are_not_reported(caplog: Any) -> None:
    with started(1, **SAFE) as server:
        for _ in range(5):
            with connected(server, None, **KEYS) as client:
                assert_served(server, client)
    assert lines(caplog) == []


def test_client_with_keys_does_not_take_a_server_without() -> None:
    with started(1) as server:
        assert_refused(server, **KEYS)
        with connected(server, None) as client:
            assert_served(server, client)


def test_push_of_a_stranger_never_arrives() -> None:
    with started(1, **SAFE) as server, connected(server, **KEYS) as client:
        build.add_uniform(client.rem, 20)
        message = network.cache_message(client)
        with network.raw(zmq.PUSH, server.pull_endpoint) as stranger:
            stranger.linger = 0
            stranger.send_multipart(message)
            time.sleep(0.3)
            assert client.push_cache() == 0
            arrived(server, 1)
        assert (server.total_caches, server.total_refused) == (1, 0)


def test_empty_allow_list_refuses_all_clients() -> None:
    with started(1, key=SERVER, allow=[]) as server:
        assert_refused(server, **KEYS)


# -- coming, going and closing --


def test_restarted_server_is_found() -> None:
    first = started(1, **SAFE)
    with connected(first, None, **KEYS) as client:
        assert_served(first, client)
        first.close()
        with network.once_free(lambda: restarted(first, 1, **SAFE)) as server:
            assert_served(server, client)


def test_close_with_refused_clients_leaves_no_threads(caplog: Any) -> None:
    threads = our_threads()
    start = time.monotonic()
    for _ in range(5):
        with started(1, **SAFE) as server, connected(server, **KEYS) as client:
            stranger = connected(server, None, timeout=0.1, **WRONG["not in the list"])
            with stranger, pytest.raises(TimeoutError):
                stranger.sync_sizes(64)
            build.add_uniform(client.rem, 20)
            client.push_cache()
    eventually(lambda: our_threads() <= threads)
    assert time.monotonic() - start < 2 * SLACK
    assert not any("does not end" in line for line in lines(caplog))


def knock(server: ReplayMemoryServer, stop: threading.Event) -> int:
    """Ask with a key that is not in the list, over and over, and count answers."""
    sub, req, push = network.endpoints(server)
    answers = 0
    while not stop.is_set():
        keys = WRONG["not in the list"]
        with ReplayMemoryClient(sub, req, push, timeout=0.05, **keys) as client:
            try:
                client.sync_sizes(1)
                answers += 1
            except TimeoutError:
                pass
    return answers


@pytest.mark.parametrize("_", range(5))
def test_stranger_cannot_connect_while_a_server_closes(_: int) -> None:
    server = started(1, **SAFE)
    stop = threading.Event()
    calls = [Call(lambda: knock(server, stop)) for _ in range(3)]
    time.sleep(0.2)
    start = time.monotonic()
    server.close()
    assert time.monotonic() - start < SLACK
    stop.set()
    assert [call.result() for call in calls] == [0, 0, 0]


def test_forgotten_server_closes() -> None:
    threads = our_threads()
    started(1, **SAFE)
    eventually(lambda: our_threads() <= threads)


def test_processes_exit_without_closing() -> None:
    done = network.run(
        "from cogrs import KeyPair\n"
        "from tests.replay.network import started, connected\n"
        "one, two = KeyPair.new(), KeyPair.new()\n"
        "server = started(1, key=one, allow=[two])\n"
        "client = connected(server, key=two, server_key=one)\n"
        "print(client.rem.max_step)\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "64\n", "")
