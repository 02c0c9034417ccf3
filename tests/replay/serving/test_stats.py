"""The figures of a server."""

import dataclasses
import json
import os
import pickle
import threading
import time
from typing import Any

import pytest
import zmq

from cogrs.api import replay_pb2 as pb
from cogrs.replay import ServerStats, Tally
from cogrs.replay.wire import REASONS, encode
from tests.replay import build, network
from tests.replay.network import SLACK, Call, arrived, connected, eventually, full_pair, made

MOST_CLIENTS = 1024


def put_together(stats: ServerStats) -> Tally:
    """The sum of all rows."""
    rows = [*stats.clients.values(), stats.other_clients]
    return Tally(*(sum(column) for column in zip(*rows, strict=True)))


def test_stats_of_a_new_server_are_zeros() -> None:
    with made(3) as server:
        stats = server.stats()
    assert (stats.caches, stats.n_caches, stats.samples_unused) == (0, 3, 0)
    assert (stats.oldest_age, stats.newest_age) == (None, None)
    assert repr(stats.weight_sum) == "0.0"
    assert stats.received == stats.other_clients == (0, 0, 0)
    assert (dict(stats.clients), stats.samples_given, stats.samples_discarded) == ({}, 0, 0)
    assert stats.refused == dict.fromkeys(REASONS, 0)
    assert (stats.total_refused, stats.published, stats.publications_dropped) == (0, 0, 0)
    assert (stats.total_episodes, stats.total_steps, stats.log_lines) == (0, 0, 0)


def test_cache_counts_follow_arrivals_and_evictions() -> None:
    before = time.monotonic()
    with full_pair(2, cache_size=4) as (server, client):
        nbytes = sum(map(len, network.cache_message(client)[1:]))
        for _ in range(3):
            client.push_cache()
        arrived(server, 3)
        server.get_batch(5)
        stats = server.stats()
        assert (stats.caches, stats.samples_unused) == (2, 3)
        assert stats.received == (3, 12, 3 * nbytes)
        assert stats.clients == {client.uuid: stats.received}
        assert stats.weight_sum == server.weight_sum
        assert (stats.samples_given, stats.samples_discarded) == (5, 4)
        assert 0 <= stats.newest_age <= stats.oldest_age <= stats.taken_at - before
        assert before <= stats.taken_at <= time.monotonic()
        later = server.stats()
        assert later.newest_age > stats.newest_age
        assert later.taken_at > stats.taken_at
    closed = server.stats()
    assert closed.received == stats.received


def test_used_again_counts_again_and_is_not_discarded() -> None:
    with full_pair(1, cache_size=4, reuse_cache=True) as (server, client):
        client.push_cache()
        server.get_batch(9, wait=SLACK)
        client.push_cache()
        arrived(server, 2)
        stats = server.stats()
        assert (stats.samples_given, stats.samples_discarded) == (9, 0)


def test_changed_settings_discard_the_caches_held() -> None:
    with full_pair(1, cache_size=4) as (server, client):
        client.push_cache()
        server.get_batch(1, wait=SLACK)
        server.rem.cache_flags = [False]
        stats = server.stats()
        assert (stats.caches, stats.samples_discarded, stats.oldest_age) == (0, 3, None)


def test_refused_batch_counts_no_samples() -> None:
    with full_pair(1, cache_size=4) as (server, client):
        client.push_cache()
        arrived(server, 1)
        with pytest.raises(RuntimeError):
            server.get_batch(5)
        assert server.stats().samples_given == 0


def test_each_client_has_a_row_and_the_latest_sender_is_last() -> None:
    with full_pair(4) as (server, one), connected(server) as other:
        build.add_uniform(other.rem, 20)
        for number, client in enumerate((one, other, one), 1):
            client.push_cache()
            arrived(server, number)
        stats = server.stats()
        assert [(uuid, sent.caches) for uuid, sent in stats.clients.items()] == [
            (other.uuid, 1),
            (one.uuid, 2),
        ]


def test_rows_of_clients_are_bounded() -> None:
    with full_pair(1, cache_size=1) as (server, client):
        with network.raw(zmq.PUSH, server.pull_endpoint) as socket:
            for sender in range(MOST_CLIENTS + 10):
                socket.send_multipart(network.cache_message(client, sender=sender))
            arrived(server, MOST_CLIENTS + 10)
            stats = server.stats()
            assert list(stats.clients) == list(range(10, MOST_CLIENTS + 10))
            assert stats.other_clients.caches == 10
            assert put_together(stats) == stats.received
            socket.send_multipart(network.cache_message(client, sender=10))
            socket.send_multipart(network.cache_message(client, sender=0))
            arrived(server, MOST_CLIENTS + 12)
        stats = server.stats()
        assert (stats.clients[10].caches, stats.clients[0].caches) == (2, 1)
        assert 11 not in stats.clients
        assert (len(stats.clients), stats.other_clients.caches) == (MOST_CLIENTS, 11)
        assert put_together(stats) == stats.received


PUSHED = {
    "foreign": lambda client: [b"GET / HTTP/1.1"],
    "version": lambda client: [pb.Header(version=1).SerializeToString()],
    "kind": lambda client: [encode(1, sizes_request=pb.SizesRequest())],
    "frames": lambda client: [encode(1, log=pb.Log(text="x")), b"more"],
    "template": lambda client: network.cache_message(client, template=1),
    "layout": lambda client: network.cache_message(client, frame_stack=2),
    "cache": lambda client: network.cache_message(client, rows=0),
}


def test_every_reason_has_a_message() -> None:
    # Those of keys, sizes and storage depend on the server's, and have tests of their own.
    assert set(PUSHED) == set(REASONS) - {"key", "size", "storage"}


@pytest.mark.parametrize("reason", PUSHED)
def test_refused_messages_are_counted_by_reason(reason: str) -> None:
    with full_pair(1) as (server, client):
        with network.raw(zmq.PUSH, server.pull_endpoint) as socket:
            socket.send_multipart(PUSHED[reason](client))
            eventually(lambda: server.total_refused == 1)
        stats = server.stats()
        assert stats.refused == dict.fromkeys(REASONS, 0) | {reason: 1}
        assert (stats.total_refused, stats.received, stats.caches) == (1, (0, 0, 0), 0)


@pytest.mark.parametrize("reason", ["foreign", "version", "kind", "frames"])
def test_refused_requests_are_counted_by_reason(reason: str) -> None:
    bad = {"kind": [encode(1, cache=pb.Cache(rows=1))]}
    with full_pair(1) as (server, client), network.raw(zmq.REQ, server.rep_endpoint) as socket:
        socket.send_multipart(bad.get(reason) or PUSHED[reason](client))
        socket.recv()
        assert server.stats().refused == dict.fromkeys(REASONS, 0) | {reason: 1}


def test_counters_of_clients_are_in_the_stats() -> None:
    with full_pair(1) as (server, client):
        client.update_counter()
        client.update_counter()
        stats = server.stats()
        assert (stats.total_episodes, stats.total_steps) == (1, 20)
        assert (server.total_episodes, server.total_steps) == (1, 20)


def test_log_lines_are_counted_with_and_without_a_file(tmp_path: Any) -> None:
    with full_pair(1) as (server, client):
        client.write_log("one")
        eventually(lambda: server.stats().log_lines == 1)
        server.set_logfile(tmp_path / "log", "w")
        client.write_log("two")
        eventually(lambda: server.stats().log_lines == 2)


def test_publications_lost_by_a_client_are_counted_at_its_next_report() -> None:
    with network.started(1) as server, connected(server, sub_hwm=1) as client:
        server.pub_bytes("t", "first")
        assert client.sub_bytes("t", last=True, timeout=SLACK) == b"first"
        for number in range(5):
            server.pub_bytes("t", str(number))
        eventually(lambda: client.num_dropped("t") == 4)
        assert (server.stats().published, server.stats().publications_dropped) == (6, 0)
        client.update_counter()
        client.update_counter()
        assert server.stats().publications_dropped == 4


def test_figures_of_a_moment_agree_while_all_are_busy() -> None:
    stop = threading.Event()
    with full_pair(2, cache_size=8) as (server, client), connected(server) as other:
        build.add_uniform(other.rem, 20)

        def pushes(of: Any) -> None:
            while not stop.is_set():
                of.push_cache()

        def takes() -> None:
            while not stop.is_set():
                try:
                    server.get_batch(3, wait=0.05)
                except TimeoutError:
                    continue

        calls = [Call(lambda: pushes(client)), Call(lambda: pushes(other)), Call(takes)]
        try:
            arrived(server, 2)
            before = server.stats()
            while before.received.caches < 300:
                stats = server.stats()
                gone = stats.samples_given + stats.samples_discarded
                assert stats.received.samples == gone + stats.samples_unused
                assert stats.received == put_together(stats)
                assert stats.received.caches >= before.received.caches
                assert stats.weight_sum == stats.caches * client.rem.weight_sum
                assert stats.newest_age <= stats.oldest_age
                before = stats
        finally:
            stop.set()
        for call in calls:
            call.result()


def test_stats_are_snapshots() -> None:
    with full_pair(1) as (server, client):
        stats = server.stats()
        client.push_cache()
        arrived(server, 1)
        assert stats.received.caches == 0
        with pytest.raises(dataclasses.FrozenInstanceError):
            stats.caches = 1


def test_stats_can_be_pickled_and_written_as_json() -> None:
    with full_pair(1) as (server, client):
        client.push_cache()
        arrived(server, 1)
        stats = server.stats()
    assert pickle.loads(pickle.dumps(stats)) == stats
    written = json.loads(json.dumps(dataclasses.asdict(stats)))
    assert written["received"] == list(stats.received)
    assert written["clients"] == {str(client.uuid): list(stats.received)}


FORKED = """
import os
from tests.replay import network

server = network.started(1)
child = os.fork()
if child == 0:
    try:
        server.stats()
    except RuntimeError as error:
        os._exit(7 if "fork" in str(error) else 1)
    os._exit(2)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
server.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_use_after_a_fork_is_refused() -> None:
    done = network.run(FORKED)
    assert (done.stdout, done.stderr) == ("7\n", "")


CLIENT = """
import sys
from cogrs import ReplayMemoryClient
from tests.replay import build

*endpoints, uuid = sys.argv[1:]
with ReplayMemoryClient(*endpoints, int(uuid), max_step=64) as client:
    build.add_uniform(client.rem, 20)
    for _ in range(5):
        client.push_cache()
    client.update_counter()
"""


def test_stats_distinguish_clients_of_separate_processes() -> None:
    with network.started(4, cache_size=8) as server:
        processes = [
            network.launch(CLIENT, *network.endpoints(server), str(uuid)) for uuid in (1, 2)
        ]
        with network.ended(processes):
            for process in processes:
                assert process.wait(60) == 0
            arrived(server, 10)
        stats = server.stats()
        assert {uuid: sent[:2] for uuid, sent in stats.clients.items()} == {1: (5, 40), 2: (5, 40)}
        assert (stats.total_episodes, stats.total_steps, stats.samples_discarded) == (2, 40, 48)
