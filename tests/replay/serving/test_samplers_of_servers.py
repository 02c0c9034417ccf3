"""Samplers and limits of draws over the network: a server's settings decide how clients draw."""

import numpy as np
import pytest

from cogrs import ReplaySampler
from tests.replay.build import UNIFORM, add_uniform, steps
from tests.replay.network import SLACK, arrived, connected, pair, started


def test_sampler_limit_and_remover_of_a_server_reach_its_clients():
    settings = {"sampler": "fifo", "max_times_sampled": 3, "remover": "lifo"}
    with pair(1, **settings) as (_, client):
        assert {name: getattr(client.rem, name) for name in settings} == settings


def test_queue_passes_every_entry_once_and_in_order():
    with pair(1, sampler="fifo", max_times_sampled=1, cache_size=4) as (server, client):
        got = []
        for k in range(6):
            add_uniform(client.rem, 5, 4 * k, s=4 * k + np.arange(5))
            assert client.push_cache() == 0
            arrived(server, k + 1)
            got += server.get_batch(4, wait=SLACK).prev.s[:, 0].tolist()
            assert client.push_cache() == -1
        assert got == list(range(24))


@pytest.mark.parametrize("sampler", ["prioritized", "stratified", "uniform", "fifo", "highest"])
def test_push_cache_sends_nothing_where_fewer_entries_than_a_cache_are_left(sampler):
    with pair(2, sampler=sampler, max_times_sampled=1, cache_size=4) as (server, client):
        add_uniform(client.rem, 7)
        assert client.push_cache() == 0
        assert client.push_cache() == -1
        assert client.rem.num_drawable == 2
        add_uniform(client.rem, 3)
        assert client.push_cache() == 0
        arrived(server, 2)


def test_share_of_a_uniform_cache_is_the_number_of_drawable_entries_for_all_weights():
    options = {"sampler": "uniform", "cache_size": 3000, "max_times_sampled": 0}
    with (
        started(2, **options) as server,
        connected(server) as small,
        connected(server) as large,
        ReplaySampler([server.rep_endpoint], timeout=SLACK) as sampler,
    ):
        # Of weight 0, and of a weight a thousand times as large as there are entries.
        small.rem.update_priority(
            np.arange(10) + small.rem.add_episode(**steps(11), **UNIFORM), 1e4, absolute=True
        )
        large.rem.update_priority(
            np.arange(30) + large.rem.add_episode(**steps(31, 100), **UNIFORM), 0.0, absolute=True
        )
        assert small.push_cache() == large.push_cache() == 0
        arrived(server, 2)
        assert server.weight_sum == 40
        states = server.get_batch(2000).prev.s[:, 0]
        # 3 in 4 of 2000: five standard deviations.
        assert abs(np.sum(states >= 100) - 1500) < 97
        counts = np.bincount(states, minlength=130)
        assert np.all(counts[:10] > 0)
        assert np.all(counts[100:130] > 0)
        batch = sampler.get_batch(500)
        assert {0.0, 1e4} == set(batch.weight.tolist())


@pytest.mark.parametrize("sampler", ["fifo", "lifo", "highest", "lowest"])
def test_caches_of_ordered_samplers_have_equal_shares(sampler):
    with pair(2, sampler=sampler, cache_size=4) as (server, client):
        add_uniform(client.rem, 9)
        assert client.push_cache() == client.push_cache() == 0
        arrived(server, 2)
        assert server.weight_sum == 2


def test_stratified_cache_keeps_the_sum_of_weights():
    with pair(1, sampler="stratified", cache_size=4) as (server, client):
        add_uniform(client.rem, 9)
        assert client.push_cache() == 0
        arrived(server, 1)
        assert server.weight_sum == client.rem.weight_sum == 8
