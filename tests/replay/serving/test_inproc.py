"""Proxies and workers of one server that communicate in the process, without a port."""

from typing import Any

import pytest

from cogrs import Bind, Conn, KeyPair, ReplayMemoryClient, ReplayMemoryServer, ReplaySampler
from cogrs.replay import ReplayProxy
from tests.replay import build, network
from tests.replay.network import LOOPBACK, SLACK, Call, arrived, eventually, made


def run_workers(server: ReplayMemoryServer[Any], rep: str, pull: str, count: int) -> list[Call]:
    """Workers of each kind that connect to a proxy's back."""
    return [
        call
        for _ in range(count)
        for call in (
            Call(lambda: server.rep_worker_main(rep, Conn)),
            Call(lambda: server.pull_worker_main(pull, Conn)),
        )
    ]


@pytest.mark.parametrize("workers_first", [False, True])
@pytest.mark.parametrize("with_keys", [False, True], ids=["open", "keys"])
@pytest.mark.parametrize("name", ["workers", "w/w:1", "ä"])
def test_proxies_and_workers_of_one_server_need_no_port(
    workers_first: bool, with_keys: bool, name: str
) -> None:
    ours, theirs = KeyPair.new(), KeyPair.new()
    keys = {"key": ours, "allow": [theirs.public]} if with_keys else {}
    options = {"key": theirs, "server_key": ours.public} if with_keys else {}
    rep, pull = f"inproc://rep {name}", f"inproc://pull {name}"
    with made(4, ids=True, **keys) as server:
        calls = run_workers(server, rep, pull, 2) if workers_first else []
        calls += [
            Call(lambda: server.rep_proxy_main(LOOPBACK, rep)),
            Call(lambda: server.pull_proxy_main(LOOPBACK, pull)),
        ]
        calls += [] if workers_first else run_workers(server, rep, pull, 2)
        eventually(lambda: server.rep_endpoint and server.pull_endpoint)
        where = network.endpoints(server)
        with ReplayMemoryClient(*where, max_step=64, timeout=SLACK, **options) as client:
            build.add_uniform(client.rem, 20)
            for _ in range(4):
                client.push_cache()
                client.update_counter()
                client.write_log("line")
            arrived(server, 4)
            with ReplaySampler([server.rep_endpoint], timeout=SLACK, **options) as sampler:
                batch = sampler.get_batch(16)
                assert sampler.update_priority(batch.id, batch.sender, batch.weight + 1) == 0
            assert client.apply_priorities(timeout=SLACK).entries > 0
            assert (server.total_episodes, server.total_steps) == (1, 20)
        assert all(call.blocks(0) for call in calls)
        server.close()
        for call in calls:
            call.result()


def test_two_servers_have_separate_inproc_names() -> None:
    with made(1) as one, made(1) as other:
        calls = []
        for server in (one, other):
            calls.append(Call(lambda server=server: server.rep_proxy_main(LOOPBACK, "inproc://a")))
            calls.append(Call(lambda server=server: server.rep_worker_main("inproc://a", Conn)))
            eventually(lambda server=server: server.rep_endpoint)
        for server in (one, other):
            with ReplayMemoryClient("", server.rep_endpoint, "", timeout=SLACK) as client:
                client.sync_sizes(8)
                build.add_uniform(client.rem, 3)
                client.update_counter()
            assert server.total_steps == 3
            server.close()
        for call in calls:
            call.result()


def test_inproc_name_bound_twice_is_an_os_error() -> None:
    with made(1) as server:
        call = Call(lambda: server.rep_proxy_main(LOOPBACK, "inproc://a"))
        eventually(lambda: server.rep_endpoint)
        with pytest.raises(OSError, match="back_ep: inproc://a is bound by this Replay"):
            server.pull_proxy_main(LOOPBACK, "inproc://a")
        assert call.blocks(0)


UNREACHABLE = {
    "pub_endpoint": lambda: made(1, pub_endpoint="inproc://x"),
    "sub_endpoint": lambda: ReplayMemoryClient("inproc://x", "", ""),
    "req_endpoint": lambda: ReplayMemoryClient("", "inproc://x", ""),
    "push_endpoint": lambda: ReplayMemoryClient("", "", "inproc://x"),
    "push_endpoint of several": lambda: ReplayMemoryClient("", "", ["inproc://x"]),
    "endpoints": lambda: ReplaySampler(["inproc://x"]),
    "rep_front": lambda: ReplayProxy("inproc://x", LOOPBACK, LOOPBACK, LOOPBACK),
    "rep_back": lambda: ReplayProxy(LOOPBACK, "inproc://x", LOOPBACK, LOOPBACK),
    "pull_front": lambda: ReplayProxy(LOOPBACK, LOOPBACK, "inproc://x", LOOPBACK),
    "pull_back": lambda: ReplayProxy(LOOPBACK, LOOPBACK, LOOPBACK, "inproc://x"),
    "rep_endpoint": lambda: made(1).start("inproc://x"),
    "pull_endpoint": lambda: made(1).start(LOOPBACK, "inproc://x"),
    "endpoint": lambda: made(1).rep_worker_main("inproc://x", Bind),
    "endpoint of a PULL worker": lambda: made(1).pull_worker_main("inproc://x", Bind),
    "front_ep": lambda: made(1).rep_proxy_main("inproc://x", "inproc://y"),
    "front_ep of a PULL proxy": lambda: made(1).pull_proxy_main("inproc://x", "inproc://y"),
}


@pytest.mark.parametrize("name", UNREACHABLE)
def test_inproc_is_refused_by_name_where_no_peer_could_connect(name: str) -> None:
    text = f"^{name.split()[0]}: expected .*'inproc://x': inproc reaches only"
    with pytest.raises(ValueError, match=text):
        UNREACHABLE[name]()


@pytest.mark.parametrize(
    "bad", ["inproc://", "inproc:/x", "inproc://zeromq.zap.01", "inproc://a\0"]
)
def test_names_that_cannot_be_are_refused(bad: str) -> None:
    with made(1) as server:
        with pytest.raises(ValueError, match=r"^endpoint: expected .*'inproc://NAME'"):
            server.rep_worker_main(bad, Conn)
        with pytest.raises(ValueError, match=r"^back_ep: expected .*'inproc://NAME'"):
            server.rep_proxy_main(LOOPBACK, bad)
