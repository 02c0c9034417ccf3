"""Counters: the totals that clients send, and the server's sums of them."""

from collections.abc import Callable
from typing import Any

import pytest
import zmq

from cogrs.api import replay_pb2 as pb
from cogrs.replay.wire import decode, encode
from tests.replay import build, network
from tests.replay.network import (
    arrived,
    connected,
    full_pair,
    pair,
    started,
)

# -- what a server is told --


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


def test_counts_of_several_senders_add_up(counting: Callable[..., Any]) -> None:
    assert [counting(1, 1, 10), counting(2, 1, 5), counting(1, 2, 20)] == [
        (1, 10),
        (2, 15),
        (3, 25),
    ]


def test_largest_counts_do_not_overflow(counting: Callable[..., Any]) -> None:
    most = 2**64 - 1
    counting(1, most, most)
    assert counting(2**32 - 1, most, most) == (2 * most, 2 * most)


def test_total_caches_counts_caches_that_arrived() -> None:
    with full_pair(1) as (server, client):
        assert server.total_caches == 0
        for _ in range(5):
            client.push_cache()
        arrived(server, 5)
        assert server.total_caches == 5
        server.get_batch(1)
        assert server.total_caches == 5


# -- what a client tells --


def test_counters_count_all_closed_episodes_and_steps() -> None:
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


def test_counters_count_evicted_episodes_and_no_final_states() -> None:
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
