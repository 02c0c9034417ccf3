"""What a server takes in, gives out, refuses and lets go."""

import gc
import math
import os
import pickle
import random
import re
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import zmq

from cogrs import ReplayMemoryServer
from cogrs.api import replay_pb2 as pb
from cogrs.replay.wire import MESSAGES, Key, decode, digest_of_topic, encode
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

# -- batches --


def test_batch_holds_what_the_client_stored() -> None:
    with full_pair(cache_size=10, frame_stack=3) as (server, client):
        assert [client.push_cache(), client.push_cache()] == [0, 0]
        batch = server.get_batch(20, wait=SLACK)
    assert batch.prev.s.shape == batch.next.s.shape == (20, 3)
    assert (np.diff(batch.prev.s) == 1).all()
    assert (batch.weight.shape, batch.weight.dtype) == ((20,), np.float32)
    network.assert_consistent(batch)


def test_batch_is_a_tuple_of_named_tuples_with_long_names() -> None:
    with full_pair(1) as (server, client):
        client.push_cache()
        prev, later, weight = server.get_batch(2, wait=SLACK)
    assert prev._fields == later._fields == tuple("sarpvqi")
    assert prev.state is prev.s
    assert later.info is later.i
    assert weight.tolist() == [1, 1]


def test_fields_without_a_flag_are_not_sent() -> None:
    flags = [True, False, True, False, True, False, True, *[False] * 6, True]
    with full_pair(1, cache_flags=flags) as (server, client):
        client.push_cache()
        batch = server.get_batch(4, wait=SLACK)
    assert [len(field) for field in (*batch.prev, *batch.next)] == [4 * flag for flag in flags]
    assert (batch.next.i == batch.prev.i + 1).all()


@pytest.mark.parametrize("n_caches", [1, 3])
def test_newest_caches_are_kept(n_caches: int) -> None:
    with full_pair(n_caches, cache_size=4) as (server, client):
        for _ in range(n_caches + 4):
            client.push_cache()
        arrived(server, n_caches + 4)
        assert server.weight_sum == n_caches * client.rem.weight_sum
        server.get_batch(4 * n_caches)
        with pytest.raises(RuntimeError, match="have 0 unused"):
            server.get_batch(1)


def test_refused_batch_takes_nothing() -> None:
    with full_pair(2, cache_size=4) as (server, client):
        client.push_cache()
        arrived(server, 1)
        with pytest.raises(RuntimeError, match="have 1, need n_caches=2"):
            server.get_batch(1)
        client.push_cache()
        arrived(server, 2)
        with pytest.raises(RuntimeError, match="have 8 unused samples, need batch_size=9"):
            server.get_batch(9)
        assert len(server.get_batch(8).weight) == 8


def test_caches_are_reused_when_the_server_says_so() -> None:
    with full_pair(1, cache_size=3, reuse_cache=True) as (server, client):
        client.push_cache()
        infos = server.get_batch(9, wait=SLACK).prev.i.tolist()
        assert infos == infos[:3] * 3


def test_reuse_can_be_switched_while_clients_push() -> None:
    with full_pair(1, cache_size=3) as (server, client):
        client.push_cache()
        server.get_batch(3, wait=SLACK)
        server.rem.reuse_cache = True
        assert len(server.get_batch(7).weight) == 7


def test_caches_of_other_flags_than_the_server_has_now_are_refused() -> None:
    with full_pair(1) as (server, client):
        client.push_cache()
        arrived(server, 1)
        server.rem.cache_flags = [False]
        client.push_cache()
        eventually(lambda: server.total_refused == 1)
        with pytest.raises(RuntimeError, match="have 0"):
            server.get_batch(1)
        client.sync_sizes(64)
        build.add_uniform(client.rem, 5)
        client.push_cache()
        assert len(server.get_batch(4, wait=SLACK).prev.s) == 0


def test_seed_reproduces_batches() -> None:
    def draws(seed: int) -> list[int]:
        with started(2, seed=seed, cache_size=50) as server:
            for client_seed in (1, 2):
                with connected(server, seed=client_seed) as client:
                    build.add_uniform(client.rem, 30, first=100 * client_seed)
                    client.push_cache()
                    arrived(server, client_seed)
            return server.get_batch(60).prev.i.tolist()

    assert draws(3) == draws(3)
    assert draws(3) != draws(4)


def test_shares_follow_the_sums_of_weights_of_the_clients() -> None:
    with started(2, seed=0, reuse_cache=True) as server:
        for at, weight in enumerate((1.0, 3.0)):
            with connected(server) as client:
                build.add_uniform(client.rem, 11, first=1000 * at, init_w=weight)
                client.push_cache()
                arrived(server, at + 1)
        share = (server.get_batch(40_000).prev.i >= 1000).mean()
    # 0.011 is five standard deviations.
    assert share == pytest.approx(0.75, abs=0.011)


# -- waiting --


def test_wait_ends_when_the_last_cache_arrives() -> None:
    with full_pair(2, cache_size=4) as (server, client):
        waits = Call(lambda: server.get_batch(5, wait=60))
        client.push_cache()
        assert waits.blocks()
        client.push_cache()
        assert len(waits.result().weight) == 5


def test_several_wait_and_all_get_theirs() -> None:
    with full_pair(1, cache_size=4) as (server, client):
        waits = [Call(lambda: server.get_batch(4, wait=60)) for _ in range(3)]
        for number in range(200):
            client.push_cache()
            arrived(server, number + 1)
            if not any(each.blocks(0) for each in waits):
                break
        assert [len(each.result().weight) for each in waits] == [4, 4, 4]


def test_wait_that_is_too_short_is_a_timeout_with_counts() -> None:
    with full_pair(2, cache_size=4) as (server, client):
        client.push_cache()
        arrived(server, 1)
        with pytest.raises(TimeoutError, match="have 1, need n_caches=2"):
            server.get_batch(1, wait=0.05)
        client.push_cache()
        assert len(server.get_batch(8, wait=SLACK).weight) == 8


def test_wait_of_zero_looks_once() -> None:
    with full_pair(1) as (server, client):
        with pytest.raises(TimeoutError):
            server.get_batch(1, wait=0)
        client.push_cache()
        arrived(server, 1)
        assert len(server.get_batch(1, wait=0).weight) == 1


@pytest.mark.parametrize("wait", [-1, -0.001, math.nan])
def test_wait_out_of_range(wait: float) -> None:
    with made() as server, pytest.raises(ValueError, match="wait"):
        server.get_batch(1, wait=wait)


@pytest.mark.parametrize("wait", ["1", True, [1]])
def test_wait_that_is_no_number(wait: Any) -> None:
    with made() as server, pytest.raises(TypeError, match="wait"):
        server.get_batch(1, wait=wait)


def test_wait_of_any_length_ends_with_the_server() -> None:
    with made() as server:
        waits = [
            Call(lambda wait=wait: server.get_batch(1, wait=wait)) for wait in (1e300, math.inf)
        ]
        assert waits[0].blocks()
    for each in waits:
        with pytest.raises(RuntimeError, match="closed"):
            each.result()


@pytest.mark.parametrize("size", [0, -1])
@pytest.mark.parametrize("wait", [None, 1])
def test_batch_size_out_of_range(size: int, wait: float | None) -> None:
    with made() as server, pytest.raises(ValueError, match="batch_size"):
        server.get_batch(size, wait=wait)


# -- counters --


@pytest.fixture
def counting() -> Any:
    """A server, and a way to tell it a total as one of its clients would."""
    with started() as server, network.raw(zmq.REQ, server.rep_endpoint) as socket:

        def count(sender: int, episodes: int, steps: int) -> tuple[int, int]:
            socket.send(encode(sender, counter=pb.Counter(episodes=episodes, steps=steps)))
            assert decode(socket.recv()).WhichOneof("body") == "counter_reply"
            return server.total_episodes, server.total_steps

        yield count


def test_repeated_counts_count_once(counting: Callable[..., Any]) -> None:
    assert [counting(1, 2, 10), counting(1, 2, 10)] == [(2, 10), (2, 10)]


def test_counts_out_of_order_leave_the_largest(counting: Callable[..., Any]) -> None:
    assert [counting(1, 3, 30), counting(1, 2, 20), counting(1, 4, 35)] == [
        (3, 30),
        (3, 30),
        (4, 35),
    ]


def test_counts_of_several_clients_add_up(counting: Callable[..., Any]) -> None:
    assert [counting(1, 1, 10), counting(2, 1, 5), counting(1, 2, 20)] == [
        (1, 10),
        (2, 15),
        (3, 25),
    ]


def test_largest_counts_do_not_overflow(counting: Callable[..., Any]) -> None:
    most = 2**64 - 1
    counting(1, most, most)
    assert counting(2**32 - 1, most, most) == (2 * most, 2 * most)


def test_total_caches_counts_what_arrived() -> None:
    with full_pair(1) as (server, client):
        assert server.total_caches == 0
        for _ in range(5):
            client.push_cache()
        arrived(server, 5)
        assert server.total_caches == 5
        server.get_batch(1)
        assert server.total_caches == 5


# -- closing --


@pytest.mark.parametrize(
    ("name", "wait"),
    [
        ("get_batch", lambda server: server.get_batch(1, wait=60)),
        ("wait_subscribers", lambda server: server.wait_subscribers("t", 1, timeout=60)),
        ("wait_subscribers without end", lambda server: server.wait_subscribers("t", timeout=None)),
    ],
)
def test_close_wakes_who_waits(name: str, wait: Callable[[ReplayMemoryServer], Any]) -> None:
    with started() as server:
        waits = [Call(lambda: wait(server)) for _ in range(2)]
        assert waits[0].blocks(), name
    for each in waits:
        with pytest.raises(RuntimeError, match="closed"):
            each.result()


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
def test_closed_server_says_so(call: Callable[[ReplayMemoryServer], Any]) -> None:
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


def test_whoever_closes_finds_the_ports_free() -> None:
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
        made(0, pub_endpoint=free)
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


# -- hostile messages --


def hostile(client: Any) -> dict[str, list[bytes]]:
    """Messages that no client sends to a PULL worker, by what is wrong with them."""
    good = network.cache_message(client)
    nan = np.full(32, np.nan, np.float32).tobytes()

    def bad(**changes: Any) -> list[bytes]:
        return network.cache_message(client, **changes)

    return {
        "empty": [b""],
        "empty frames": [b""] * 5,
        "text": [b"GET / HTTP/1.1"],
        "other version": [pb.Header(version=2, log=pb.Log(text="x")).SerializeToString()],
        "no body": [encode(1)],
        "request": [encode(1, sizes_request=pb.SizesRequest())],
        "reply": [encode(1, counter_reply=pb.CounterReply())],
        "log with frames": [encode(1, log=pb.Log(text="x")), b"more"],
        "cache without frames": good[:1],
        "cut header": [good[0][:-3], *good[1:]],
        "other template": bad(template=1),
        "other flags": bad(flags=1),
        "more flags than fields": bad(flags=2**32 - 1),
        "other stack": bad(frame_stack=2),
        "no rows": bad(rows=0),
        "more rows": bad(rows=33),
        "huge rows": bad(rows=2**32 - 1),
        "NaN sum": bad(weight_sum=math.nan),
        "infinite sum": bad(weight_sum=math.inf),
        "huge sum": bad(weight_sum=1.7e308),
        "sum of zero": bad(weight_sum=0.0),
        "NaN weight": bad(frames=lambda frames: [nan, *frames[1:]]),
        "weight of zero": bad(frames=lambda frames: [bytes(128), *frames[1:]]),
        "short frame": bad(frames=lambda frames: [*frames[:-1], frames[-1][:-1]]),
        "missing frame": bad(frames=lambda frames: frames[:-1]),
        "further frame": bad(frames=lambda frames: [*frames, b""]),
        "thousands of frames": bad(frames=lambda frames: frames * 500),
        "frames in another order": bad(frames=lambda frames: frames[::-1]),
    }


with full_pair() as (_, _client):
    KINDS = list(hostile(_client))


def assert_serves(server: ReplayMemoryServer, client: Any) -> None:
    """The workers of a server still do what they are for."""
    before = server.total_caches
    client.update_counter()
    assert client.push_cache() == 0
    arrived(server, before + 1)
    network.assert_consistent(server.get_batch(1, wait=SLACK))


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_message_is_dropped_and_counted(kind: str) -> None:
    with full_pair(1) as (server, client):
        with network.raw(zmq.PUSH, server.pull_endpoint) as socket:
            socket.send_multipart(hostile(client)[kind])
            eventually(lambda: server.total_refused == 1)
        assert (server.total_caches, server.weight_sum) == (0, 0.0)
        assert_serves(server, client)
        assert server.total_refused == 1


def test_random_bytes_are_dropped_and_counted() -> None:
    rng = random.Random(0)
    with full_pair(1) as (server, client):
        with network.raw(zmq.PUSH, server.pull_endpoint) as socket:
            for _ in range(200):
                frames = rng.randint(1, 20)
                socket.send_multipart([rng.randbytes(rng.randint(0, 99)) for _ in range(frames)])
            eventually(lambda: server.total_refused == 200)
        assert_serves(server, client)


def test_frame_that_is_too_large_ends_only_its_own_connection() -> None:
    with full_pair(1) as (server, client):
        with network.raw(zmq.PUSH, server.pull_endpoint) as socket:
            socket.send(bytes(64 << 20))
            assert_serves(server, client)
        assert server.total_refused == 0


def test_what_is_not_even_zeromq_is_ignored() -> None:
    with full_pair(1) as (server, client):
        for at in network.endpoints(server):
            with zmq.Context() as context, context.socket(zmq.STREAM) as socket:
                socket.connect(at)
                identity, _ = socket.recv_multipart()
                socket.send_multipart([identity, b"GET / HTTP/1.1\r\n\r\n" * 100])
        assert_serves(server, client)


BAD_REQUESTS = {
    "empty": [b""],
    "text": [b"GET / HTTP/1.1"],
    "other version": [pb.Header(version=9, sizes_request=pb.SizesRequest()).SerializeToString()],
    "no body": [encode(1)],
    "a cache": [encode(1, cache=pb.Cache(rows=1))],
    "a reply": [encode(1, sizes=pb.Sizes())],
    "frames": [encode(1, sizes_request=pb.SizesRequest()), b"more"],
    "thousands of frames": [encode(1, sizes_request=pb.SizesRequest())] * 3000,
}


@pytest.mark.parametrize("kind", BAD_REQUESTS)
def test_bad_request_is_refused_with_a_reason_and_counted(kind: str) -> None:
    with full_pair(1) as (server, client):
        with network.raw(zmq.REQ, server.rep_endpoint) as socket:
            socket.send_multipart(BAD_REQUESTS[kind])
            assert decode(socket.recv()).refusal.reason
        assert server.total_refused == 1
        assert_serves(server, client)


def test_requests_without_an_envelope_or_a_reader_hold_nobody_up() -> None:
    request = encode(1, sizes_request=pb.SizesRequest())
    with full_pair(1) as (server, client):
        with network.raw(zmq.DEALER, server.rep_endpoint) as socket:
            socket.send(b"no envelope")
            for _ in range(500):
                socket.send_multipart([b"", request])
            assert_serves(server, client)
        assert_serves(server, client)


def test_publisher_takes_no_messages() -> None:
    with full_pair(1) as (server, client), network.raw(zmq.XSUB, server.pub_endpoint) as socket:
        for message in (b"", b"\x01", b"\x00", b"\x01\x05", b"hello", b"\x01" + b"\xff" * 10):
            socket.send(message)
        socket.send_multipart([b"\x01", b"\x01t"])
        server.pub_bytes("t", "m")
        assert client.sub_bytes("t", last=True, timeout=SLACK) == b"m"


def test_a_stranger_does_not_change_the_number_of_subscribers() -> None:
    with full_pair(1) as (server, client):
        listening = Call(lambda: client.sub_bytes("t", timeout=60))
        server.wait_subscribers("t", timeout=SLACK)
        with network.raw(zmq.XSUB, server.pub_endpoint) as socket:
            key, other = (Key(MESSAGES, digest_of_topic(topic)) for topic in (b"t", b"other"))
            socket.send(b"\x07" + key.frame())
            socket.send(b"\x01" + other.frame())
            server.wait_subscribers("other", timeout=SLACK)
            server.wait_subscribers("t", timeout=0)
        server.pub_bytes("t", "m")
        assert listening.result() == b"m"


def test_one_warning_a_peer(caplog: pytest.LogCaptureFixture) -> None:
    with started() as server, network.raw(zmq.PUSH, server.pull_endpoint) as socket:
        for _ in range(20):
            socket.send(b"garbage")
        eventually(lambda: server.total_refused == 20)
    (record,) = caplog.records
    assert "127.0.0.1" in record.getMessage()
    assert "not a message of cogrs" in record.getMessage()


# -- construction --


@pytest.mark.parametrize("name", ["hwm", "pub_hwm"])
@pytest.mark.parametrize("value", [0, -1, 2**31, 2**70])
def test_high_water_mark_out_of_range(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"^{name}"):
        made(**{name: value})


@pytest.mark.parametrize("n_caches", [0, -1])
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


def test_endpoints_are_none_before_there_are_workers() -> None:
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


# -- other processes --

FORKED = """
import os, sys, threading
import numpy as np
from tests.replay import build, network

server = network.started(1)
client = network.connected(server)
build.add_uniform(client.rem, 5)
waiting = network.Call(lambda: server.get_batch(1, wait=60))
assert waiting.blocks()
calls = {
    "get_batch": lambda: server.get_batch(1),
    "get_batch wait": lambda: server.get_batch(1, wait=5),
    "pub_bytes": lambda: server.pub_bytes("t", "m"),
    "rem.pub_bytes": lambda: server.rem.pub_bytes("t", "m"),
    "wait_subscribers": lambda: server.wait_subscribers("t", 1, timeout=5),
    "wait_subscribers of none": lambda: server.wait_subscribers("t", 0),
    "set_logfile": lambda: server.set_logfile(os.devnull, "w"),
    "start": lambda: server.start(),
    "rep_worker_main": lambda: server.rep_worker_main(network.LOOPBACK, "Bind"),
    "pull_proxy_main": lambda: server.pull_proxy_main(network.LOOPBACK, network.LOOPBACK),
    "total_caches": lambda: server.total_caches,
    "total_steps": lambda: server.total_steps,
    "weight_sum": lambda: server.weight_sum,
}
for name, call in calls.items():
    child = os.fork()
    if child == 0:
        try:
            call()
        except RuntimeError as error:
            os.write(1, f"{name}: {'fork' in str(error)}\\n".encode())
        server.close()
        sys.exit(7)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code != 7:
        os.write(1, f"{name}: exit code {code}\\n".encode())
client.push_cache()
print("parent:", len(waiting.result().weight))
client.close()
server.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_use_after_a_fork_is_refused_at_once_and_the_parent_goes_on() -> None:
    done = network.run(FORKED)
    assert done.stderr == ""
    *children, parent = done.stdout.splitlines()
    assert [line for line in children if not line.endswith(": True")] == []
    assert len(children) == 13
    assert parent == "parent: 1"


INTERRUPTED = """
import sys
from tests.replay import network

server = network.made()
call = eval("lambda: " + sys.argv[1])
try:
    print("ready", flush=True)
    call()
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize(
    "call",
    [
        "server.get_batch(1, wait=60)",
        "server.wait_subscribers('t', timeout=None)",
        "server.rep_worker_main(network.LOOPBACK, 'Bind')",
        "server.pull_worker_main(network.LOOPBACK, 'Bind')",
        "server.rep_proxy_main(network.LOOPBACK, network.LOOPBACK)",
        "server.pull_proxy_main(network.LOOPBACK, network.LOOPBACK)",
    ],
)
def test_control_c_ends_a_call_and_the_process(call: str) -> None:
    process = network.launch(INTERRUPTED, call)
    with network.ended([process]):
        network.said(process, "ready")
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.wait(SLACK) == 0
        assert process.communicate() == ("interrupted\n", "")


INTERRUPTED_ANYWHERE = """
import random, signal, threading
from tests.replay import build, network

main, rng = threading.main_thread().ident, random.Random(0)

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
from cogrs.replay.transport import Transport

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


def test_close_while_everybody_is_busy() -> None:
    for _ in range(2):
        server = started(1, cache_size=8)
        clients = [connected(server, timeout=0.1) for _ in range(2)]
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
