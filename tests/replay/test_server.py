"""A server when it starts, under load, and when it closes."""

import gc
import os
import pickle
import re
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import zmq

from cogrs import ReplayMemoryServer
from tests.replay import build, network
from tests.replay.network import (
    SLACK,
    Call,
    arrived,
    connected,
    eventually,
    full_pair,
    made,
    started,
)

# -- closing --


@pytest.mark.parametrize(
    "call",
    [
        lambda server: server.get_batch(1),
        lambda server: server.get_batch(1, wait=1),
        lambda server: server.pub_bytes("t", "m"),
        lambda server: server.rem.pub_bytes("t", "m"),
        lambda server: server.wait_subscribers("t"),
        lambda server: server.set_logfile(os.devnull, "w"),
        lambda server: server.start(),
        lambda server: server.rep_worker_main(network.LOOPBACK, "Bind"),
        lambda server: server.pull_worker_main(network.LOOPBACK, "Bind"),
        lambda server: server.rep_proxy_main(network.LOOPBACK, network.LOOPBACK),
        lambda server: server.pull_proxy_main(network.LOOPBACK, network.LOOPBACK),
    ],
)
def test_closed_server_raises_that_the_server_is_closed(
    call: Callable[[ReplayMemoryServer], Any],
) -> None:
    server = started()
    server.close()
    with pytest.raises(RuntimeError, match="ReplayMemoryServer is closed"):
        call(server)


def test_closed_server_can_still_be_read() -> None:
    with full_pair(1) as (server, client):
        client.push_cache()
        arrived(server, 1)
    assert (server.total_caches, server.total_refused, server.weight_sum) == (1, 0, 19.0)
    assert "total_caches=1" in repr(server)


def test_close_twice_and_from_any_thread() -> None:
    server = started()
    closing = [Call(server.close) for _ in range(5)]
    server.close()
    for each in closing:
        each.result()
    server.close()


def test_ports_are_free_after_close() -> None:
    for _ in range(10):
        server = started()
        with network.raw(zmq.SUB, server.pub_endpoint):
            closing = Call(server.close)
            server.close()
            network.restarted(server).close()
            closing.result()


def test_fifty_servers_one_after_the_other_at_one_port() -> None:
    first = started()
    with connected(first) as client:
        first.close()
        for _ in range(50):
            with network.restarted(first):
                pass
        with network.restarted(first):
            client.sync_sizes(4)


def test_start_that_failed_can_be_tried_again() -> None:
    (rep,) = network.unused_endpoints(1)
    with started() as other, made() as server:
        with pytest.raises(OSError, match="pull_endpoint"):
            server.start(rep, other.pull_endpoint)
        assert server.rep_endpoint is None
        network.once_free(lambda: server.start(rep))
        with connected(server):
            pass


def test_failed_construction_leaves_the_port_free() -> None:
    (free,) = network.unused_endpoints(1)
    with pytest.raises(ValueError, match="n_caches"):
        made(-1, pub_endpoint=free)
    made(pub_endpoint=free).close()


@pytest.mark.parametrize("make", [made, started])
def test_forgotten_server_ends_its_threads(make: Callable[[], ReplayMemoryServer]) -> None:
    before = network.our_threads()
    server = make()
    gone, at = weakref.ref(server), server.pub_endpoint
    assert network.our_threads() > before
    del server
    gc.collect()
    assert gone() is None
    eventually(lambda: network.our_threads() <= before)
    made(pub_endpoint=at).close()


def test_memory_outlives_a_forgotten_server() -> None:
    rem = made(max_step=8).rem
    gc.collect()
    build.add_uniform(rem, 3)
    assert len(rem.get_batch(2).weight) == 2
    with pytest.raises(RuntimeError, match="closed"):
        rem.pub_bytes("t", "m")


# The garbage collector runs on any thread that makes objects, here on those of the server.
FORGOTTEN_IN_A_CYCLE = """
import gc, os, time
from tests.replay import build, network

gc.disable()
server = network.started(1000, cache_size=1)
server.itself = server
client = network.connected(server, timeout=1)
build.add_uniform(client.rem, 5)
del server
for _ in range(16):
    client.push_cache()
gc.set_threshold(20)
gc.enable()
time.sleep(1)
client.close()
try:
    network.eventually(lambda: not network.our_threads())
    print("ended", flush=True)
finally:
    os._exit(0)
"""


def test_server_that_the_garbage_collector_finds_ends_its_threads() -> None:
    done = network.run(FORGOTTEN_IN_A_CYCLE)
    assert (done.stdout, done.stderr) == ("ended\n", "")


# -- construction --


@pytest.mark.parametrize("name", ["hwm", "pub_hwm"])
@pytest.mark.parametrize("value", [0, -1, 2**31, 2**70])
def test_high_water_mark_out_of_range(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"^{name}"):
        made(**{name: value})


@pytest.mark.parametrize("n_caches", [-1, -(2**70)])
def test_number_of_caches_out_of_range(n_caches: int) -> None:
    with pytest.raises(ValueError, match=r"^n_caches"):
        made(n_caches)


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_caches", 1.5), ("n_caches", None), ("hwm", 1.5), ("pub_hwm", "1"), ("seed", "x")],
)
def test_wrong_types_are_named(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"^{name}"):
        made(**{name: value})


@pytest.mark.parametrize(
    "name", ["rem", "logfile", "total_episodes", "total_caches", "total_steps"]
)
def test_attributes_of_a_learner_cannot_be_set(name: str) -> None:
    with made() as server, pytest.raises(AttributeError):
        setattr(server, name, None)


def test_endpoints_are_none_before_workers_start() -> None:
    with made() as server:
        assert (server.rep_endpoint, server.pull_endpoint) == (None, None)
        assert re.fullmatch(r"tcp://127\.0\.0\.1:\d+", server.pub_endpoint)


def test_uuid_is_that_of_its_memory() -> None:
    with made(uuid=0xABC) as server:
        assert server.rem.uuid == 0xABC
        assert "uuid=0x00000abc" in repr(server)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickling_is_refused(protocol: int) -> None:
    with (
        made() as server,
        pytest.raises(TypeError, match=r"ReplayMemoryServer.*ReplayMemoryClient"),
    ):
        pickle.dumps(server, protocol)


def test_two_servers_do_not_mix() -> None:
    with full_pair(1) as (server, client), full_pair(1) as (other, _):
        client.push_cache()
        client.update_counter()
        arrived(server, 1)
        assert (server.total_episodes, other.total_episodes, other.total_caches) == (1, 0, 0)
        other.pub_bytes("t", "other")
        server.pub_bytes("t", "own")
        assert client.sub_bytes("t", last=True, timeout=SLACK) == b"own"


INTERRUPTED_ANYWHERE = """
import random, signal, sys, threading
from tests.replay import build, network

main, rng = threading.main_thread().ident, random.Random(0)

def press_again(lost):
    # Python drops what is raised in a callback of its own, and goes on.
    if lost.exc_type is KeyboardInterrupt:
        signal.setitimer(signal.ITIMER_REAL, 0.001)
    else:
        sys.__unraisablehook__(lost)

sys.unraisablehook = press_again
signal.signal(signal.SIGALRM, signal.default_int_handler)

def play():
    with network.started(1) as server, network.connected(server, timeout=2) as client:
        build.add_uniform(client.rem, 5)
        while True:
            client.push_cache()
            client.update_counter()
            server.get_batch(1, wait=5)

for _ in range(25):
    interrupt = threading.Timer(rng.uniform(0, 0.004), signal.pthread_kill, (main, signal.SIGINT))
    try:
        interrupt.start()
        play()
    except KeyboardInterrupt:
        pass
    interrupt.join()
print("ended")
"""


BETWEEN = """
import weakref
import zmq
from cogrs.replay.net.transport import Transport

class Interrupted(weakref.WeakSet):
    def add(self, item):
        raise KeyboardInterrupt

transport = Transport("Server")
transport._sockets = Interrupted()
try:
    transport.socket(zmq.PUSH, hwm=1)
except KeyboardInterrupt:  # its traceback has the socket
    transport.abandon()
print("ended")
"""


def test_control_c_just_after_a_socket_was_made() -> None:
    done = network.run(BETWEEN, within=60)
    assert (done.stdout, done.stderr, done.returncode) == ("ended\n", "", 0)


def test_control_c_at_any_moment_leaves_a_process_that_ends() -> None:
    done = network.run(INTERRUPTED_ANYWHERE, within=30)
    assert (done.stdout, done.stderr, done.returncode) == ("ended\n", "", 0)


WITHOUT_DESCRIPTORS = """
import os, resource, sys
from tests.replay import network

used = len(os.listdir("/proc/self/fd"))
for free in range(16):
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + free,) * 2)
        try:
            network.started()
        except OSError:
            pass
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        print("with", free, "free: exit code", code)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits and /proc of Linux")
def test_want_of_descriptors_is_an_os_error() -> None:
    done = network.run(WITHOUT_DESCRIPTORS)
    assert (done.stdout, done.stderr) == ("", "")


def test_process_ends_without_close() -> None:
    script = """
from tests.replay import build, network
server = network.started(1)
client = network.connected(server)
build.add_uniform(client.rem, 5)
client.push_cache()
server.pub_bytes("t", "m")
print(len(server.get_batch(1, wait=10).weight))
"""
    done = network.run(script, within=30)
    assert (done.stdout, done.stderr, done.returncode) == ("1\n", "", 0)


# -- under load --


def test_caches_stay_whole_while_settings_change() -> None:
    stop = threading.Event()
    with full_pair(2, cache_size=8, reuse_cache=True) as (server, client):

        def pushes() -> None:
            while not stop.is_set():
                client.push_cache()

        pushing = Call(pushes)
        end = time.monotonic() + 1
        flags = [True] * 14
        while time.monotonic() < end:
            server.rem.cache_flags = flags
            server.rem.frame_stack = 1
            try:
                batch = server.get_batch(16, wait=0.05)
            except TimeoutError:
                continue
            network.assert_consistent(batch)
            server.rem.cache_flags = [False, *flags[1:]]
            server.rem.frame_stack = 2
        stop.set()
        pushing.result()


def test_close_while_learner_and_actors_are_busy_ends_all_calls() -> None:
    for _ in range(2):
        server = started(1, cache_size=8)
        clients = [connected(server, timeout=1) for _ in range(2)]
        for client in clients:
            build.add_uniform(client.rem, 20)

        def learner(server: ReplayMemoryServer = server) -> None:
            while True:
                server.get_batch(4, wait=60)
                server.pub_bytes("t", bytes(1000))

        def actor(client: Any) -> None:
            while True:
                client.push_cache()
                client.update_counter()

        learning = Call(learner)
        acting = [Call(lambda client=client: actor(client)) for client in clients]
        arrived(server, 5)
        server.close()
        with pytest.raises(RuntimeError, match="closed"):
            learning.result()
        for each in acting:
            with pytest.raises(TimeoutError):
                each.result()
        for client in clients:
            client.close()
