"""What a client asks of a server, pushes to it, and does when there is none."""

import gc
import math
import os
import pickle
import signal
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import zmq

from cogrs import ReplayMemoryClient
from cogrs.api import replay_pb2 as pb
from cogrs.replay.wire import SETTINGS, encode, sizes_of
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
from tests.replay.test_wire import ODD
from tests.replay.test_wire import SETTINGS as OTHER_SETTINGS

# -- construction --


def test_constructor_does_not_wait_and_starts_nothing() -> None:
    before = network.our_threads()
    with deaf(timeout=60):
        assert network.our_threads() == before


def test_constructor_with_max_step_syncs() -> None:
    with started() as server, connected(server, max_step=12) as client:
        assert client.rem.max_step == 12


def test_constructor_that_cannot_sync_leaves_nothing_behind() -> None:
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
        ("timeout", math.nan),
        ("seed", -1),
        ("seed", 2**64),
        ("max_step", -1),
    ],
)
def test_numbers_out_of_range_are_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"^{name}"):
        deaf(**{name: value})


# -- sync_sizes --


def test_sync_copies_all_settings() -> None:
    two = np.zeros(2, np.float32)
    with started(r=two, v=two, q=two, **OTHER_SETTINGS) as server, connected(server) as client:
        assert {name: getattr(client.rem, name) for name in SETTINGS} == {
            name: getattr(server.rem, name) for name in SETTINGS
        }
        assert client.rem.frame_stack == 3


def test_sync_copies_settings_of_the_moment() -> None:
    with pair() as (server, client):
        server.rem.multi_step = 4
        assert client.rem.multi_step == 1
        client.sync_sizes(8)
        assert client.rem.multi_step == 4


@pytest.mark.parametrize("template", ODD, ids=lambda each: f"{each.dtype}{each.shape}")
def test_templates_of_any_dtype_go_over_and_their_values_come_back(template: np.ndarray) -> None:
    raw = np.arange(20 * max(1, template.nbytes), dtype=np.uint64).astype(np.uint8) % 2
    native = template.dtype.newbyteorder("=")
    values = np.zeros((20, *template.shape), native)
    values.view(np.uint8).reshape(-1)[:] = raw[: values.nbytes]
    if native.kind == "U":
        values[:] = "öx"
    with pair(1, s=template, i=template, cache_size=5) as (server, client):
        build.add_uniform(client.rem, 20, s=values, i=values)
        client.push_cache()
        batch = server.get_batch(5, wait=SLACK)
    assert batch.prev.i.dtype == native
    assert batch.prev.s.shape == (5, 1, *template.shape)
    for row, info in zip(batch.prev.a.tolist(), batch.prev.i, strict=True):
        assert np.array_equal(info, values[row])


def test_images_come_back_byte_for_byte() -> None:
    frames = np.random.default_rng(0).integers(0, 256, (20, 84, 84), np.uint8)
    with pair(1, s=frames[0], frame_stack=4) as (server, client):
        build.add_uniform(client.rem, 20, s=frames)
        client.push_cache()
        prev, later, _ = server.get_batch(32, wait=SLACK)
    for row, number in enumerate(prev.i.tolist()):
        assert (prev.s[row] == frames[number - 3 : number + 1]).all()
        assert (later.s[row] == frames[number - 2 : number + 2]).all()


def test_info_of_size_zero_has_rows_without_anything() -> None:
    with pair(1, i=np.zeros((0, 3), np.int8)) as (server, client):
        build.add_uniform(client.rem, 5, i=np.zeros((5, 0, 3), np.int8))
        client.push_cache()
        assert server.get_batch(4, wait=SLACK).prev.i.shape == (4, 0, 3)


def test_second_sync_makes_a_new_memory_and_the_old_stays_usable() -> None:
    with full_pair() as (_, client):
        old = client.rem
        client.sync_sizes(8)
        assert client.rem is not old
        assert (client.rem.num_episode(), client.rem.max_step) == (0, 8)
        build.add_uniform(old, 3, first=100)
        assert old.num_episode() == 2
        assert client.push_cache() == -1


def test_sync_that_fails_leaves_the_memory() -> None:
    with full_pair() as (_, client):
        old = client.rem
        with pytest.raises(ValueError, match="max_step"):
            client.sync_sizes(-1)
        assert client.rem is old
        assert client.push_cache() == 0


def test_sync_with_a_memory_that_is_too_large_is_a_memory_error() -> None:
    with pair() as (_, client):
        old = client.rem
        with pytest.raises(MemoryError):
            client.sync_sizes(2**50)
        assert client.rem is old


def test_many_rewards_can_be_synced() -> None:
    rewards = np.zeros(100_000, np.float32)
    with (
        started(r=rewards, v=rewards, q=rewards) as server,
        connected(server, 4, timeout=5) as client,
    ):
        assert len(client.rem.discount_factor) == 100_000


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.rem,
        lambda client: client.push_cache(),
        lambda client: client.update_counter(),
        lambda client: client.write_log("line"),
    ],
    ids=["rem", "push_cache", "update_counter", "write_log"],
)
def test_calls_before_sync_say_what_is_missing(call: Callable[[ReplayMemoryClient], Any]) -> None:
    with deaf() as client, pytest.raises(RuntimeError, match="call sync_sizes"):
        call(client)


# -- counters --


def test_counters_tell_what_was_ever_closed() -> None:
    with pair(max_step=8) as (server, client):
        for length in (3, 5, 0):
            build.add_uniform(client.rem, length)
            client.update_counter()
        assert (server.total_episodes, server.total_steps) == (3, 8)
        client.update_counter()
        assert (server.total_episodes, server.total_steps) == (3, 8)


def test_counters_survive_a_second_sync() -> None:
    with full_pair() as (server, client):
        client.update_counter()
        client.sync_sizes(8)
        client.update_counter()
        assert (server.total_episodes, server.total_steps) == (1, 20)
        build.add_uniform(client.rem, 2)
        client.update_counter()
        assert (server.total_episodes, server.total_steps) == (2, 22)


def test_counters_count_what_was_evicted_and_not_final_states() -> None:
    with pair() as (server, client):
        client.sync_sizes(4)
        build.add_uniform(client.rem, 3)
        build.add_uniform(client.rem, 3, final_state=9)
        assert client.rem.num_episode() == 1
        client.update_counter()
        assert (server.total_episodes, server.total_steps) == (2, 6)


def test_counters_of_several_clients_add_up() -> None:
    with full_pair() as (server, client), connected(server) as other:
        build.add_uniform(other.rem, 5)
        for each in (client, other, client):
            each.update_counter()
        assert (server.total_episodes, server.total_steps) == (2, 25)


# -- push_cache --


def push_for_ever(client: ReplayMemoryClient) -> None:
    while True:
        client.push_cache()


def test_nothing_to_draw_is_minus_one_and_nothing_is_sent() -> None:
    with pair() as (server, client):
        assert client.push_cache() == -1
        client.rem.new_episode()
        client.rem.add_entries(**build.steps(5))
        assert client.push_cache() == -1
        client.rem.close_episode(1.0, False, False)
        assert client.push_cache() == 0
        arrived(server, 1)
        client.rem.clear()
        build.add_uniform(client.rem, 5, init_w=0.0)
        assert client.push_cache() == -1
        client.rem.priority_exponent = 1.0
        client.rem.add_episode(**build.steps(3, r=[1, 2, 4], v=[7, 6, 4]))
        assert client.push_cache() == -1
        assert server.total_caches == 1


def test_cache_of_one_sample() -> None:
    with full_pair(1, cache_size=1) as (server, client):
        client.push_cache()
        assert len(server.get_batch(1, wait=SLACK).weight) == 1


def test_caches_are_drawn_from_a_seed() -> None:
    def caches(seed: int | None) -> list[int]:
        with started(1) as server, connected(server, seed=seed) as client:
            build.add_uniform(client.rem, 20)
            client.push_cache()
            return server.get_batch(32, wait=SLACK).prev.i.tolist()

    assert caches(7) == caches(7)
    assert caches(7) != caches(8)
    assert caches(None) != caches(None)


def test_second_sync_goes_on_with_other_draws() -> None:
    with started(1) as server, connected(server, seed=7) as client:
        drawn = []
        for count in (1, 2):
            build.add_uniform(client.rem, 20)
            client.push_cache()
            arrived(server, count)
            drawn.append(server.get_batch(32).prev.i.tolist())
            client.sync_sizes(64)
    assert drawn[0] != drawn[1]


@pytest.mark.parametrize("change", [{"frame_stack": 2}, {"cache_flags": [False]}], ids=str)
def test_settings_that_the_server_does_not_have_are_refused(change: dict[str, Any]) -> None:
    with full_pair() as (server, client):
        for name, value in change.items():
            setattr(client.rem, name, value)
        with pytest.raises(ValueError, match="cache_flags and frame_stack"):
            client.push_cache()
        assert (server.total_caches, server.total_refused) == (0, 0)


def test_cache_that_is_larger_than_the_server_takes_is_refused() -> None:
    with full_pair() as (server, client):
        client.rem.cache_size = 1_000_000
        with pytest.raises(ValueError, match="cache_size: expected frames of at most"):
            client.push_cache()
        client.rem.cache_size = 4
        assert client.push_cache() == 0
        arrived(server, 1)


def test_largest_frame_goes_through() -> None:
    with pair(1, s=np.zeros(1 << 16, np.uint8), cache_size=64) as (server, client):
        build.add_uniform(client.rem, 20, s=np.ones((20, 1 << 16), np.uint8))
        assert client.push_cache() == 0
        assert server.get_batch(64, wait=SLACK).prev.s.all()


def test_cache_holds_what_was_there_when_it_was_drawn() -> None:
    with pair(1, s=np.zeros(1 << 14, np.int64)) as (server, client):
        for number in range(1, 30):
            values = np.full((3, 1 << 14), number)
            client.rem.clear()
            build.add_uniform(client.rem, 3, s=values)
            client.push_cache()
        arrived(server, 29)
        assert (server.get_batch(32).prev.s == 29).all()


def test_push_waits_at_the_high_water_mark_and_names_the_peer() -> None:
    with started() as server, connected(server, timeout=0.2, hwm=3) as client:
        build.add_uniform(client.rem, 5)
        server.close()
        start = time.monotonic()
        with pytest.raises(TimeoutError, match=r"push_cache: .*3 messages.* 0\.2 s") as late:
            push_for_ever(client)
        assert time.monotonic() - start >= 0.2
        assert server.pull_endpoint in str(late.value)
        with pytest.raises(TimeoutError, match="write_log"):
            client.write_log("line")


@pytest.mark.parametrize("hwm", [1, 2])
def test_push_that_waited_goes_on_when_the_server_is_back(hwm: int) -> None:
    with started(1) as server, connected(server, timeout=60, hwm=hwm) as client:
        build.add_uniform(client.rem, 5)
        server.close()
        pushes = Call(lambda: [client.push_cache() for _ in range(40)])
        assert pushes.blocks()
        with network.restarted(server, 1) as again:
            assert pushes.result(50) == [0] * 40
            assert len(again.get_batch(4, wait=50).weight) == 4


def test_no_consumer_does_not_make_the_server_grow() -> None:
    with pair(2, s=np.zeros(1 << 16, np.uint8)) as (server, client):
        build.add_uniform(client.rem, 20, s=np.ones((20, 1 << 16), np.uint8))

        for count in range(100):
            if count == 40:
                before = network.resident_bytes()
            client.push_cache()
        arrived(server, 100)
        # A cache has 4 MiB: 60 of them did not stay.
        assert network.resident_bytes() - before < 60 * (4 << 20) / 2


def test_several_endpoints_get_caches_in_turn() -> None:
    with started(1) as server, started(1) as other:
        pushes = [server.pull_endpoint, other.pull_endpoint]
        at = (server.pub_endpoint, server.rep_endpoint, pushes)
        with ReplayMemoryClient(*at, max_step=16) as client:
            build.add_uniform(client.rem, 5)
            for _ in range(10):
                client.push_cache()
            eventually(lambda: server.total_caches + other.total_caches == 10)
            assert min(server.total_caches, other.total_caches) >= 1


# -- no server --


@pytest.mark.parametrize("timeout", [0, 0.2])
def test_no_server_is_a_timeout_that_names_it_and_the_call(timeout: float) -> None:
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
def test_answer_of_something_else_is_a_runtime_error_and_the_next_call_works(
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
    ("name", "wait"),
    [
        ("sub_bytes", lambda client: client.sub_bytes("t")),
        ("sync_sizes", lambda client: client.sync_sizes(8)),
    ],
)
def test_close_wakes_who_waits(name: str, wait: Callable[[ReplayMemoryClient], Any]) -> None:
    with deaf(timeout=60) as client:
        waits = [Call(lambda: wait(client)) for _ in range(3)]
        assert waits[0].blocks(), name
    for each in waits:
        with pytest.raises(RuntimeError, match="ReplayMemoryClient is closed"):
            each.result()


def test_close_wakes_pushes() -> None:
    with full_pair() as (server, client):
        server.close()
        pushes = [Call(lambda: push_for_ever(client)) for _ in range(3)]
        assert pushes[0].blocks()
        client.close()
        for each in pushes:
            with pytest.raises(RuntimeError, match="closed"):
                each.result()


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
def test_closed_client_says_so(call: Callable[[ReplayMemoryClient], Any]) -> None:
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


def test_what_was_pushed_before_close_arrives() -> None:
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


def test_any_thread_may_call_anything() -> None:
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


# -- other processes --

FORKED = """
import os, sys
from tests.replay import build, network

server = network.started(1)
client = network.connected(server)
deaf = network.deaf(timeout=60)
build.add_uniform(client.rem, 5)
waiting = [network.Call(lambda: client.sub_bytes("t")), network.Call(lambda: deaf.sync_sizes(4))]
server.wait_subscribers("t")
assert waiting[1].blocks()
calls = {
    "rem": lambda: client.rem,
    "sync_sizes": lambda: client.sync_sizes(4),
    "sync_sizes while another asks": lambda: deaf.sync_sizes(4),
    "update_counter": lambda: client.update_counter(),
    "push_cache": lambda: client.push_cache(),
    "write_log": lambda: client.write_log("line"),
    "sub_bytes": lambda: client.sub_bytes("t", timeout=5),
    "sub_bytes of another topic": lambda: client.sub_bytes("u", last=True, timeout=5),
    "num_dropped": lambda: client.num_dropped("t"),
}
import threading
for name, call in calls.items():
    child = os.fork()
    if child == 0:
        threading.Timer(5, lambda: (os.write(1, f"{name}: hangs\\n".encode()), os._exit(7))).start()
        try:
            call()
        except RuntimeError as error:
            os.write(1, f"{name}: {'fork' in str(error)}\\n".encode())
            threading.enumerate()[-1].cancel()
        client.close()
        sys.exit(7)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code != 7:
        os.write(1, f"{name}: exit code {code}\\n".encode())
server.pub_bytes("t", "m")
print("parent:", waiting[0].result())
deaf.close()
client.close()
server.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_use_after_a_fork_is_refused_at_once_and_the_parent_goes_on() -> None:
    done = network.run(FORKED)
    assert done.stderr == ""
    *children, parent = done.stdout.splitlines()
    assert [line for line in children if not line.endswith(": True")] == []
    assert len(children) == 9
    assert parent == "parent: b'm'"


INTERRUPTED = """
import sys
from tests.replay import build, network

client = network.deaf(timeout=60)
with network.started() as server:
    full = network.connected(server, timeout=60, hwm=1)
build.add_uniform(full.rem, 5)

def push_until_full():
    while True:
        full.push_cache()

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
        "client.sub_bytes('t')",
        "client.sync_sizes(8)",
        "push_until_full()",
        "network.deaf(timeout=60, max_step=8)",
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
    print(client.sub_bytes("t", timeout=10), len(server.get_batch(1, wait=10).weight))
"""
    done = network.run(script, within=30)
    assert (done.stdout, done.stderr) == ("interrupted\ninterrupted\nb'm' 1\n", "")
