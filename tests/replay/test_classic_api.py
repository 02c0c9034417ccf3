"""The programs of the published interface: a learner, an actor, a publisher and a listener."""

import threading
from typing import Any

import numpy as np
import pytest

import cogrs
from cogrs import (
    Bind,
    Conn,
    ReplayMemory,
    ReplayMemoryClient,
    ReplayMemoryServer,
    ReplaySampler,
)
from tests.replay import network
from tests.replay.network import LOOPBACK, SLACK, Call, arrived, eventually

FIELDS = "sarpvi"


def templates() -> list[Any]:
    """The seven buffers of an agent that plays from frames."""
    state = np.ndarray((3, 4), dtype=np.uint8)
    action = np.ndarray((), dtype=np.int32)
    reward = np.ndarray((2,), dtype=np.float32)
    prob = np.ndarray((), dtype=np.float32)
    info = np.ndarray((1,), dtype=np.bool_)
    return [state, action, reward, prob, reward, reward, info]


def learner(pub: str = LOOPBACK, n_caches: int = 4) -> ReplayMemoryServer[Any]:
    """A server as a learner makes it."""
    server = ReplayMemoryServer(*templates(), 1_000, pub, n_caches)
    server.rem.cache_size = 8
    server.rem.discount_factor = [0.9, 0.99]
    server.rem.reward_coeff = [1.0, 0.5]
    return server


def play(rem: Any, steps: int) -> None:
    """Play an episode by way of the buffers of an entry."""
    rem.new_episode()
    s, a, r, p, v, i = rem.get_entry_buf()
    for step in range(steps):
        s[...] = step
        a[...] = step
        r[...] = (step, 1)
        p[...] = 0.5
        v[...] = 0
        i[...] = step == steps - 1
        rem.add_entry(s, a, r, p, v, i, weight=1.0)
    rem.close_episode()


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_learner_with_two_proxies_and_workers_of_each_kind(
    workers: int, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    server = learner()
    server.set_logfile(tmp_path / "log", "ab")
    server.print_info()
    mains = [
        (server.rep_proxy_main, LOOPBACK, "inproc://rep_workers"),
        (server.pull_proxy_main, LOOPBACK, "inproc://pull_workers"),
    ]
    for _ in range(workers):
        mains.append((server.rep_worker_main, "inproc://rep_workers", Conn))
        mains.append((server.pull_worker_main, "inproc://pull_workers", Conn))
    threads = [threading.Thread(target=main, args=args) for main, *args in mains]
    for thread in threads:
        thread.start()
    eventually(lambda: server.rep_endpoint and server.pull_endpoint)
    with pytest.raises(RuntimeError, match="insufficient caches: have 0, need n_caches=4"):
        server.get_batch(16)
    with ReplayMemoryClient(*network.endpoints(server), timeout=SLACK) as client:
        client.sync_sizes(100)
        for _ in range(4):
            play(client.rem, 20)
            client.update_counter()
            assert client.push_cache() == 0
            client.write_log("episode")
        arrived(server, 4)
        prev, following, weight = server.get_batch(16)
        server.pub_bytes("model", b"new")
        assert client.sub_bytes("model", last=True, timeout=SLACK) == b"new"
    assert prev.s.shape == (16, 1, 3, 4)
    assert (prev.r[:, 0] == prev.a).all()
    assert (following.a == prev.a + 1).all()
    assert weight.shape == (16,)
    server.print_info()
    server.close()
    for thread in threads:
        thread.join(SLACK)
    text = capsys.readouterr().out
    for line in ("state_buf", "total_caches: 4", "total_steps: 80", "total_episodes: 4"):
        assert line in text
    assert text.count("pub_endpoint: tcp://127.0.0.1:") == 2
    assert (tmp_path / "log").read_bytes().count(b",episode\n") == 4


def test_server_without_caches_publishes_counts_and_logs(tmp_path: Any) -> None:
    with learner(n_caches=0).start() as server:
        server.set_logfile(tmp_path / "log", "w")
        with ReplayMemoryClient(server.pub_endpoint, "", "") as listener:
            call = Call(lambda: listener.sub_bytes("topic", timeout=SLACK))
            server.wait_subscribers("topic", timeout=SLACK)
            server.pub_bytes("topic", "message")
            assert call.result() == b"message"
        with ReplayMemoryClient(*network.endpoints(server), timeout=SLACK) as client:
            client.sync_sizes(100)
            play(client.rem, 20)
            client.update_counter()
            client.write_log("line")
            client.push_cache()
            eventually(lambda: server.stats().refused["cache"] == 1)
            eventually(lambda: server.stats().log_lines == 1)
        server.print_info()
        stats = server.stats()
        assert (stats.n_caches, stats.caches, stats.total_steps) == (0, 0, 20)
        for wait in (None, 0, 1_000):
            with pytest.raises(RuntimeError, match="get_batch: this server keeps no caches"):
                server.get_batch(4, wait=wait)
        with (
            ReplaySampler([server.rep_endpoint], timeout=SLACK) as sampler,
            pytest.raises(RuntimeError, match="insufficient caches"),
        ):
            sampler.get_batch(4)


@pytest.mark.parametrize("n_caches", [True, 0.0, "0", None])
def test_number_of_caches_is_an_integer(n_caches: Any) -> None:
    with pytest.raises(TypeError, match="n_caches: expected an integer"):
        learner(n_caches=n_caches)


def test_call_that_needs_an_endpoint_names_the_missing_endpoint() -> None:
    with learner().start() as server:
        with ReplayMemoryClient(server.pub_endpoint, "", "") as client:
            with pytest.raises(RuntimeError, match=r"sync_sizes: .* without a req_endpoint"):
                client.sync_sizes(10)
            server.pub_bytes("t", "m")
            assert client.sub_bytes("t", last=True, timeout=SLACK) == b"m"
        with pytest.raises(RuntimeError, match=r"sync_sizes: .* without a req_endpoint"):
            ReplayMemoryClient(server.pub_endpoint, "", "", max_step=10)
        with ReplayMemoryClient("", server.rep_endpoint, "", max_step=10) as client:
            play(client.rem, 5)
            client.update_counter()
            with pytest.raises(RuntimeError, match=r"push_cache: .* without a push_endpoint"):
                client.push_cache()
            with pytest.raises(RuntimeError, match=r"write_log: .* without a push_endpoint"):
                client.write_log("line")
            with pytest.raises(RuntimeError, match="without a sub_endpoint"):
                client.sub_bytes("t", timeout=1)
        with pytest.raises(ValueError, match=r"^push_endpoint: expected 'tcp"):
            ReplayMemoryClient("", "", ["", server.pull_endpoint])


@pytest.mark.parametrize("kind", ["memory", "writer"])
def test_entry_buffers_match_the_templates_and_are_new_per_call(kind: str) -> None:
    rem = ReplayMemory(*templates(), 64)
    made = rem if kind == "memory" else rem.writer()
    first, second = made.get_entry_buf(), made.get_entry_buf()
    assert type(first) is tuple
    assert len(first) == 6
    wanted = [*templates()[:5], templates()[6]]
    for one, other, template in zip(first, second, wanted, strict=True):
        assert (one.dtype, one.shape) == (template.dtype, template.shape)
        assert one.flags.writeable
        assert not np.shares_memory(one, other)
        assert (one == 0).all()
    play(made, 10)
    episode = rem.episode(0)
    assert episode.entries.a.tolist() == list(range(10))
    assert episode.entries.i[:, 0].tolist() == [False] * 9 + [True]


def test_entry_buffers_have_room_for_empty_and_record_fields() -> None:
    record = np.dtype([("x", "<f4", (2,)), ("y", "<i8")])
    scalar = np.float32(0)
    empty = np.zeros(0, np.float32)
    rem = ReplayMemory(np.zeros((), record), np.int64(0), scalar, scalar, empty, empty, empty, 8)
    s, *_, v, i = rem.get_entry_buf()
    assert s.dtype == record
    assert (v.shape, i.shape) == ((0,), (0,))


def test_weight_is_another_name_of_the_initial_weight() -> None:
    rem = ReplayMemory(*templates(), 64)
    for made in (rem, rem.writer()):
        made.new_episode()
        entry = made.get_entry_buf()
        made.add_entry(*entry, 2.0)
        made.add_entry(*entry, init_w=2.0)
        made.add_entry(*entry, weight=2.0)
        with pytest.raises(TypeError, match="init_w: expected a number, got None"):
            made.add_entry(*entry)
        with pytest.raises(
            TypeError, match="weight: expected only one of init_w and weight, got both"
        ):
            made.add_entry(*entry, 1.0, weight=1.0)
        for bad, error in ((-1.0, ValueError), (np.nan, ValueError), ("1", TypeError)):
            with pytest.raises(error, match="init_w"):
                made.add_entry(*entry, weight=bad)
        made.close_episode(1.0, True, False)
        assert made.add_entry.__doc__
    for number in range(2):
        weight = rem.episode(number).weight.tolist()
        assert weight == [2.0, 2.0, 0.0]


def test_worker_modes_are_given_by_name() -> None:
    assert (cogrs.Bind, cogrs.Conn) == (Bind, Conn)
