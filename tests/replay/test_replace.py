"""Servers that move: clients, samplers and subscribers that go on at other endpoints."""

import json
import re
import sys

import pytest

import cogrs
from cogrs import ReplayMemoryClient, ReplaySampler
from tests.replay import build
from tests.replay.network import (
    SLACK,
    Call,
    arrived,
    assert_consistent,
    connected,
    deaf,
    ended,
    endpoints,
    eventually,
    launch,
    started,
    unused_endpoints,
)

SERVER = """
import json, sys
from tests.replay import network

server = network.started(int(sys.argv[1]))
print(json.dumps(network.endpoints(server)), flush=True)
for line in sys.stdin:
    print(json.dumps([server.total_episodes, server.total_steps, server.total_caches]), flush=True)
"""


def ask(process):
    process.stdin.write("totals\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def started_elsewhere(n_caches=1):
    """A server in a process of its own, and its endpoints."""
    process = launch(SERVER, str(n_caches))
    return process, json.loads(process.stdout.readline())


# -- clients ---------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="this system cannot kill")
def test_client_of_a_killed_server_goes_on_with_its_totals_at_another_port():
    first, where = started_elsewhere()
    with ended([first]), ReplayMemoryClient(*where, max_step=1_000, timeout=SLACK) as client:
        build.add_uniform(client.rem, 20)
        client.update_counter()
        assert client.push_cache() == 0
        eventually(lambda: ask(first) == [1, 20, 1])
        first.kill()
        first.wait()
        build.add_uniform(client.rem, 30, 20)
        report = Call(client.update_counter)  # which waits, for nobody answers
        assert report.blocks()
        second, where = started_elsewhere()
        with ended([second]):
            assert client.replace(*where) is True
            report.result()
            assert ask(second) == [2, 50, 0]
            client.update_counter()
            assert client.push_cache() == 0
            eventually(lambda: ask(second) == [2, 50, 1])


def test_replaced_client_is_counted_once_by_a_server_of_before():
    with started(1) as one, started(1) as other, connected(one, 1_000) as client:
        build.add_uniform(client.rem, 20)
        for server in (one, other, one, other):
            assert client.replace(*endpoints(server))
            client.update_counter()
            assert client.push_cache() == 0
        arrived(one, 2)
        arrived(other, 2)
        assert one.total_steps == other.total_steps == 20
        assert one.stats().clients[client.uuid].caches == 2


def test_late_generation_changes_no_endpoint():
    with started(1) as one, started(1) as other, connected(one, 1_000) as client:
        build.add_uniform(client.rem, 20)
        assert client.replace(*endpoints(other), generation=5) is True
        for late in (5, 4, 0):
            assert client.replace(*endpoints(one), generation=late) is False
        client.update_counter()
        assert client.push_cache() == 0
        arrived(other, 1)
        assert (one.total_steps, other.total_steps, one.total_caches) == (0, 20, 0)
        assert client.replace(*endpoints(one), generation=6) is True


def test_push_that_waits_for_room_goes_to_the_new_endpoints():
    with started(1) as server, connected(server, 1_000) as client:
        build.add_uniform(client.rem, 20)
        gone = unused_endpoints(1)[0]
        client.replace(push_endpoint=gone)
        pushes = Call(lambda: [client.push_cache() for _ in range(20)])  # 16 of them find room
        assert pushes.blocks(1.5)
        client.replace(push_endpoint=server.pull_endpoint)
        assert pushes.result() == [0] * 20
        arrived(server, 4)
        build.add_uniform(client.rem, 20)
        client.push_cache()
        arrived(server, 5)
        assert server.total_caches == 5  # the first 16 waited for the endpoint that was given up


def test_client_of_several_servers_keeps_servers_that_stay():
    with started(1) as one, started(1) as other, started(1) as third:
        where = endpoints(one)
        pulls = [one.pull_endpoint, other.pull_endpoint]
        with ReplayMemoryClient(*where[:2], pulls, max_step=1_000) as client:
            build.add_uniform(client.rem, 20)
            sent = 0
            for _ in range(4):
                sent += client.push_cache() == 0
            client.replace(push_endpoint=[one.pull_endpoint, third.pull_endpoint])
            while one.total_caches + other.total_caches < 4 or third.total_caches == 0:
                sent += client.push_cache() == 0
            eventually(lambda: sent == sum(s.total_caches for s in (one, other, third)))


def test_wait_to_insert_asks_the_server_that_came_last():
    limiter = cogrs.RateLimiter.queue(20)
    with (
        started(1, limiter=limiter) as full,
        started(1, limiter=limiter) as empty,
        connected(full, 1_000) as client,
    ):
        build.add_uniform(client.rem, 20)
        waiting = Call(client.wait_to_insert)
        assert waiting.blocks(0.3)
        client.replace(*endpoints(empty))
        assert waiting.result() is True
        build.add_uniform(client.rem, 20)
        assert client.wait_to_insert(timeout=0.3) is False
        # What it had told the first server is not an insert at the second.
        assert empty.stats().limiter.inserts == 20


@pytest.mark.parametrize(
    ("replacement", "text"),
    [
        ({"sub_endpoint": "nowhere"}, "sub_endpoint: expected 'tcp://HOST:PORT'"),
        ({"req_endpoint": ""}, "req_endpoint: expected an endpoint, got ''"),
        ({"push_endpoint": []}, "push_endpoint: expected an endpoint, got []"),
        ({"generation": -1}, "generation: expected an integer >= 0, got -1"),
    ],
)
def test_replace_of_a_client_refuses_bad_arguments(replacement, text):
    with deaf() as client, pytest.raises(ValueError, match=re.escape(text)):
        client.replace(**replacement)


def test_replace_of_an_endpoint_that_the_client_was_created_without_raises():
    where = unused_endpoints(2)
    with (
        ReplayMemoryClient("", *where) as client,
        pytest.raises(ValueError, match=r"^sub_endpoint: expected None, as this client was"),
    ):
        client.replace(where[0])


def test_replace_of_a_closed_client_raises():
    client = deaf()
    client.close()
    with pytest.raises(RuntimeError, match="closed"):
        client.replace(*unused_endpoints(3))


# -- subscribers -----------------------------------------------------------------------------------


def test_subscriber_gets_the_last_message_of_the_new_server():
    with started(1) as one, started(1) as other, connected(one, None) as client:
        one.pub_bytes("model", b"1")
        assert client.sub_bytes("model", last=True, timeout=SLACK) == b"1"
        other.pub_bytes("model", b"2")
        waiting = Call(lambda: client.sub_bytes("model", timeout=SLACK))
        assert waiting.blocks()
        client.replace(*endpoints(other))
        assert waiting.result() == b"2"
        other.wait_subscribers("model", 1, SLACK)
        other.pub_bytes("model", b"3")
        assert client.sub_bytes("model", timeout=SLACK) == b"3"
        assert client.num_dropped("model") == 0


def test_subscriber_that_moves_many_times_ends_at_the_last_server():
    with started(1) as one, started(1) as other, connected(one, None) as client:
        one.pub_bytes("model", b"1")
        assert client.sub_bytes("model", last=True, timeout=SLACK) == b"1"
        for _ in range(20):
            client.replace(*endpoints(other))
            client.replace(*endpoints(one))
        client.replace(*endpoints(other))
        other.wait_subscribers("model", 1, SLACK)
        one.pub_bytes("model", b"of a server that was left")
        other.pub_bytes("model", b"2")
        assert client.sub_bytes("model", timeout=SLACK) == b"2"


def test_priorities_reach_a_client_that_has_moved():
    with (
        started(1, ids=True) as one,
        started(1, ids=True) as other,
        connected(one, 1_000) as client,
    ):
        build.add_uniform(client.rem, 20)
        client.replace(*endpoints(other))
        client.push_cache()
        batch = other.get_batch(4, wait=SLACK)
        other.update_priority(batch.id, batch.sender, [2.0] * 4)
        # A batch may have an entry twice; each of its rows counts.
        assert client.apply_priorities(timeout=SLACK).entries == 4


# -- samplers --------------------------------------------------------------------------------------


def pushed(server, first, caches=1):
    with connected(server) as client:
        build.add_uniform(client.rem, 20, first)
        for _ in range(caches):
            client.push_cache()
        arrived(server, caches)


@pytest.mark.skipif(sys.platform == "win32", reason="this system cannot kill")
def test_sampler_goes_on_with_a_killed_server_that_is_back_at_another_port():
    first, where = started_elsewhere()
    with ended([first]), started(1) as stays, started(1) as back:
        pushed(stays, 100, 2)
        with ReplayMemoryClient(*where, max_step=64) as client:
            build.add_uniform(client.rem, 20)
            client.push_cache()
            eventually(lambda: ask(first)[2] == 1)
        with ReplaySampler([where[1], stays.rep_endpoint], timeout=SLACK) as sampler:
            assert_consistent(sampler.get_batch(8, wait=SLACK))
            first.kill()
            first.wait()
            pushed(back, 0)
            waiting = Call(lambda: [sampler.get_batch(2, wait=SLACK) for _ in range(6)])
            assert waiting.blocks(0.3)
            assert sampler.replace([back.rep_endpoint, stays.rep_endpoint])
            for batch in waiting.result():
                assert_consistent(batch)
            moved, same = sampler.stats()
            assert moved.endpoint == back.rep_endpoint
            assert (moved.timeouts, moved.down) == (0, False)
            # Rows: 20 in batches, and those that wait for the next one.
            assert moved.samples + same.samples == 20 + moved.kept + same.kept
            assert same.samples == stays.stats().samples_given


def test_sampler_publishes_at_the_server_that_came_last():
    with started(1) as server, ReplaySampler(unused_endpoints(1), timeout=SLACK) as sampler:
        publishing = Call(lambda: sampler.pub_bytes("model", b"1"))
        assert publishing.blocks()
        sampler.replace([server.rep_endpoint])
        assert publishing.result() == 0
        with connected(server, None) as client:
            assert client.sub_bytes("model", last=True, timeout=SLACK) == b"1"


def test_late_generation_changes_no_endpoint_of_a_sampler():
    with started(1) as one, started(1) as other, ReplaySampler([one.rep_endpoint]) as sampler:
        pushed(other, 0)
        assert sampler.replace([other.rep_endpoint], generation=3) is True
        assert sampler.replace([one.rep_endpoint], generation=2) is False
        assert_consistent(sampler.get_batch(4, wait=SLACK))


def test_replace_of_a_sampler_refuses_another_number_of_endpoints():
    where = unused_endpoints(3)
    with ReplaySampler(where[:2]) as sampler:
        with pytest.raises(ValueError, match=r"expected 2 endpoints, as many as before, got 3"):
            sampler.replace(where)
        with pytest.raises(ValueError, match=r"expected each once"):
            sampler.replace([where[0]] * 2)
        with pytest.raises(TypeError, match=r"expected a list of endpoints, got str"):
            sampler.replace(where[0])
