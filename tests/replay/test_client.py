"""A client without a server, with many threads, and when it closes."""

import gc
import math
import pickle
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import zmq

from cogrs import ReplayMemoryClient
from cogrs.api import replay_pb2 as pb
from cogrs.replay.wire import encode, sizes_of
from tests.replay import build, network
from tests.replay.network import (
    SLACK,
    Call,
    arrived,
    connected,
    deaf,
    eventually,
    full_pair,
    pair,
    started,
)

# -- construction --


def test_constructor_does_not_wait_and_starts_nothing() -> None:
    before = network.our_threads()
    with deaf(timeout=60):
        assert network.our_threads() == before


def test_constructor_with_max_step_syncs() -> None:
    with started() as server, connected(server, max_step=12) as client:
        assert client.rem.max_step == 12


def test_constructor_that_cannot_sync_leaves_no_threads() -> None:
    before = network.our_threads()
    with pytest.raises(TimeoutError, match="sync_sizes"):
        deaf(max_step=8)
    assert network.our_threads() == before


def test_uuid_names_the_client_and_its_memory() -> None:
    with started() as server, connected(server, input_uuid=0xABC) as client:
        assert client.uuid == client.rem.uuid == 0xABC
        assert "uuid=0x00000abc" in repr(client)


def test_uuid_of_zero_is_random() -> None:
    with deaf() as one, deaf(input_uuid=0) as other:
        assert len({one.uuid, other.uuid, 0}) == 3


@pytest.mark.parametrize("uuid", [-1, 2**32])
def test_uuid_out_of_range(uuid: int) -> None:
    with pytest.raises(ValueError, match="input_uuid"):
        deaf(input_uuid=uuid)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("input_uuid", "1"),
        ("input_uuid", True),
        ("input_uuid", 1.0),
        ("hwm", 1.5),
        ("sub_hwm", None),
        ("timeout", "30"),
        ("timeout", True),
        ("seed", "x"),
        ("seed", 1.5),
        ("max_step", "8"),
        ("max_step", 1.5),
        ("max_step", np.array([8])),
        ("hwm", np.array([1, 2])),
        ("timeout", np.array([0.1])),
    ],
)
def test_wrong_types_are_refused_by_name_before_anything_is_asked(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"^{name}"):
        deaf(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hwm", 0),
        ("hwm", 2**31),
        ("sub_hwm", 0),
        ("sub_hwm", 2**70),
        ("timeout", -1),
        ("timeout", 10**400),
        ("timeout", math.nan),
        ("seed", -1),
        ("seed", 2**64),
        ("max_step", -1),
    ],
)
def test_numbers_out_of_range_are_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{name}"):
        deaf(**{name: value})


# -- no server --


@pytest.mark.parametrize("timeout", [0, 0.2])
def test_call_without_a_server_raises_a_timeout_that_names_call_and_endpoint(
    timeout: float,
) -> None:
    with deaf(timeout=timeout) as client:
        start = time.monotonic()
        with pytest.raises(TimeoutError, match=r"^sync_sizes: no answer from tcp://127") as late:
            client.sync_sizes(8)
        assert timeout <= time.monotonic() - start < timeout + SLACK
    assert f"after {timeout:g} s" in str(late.value)


def test_next_call_works_once_there_is_a_server() -> None:
    server = started()
    server.close()
    with connected(server, None, timeout=0.1) as client:
        for _ in range(3):
            with pytest.raises(TimeoutError):
                client.sync_sizes(8)
        with network.restarted(server):
            end = time.monotonic() + SLACK
            while True:
                try:
                    client.sync_sizes(8)
                    break
                except TimeoutError:
                    assert time.monotonic() < end
        assert client.rem.max_step == 8


def test_counters_go_on_when_the_server_is_back() -> None:
    with full_pair() as (server, client):
        client.update_counter()
        server.close()
        with network.restarted(server) as again:
            client.update_counter()
            assert (again.total_episodes, again.total_steps) == (1, 20)


def test_server_that_never_answers_is_a_timeout_each_time() -> None:
    with zmq.Context() as context, context.socket(zmq.ROUTER) as silent:
        port = silent.bind_to_random_port("tcp://127.0.0.1")
        at = [f"tcp://127.0.0.1:{port}"] * 3
        with ReplayMemoryClient(*at, timeout=0.1) as client:
            for _ in range(3):
                with pytest.raises(TimeoutError, match="no answer"):
                    client.sync_sizes(8)


@pytest.mark.parametrize(
    "answer",
    [
        [b""],
        [b"garbage"],
        [encode(1)],
        [encode(1, counter_reply=pb.CounterReply())],
        [encode(1, sizes=pb.Sizes())],
        [encode(1, sizes=pb.Sizes(templates=[pb.Template(dtype="O")] * 7))],
        [encode(1, sizes=pb.Sizes(templates=[pb.Template(dtype="f4", shape=[2**63])] * 7))],
        [encode(1, sizes=sizes_of(build.memory(), 0)), b"more"],
        [encode(1, counter_reply=pb.CounterReply()), b"more", b"frames"],
        [encode(1, refusal=pb.Refusal(reason="I will not"))],
    ],
    ids=lambda answer: str(answer)[:40],
)
def test_unexpected_reply_is_a_runtime_error_and_the_next_call_works(
    answer: list[bytes],
) -> None:
    with zmq.Context() as context, context.socket(zmq.REP) as stranger:
        stranger.linger = 0
        stranger.rcvtimeo = int(SLACK * 1000)
        port = stranger.bind_to_random_port("tcp://127.0.0.1")
        with ReplayMemoryClient(*[f"tcp://127.0.0.1:{port}"] * 3, timeout=SLACK) as client:
            asks = Call(lambda: client.sync_sizes(8))
            stranger.recv()
            stranger.send_multipart(answer)
            with pytest.raises(RuntimeError, match=r"answered with|refused: I will not|sizes are"):
                asks.result()
            asks = Call(lambda: client.sync_sizes(8))
            stranger.recv()
            stranger.send(encode(1, sizes=sizes_of(build.memory(), 0)))
            asks.result()
            assert client.rem.max_step == 8


# -- closing --


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.sync_sizes(8),
        lambda client: client.update_counter(),
        lambda client: client.push_cache(),
        lambda client: client.write_log("line"),
        lambda client: client.sub_bytes("t"),
        lambda client: client.sub_bytes("t", last=True, timeout=0),
    ],
)
def test_closed_client_raises_that_the_client_is_closed(
    call: Callable[[ReplayMemoryClient], Any],
) -> None:
    with full_pair() as (_, client):
        client.close()
        with pytest.raises(RuntimeError, match="ReplayMemoryClient is closed"):
            call(client)


def test_memory_of_a_closed_client_stays_usable() -> None:
    with full_pair() as (_, client):
        pass
    build.add_uniform(client.rem, 5)
    assert len(client.rem.get_batch(4).weight) == 4


def test_close_twice_and_from_any_thread() -> None:
    with full_pair() as (_, client):
        client.push_cache()
        closing = [Call(client.close) for _ in range(5)]
        client.close()
        for each in closing:
            each.result()
        client.close()


def test_caches_pushed_before_close_arrive() -> None:
    with started(1, s=np.zeros(1 << 12)) as server:
        for count in range(1, 11):
            with connected(server) as client:
                build.add_uniform(client.rem, 5, s=np.zeros((5, 1 << 12)))
                client.push_cache()
            arrived(server, count)


@pytest.mark.parametrize("used", ["new", "synced", "subscribed"])
def test_forgotten_client_ends_its_threads(used: str) -> None:
    with started() as server:
        before = network.our_threads()
        client = connected(server, None if used == "new" else 8)
        if used == "subscribed":
            with pytest.raises(TimeoutError):
                client.sub_bytes("t", timeout=0)
            assert network.our_threads() > before
        gone = weakref.ref(client)
        del client
        gc.collect()
        assert gone() is None
        eventually(lambda: network.our_threads() <= before)


FORGOTTEN_IN_A_CYCLE = """
import gc, os, time
from tests.replay import network

gc.disable()
server = network.started()
client = network.connected(server)
before = network.our_threads()
try:
    client.sub_bytes("t", timeout=0)
except TimeoutError:
    pass
server.wait_subscribers("t")
client.itself = client
del client
for number in range(16):
    server.pub_bytes("t", b"m")
gc.set_threshold(20)
gc.enable()
time.sleep(1)
try:
    network.eventually(lambda: network.our_threads() <= before)
    print("ended", flush=True)
finally:
    os._exit(0)
"""


def test_client_that_the_garbage_collector_finds_ends_its_threads() -> None:
    done = network.run(FORGOTTEN_IN_A_CYCLE)
    assert (done.stdout, done.stderr) == ("ended\n", "")


def test_memory_outlives_a_forgotten_client() -> None:
    with started() as server:
        rem = connected(server).rem
        gc.collect()
        build.add_uniform(rem, 3)
        assert rem.num_episode() == 1


@pytest.mark.parametrize("name", ["rem", "uuid"])
def test_attributes_cannot_be_set(name: str) -> None:
    with pair() as (_, client), pytest.raises(AttributeError):
        setattr(client, name, None)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickling_is_refused(protocol: int) -> None:
    with deaf() as client, pytest.raises(TypeError, match="ReplayMemoryClient"):
        pickle.dumps(client, protocol)


# -- many threads --


def test_any_thread_may_call_any_method() -> None:
    with full_pair(1, cache_size=4) as (server, client):

        def work() -> None:
            for _ in range(25):
                assert client.push_cache() == 0
                client.update_counter()
                client.write_log("line")
                build.add_uniform(client.rem, 3)

        for each in [Call(work) for _ in range(4)]:
            each.result(60)
        arrived(server, 100)
        client.update_counter()
        assert (server.total_episodes, server.total_caches) == (101, 100)
        assert server.total_refused == 0


def test_caches_stay_whole_while_another_thread_syncs() -> None:
    with full_pair(1, cache_size=4) as (server, client):

        def syncs() -> None:
            for _ in range(30):
                client.sync_sizes(64)
                build.add_uniform(client.rem, 20)

        syncing = Call(syncs)
        pushed = 0
        while syncing.blocks(0):
            pushed += client.push_cache() == 0
        syncing.result()
        client.push_cache()
        arrived(server, pushed + 1)
        client.update_counter()
        assert (server.total_episodes, server.total_refused) == (31, 0)


def test_client_can_be_used_after_control_c() -> None:
    script = """
import signal, threading
from tests.replay import build, network

with network.full_pair(1) as (server, client):
    for call in (lambda: client.sub_bytes("t"), lambda: server.get_batch(1, wait=60)):
        interrupt = signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)
        threading.Timer(0.1, *interrupt).start()
        try:
            call()
        except KeyboardInterrupt:
            print("interrupted")
    server.pub_bytes("t", "m")
    client.update_counter()
    client.push_cache()
    print(client.sub_bytes("t", timeout=10, last=True), len(server.get_batch(1, wait=10).weight))
"""
    done = network.run(script, within=30)
    assert (done.stdout, done.stderr) == ("interrupted\ninterrupted\nb'm' 1\n", "")
