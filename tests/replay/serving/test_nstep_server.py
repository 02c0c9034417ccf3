"""n-step returns over the network: carried by caches, given by servers and samplers."""

import threading
from typing import Any

import numpy as np
import pytest
import zmq

from cogrs import NStepBatch, NStepIdBatch, ReplayMemoryServer, ReplaySampler
from cogrs._core import CacheStore, draw_cache
from cogrs.replay import start_server
from cogrs.replay.wire import memory_like, sizes_of
from cogrs.workers import LearnerWorker
from tests.replay import build
from tests.replay.network import (
    SLACK,
    arrived,
    cache_message,
    connected,
    eventually,
    pair,
    raw,
    restarted,
    started,
)

SETTINGS = {"multi_step": 3, "discount_factor": [0.5]}


def expected(batch: Any, actions: int, first: int) -> tuple[list[float], list[float]]:
    """Returns and discounts of a terminated episode whose step t holds first + t."""
    sums, discounts = [], []
    for t in (batch.prev.s[:, -1] - first).tolist():
        steps = min(3, actions - t)
        sums.append(sum(0.5**k * (first + t + k) for k in range(steps)))
        discounts.append(0.0 if t + 3 >= actions else 0.125)
    return sums, discounts


def assert_sums(batch: Any, actions: int = 6, first: int = 0) -> None:
    sums, discounts = expected(batch, actions, first)
    assert batch.nstep_return.tolist() == sums
    assert batch.nstep_discount.tolist() == discounts
    assert batch.nstep_return.dtype == batch.nstep_discount.dtype == np.float32
    assert set(discounts) == {0.0, 0.125}


def filled(first: int = 0, **changes: Any) -> ReplayMemoryServer[Any]:
    """A server with one cache of a terminated episode of 6 steps that count from `first`."""
    server = started(1, nstep=True, **SETTINGS, cache_size=64, **changes)
    with connected(server) as client:
        build.add_uniform(client.rem, 6, first, final_state=first + 6)
        assert client.push_cache() == 0
        arrived(server, 1)
    return server


@pytest.mark.parametrize("ids", [False, True])
@pytest.mark.parametrize(
    "flags", [[True] * 14, [True, *[False] * 13], [*[True] * 7, True, *[False] * 6]]
)
def test_batch_of_a_server_has_the_clients_nstep_returns(ids, flags):
    with filled(ids=ids, cache_flags=flags, frame_stack=2) as server:
        batch = server.get_batch(60)
    columns = ("id", "sender") if ids else ()
    assert batch._fields == ("prev", "next", "weight", *columns, "nstep_return", "nstep_discount")
    assert type(batch) is (NStepIdBatch if ids else NStepBatch)
    assert_sums(batch)
    if ids:
        assert len(set(batch.sender.tolist())) == 1
        assert set((batch.id - batch.id.min()).tolist()) == set(range(5))


def test_large_cache_in_frames_of_its_own_gives_the_same():
    frame = np.zeros(100_000, np.uint8)
    with started(1, nstep=True, **SETTINGS, cache_size=32, i=frame) as server:
        with connected(server) as client:
            frames = np.zeros((6, 100_000), np.uint8)
            build.add_uniform(client.rem, 6, i=frames, final_state=6)
            client.push_cache()
            arrived(server, 1)
        assert_sums(server.get_batch(32))


def test_vector_rewards_have_a_sum_and_a_discount_each():
    zeros = np.zeros(2, np.float32)
    with (
        started(
            1, nstep=True, r=zeros, v=zeros, q=zeros, multi_step=2, discount_factor=[1.0, 0.5]
        ) as server,
        connected(server) as client,
    ):
        client.rem.add_episode(
            **build.steps(2, r=[[1, 2], [10, 20]], v=np.zeros((2, 2))),
            **build.UNIFORM,
            final_state=9,
            bootstrap_value=[0.0, 0.0],
        )
        client.push_cache()
        batch = server.get_batch(20, wait=SLACK)
    first = batch.prev.s[:, 0] == 0
    assert batch.nstep_return.tolist() == [[11, 12] if one else [10, 20] for one in first]
    assert batch.nstep_discount.tolist() == [[1, 0.25] if one else [1, 0.5] for one in first]


@pytest.mark.parametrize("ids", [False, True])
def test_batch_of_a_sampler_has_nstep_returns(ids):
    one, other = (filled(ids=ids, reuse_cache=True) for _ in range(2))
    with (
        one,
        other,
        ReplaySampler([one.rep_endpoint, other.rep_endpoint], timeout=SLACK) as sampler,
    ):
        batch = sampler.get_batch(64, wait=SLACK)
        assert type(batch) is (NStepIdBatch if ids else NStepBatch)
        assert_sums(batch)
        ready = batch._replace(nstep_return=batch.nstep_return * 0 - 1)
        assert sampler.get_batch(64, wait=SLACK, out=ready) is ready
        assert_sums(ready)


def test_worker_learns_from_batches_with_nstep_returns():
    seen: list[NStepBatch] = []

    def update(batch: NStepBatch) -> dict[str, float]:
        seen.append(batch)
        return {}

    with filled() as server:
        worker = LearnerWorker(server, update, lambda: b"", batch_size=60)
        assert worker.step(timeout=SLACK) == {}
    assert_sums(seen[0])


def test_out_is_filled():
    with filled(reuse_cache=True) as server:
        ready = server.get_batch(40)
        ready.nstep_return[:] = ready.nstep_discount[:] = -1
        assert server.get_batch(40, out=ready) is ready
        assert_sums(ready)
        with pytest.raises(TypeError, match="weight, nstep_return, nstep_discount"):
            server.get_batch(40, out=ready[:3])


def test_server_of_a_file_gives_nstep_returns(tmp_path):
    path = tmp_path / "replay.toml"
    tables = dict.fromkeys(("reward", "prob", "value", "qvest"), "float32")
    tables |= dict.fromkeys(("state", "action", "info"), "int64")
    lines = [f'{name} = {{ dtype = "{dtype}" }}' for name, dtype in tables.items()]
    settings = (
        'new_priority = "max"\npriority_epsilon = 0.5\nframe_padding = "zero"\nmulti_step = 3'
    )
    templates = "\n".join(lines)
    path.write_text(
        f"n_caches = 1\nnstep = true\n[templates]\n{templates}\n[settings]\n{settings}\n"
    )
    with start_server(path) as server, connected(server) as client:
        assert (client.rem.new_priority, client.rem.priority_epsilon) == ("max", 0.5)
        assert client.rem.frame_padding == "zero"
        build.add_uniform(client.rem, 6, final_state=6)
        client.push_cache()
        assert type(server.get_batch(4, wait=SLACK)) is NStepBatch


# -- what does not go together --


@pytest.mark.parametrize("nstep", ["yes", 1, None])
def test_nstep_is_a_truth_value(nstep):
    with pytest.raises(TypeError, match="nstep: expected True or False, got"):
        started(1, nstep=nstep)


@pytest.mark.parametrize("nstep", [False, True])
def test_cache_of_a_client_from_before_is_refused_by_its_layout(nstep):
    """The server comes again with another `nstep`; its client has not synchronized since."""
    with started(1, nstep=nstep) as before, connected(before) as client:
        build.add_uniform(client.rem, 6)
        before.close()
        with restarted(before, 1, nstep=not nstep) as server:
            eventually(lambda: client.push_cache() == 0 and server.stats().refused["layout"] > 0)
            assert server.total_caches == 0
            client.sync_sizes(64)
            build.add_uniform(client.rem, 6)
            client.push_cache()
            arrived(server, 1)


@pytest.mark.parametrize("claims", [False, True])
def test_cache_that_lies_about_its_columns_is_refused(claims):
    with pair(1, nstep=True) as (server, client):
        build.add_uniform(client.rem, 6)
        message = cache_message(client, nstep=claims)  # without the columns
        with raw(zmq.PUSH, server.pull_endpoint) as socket:
            socket.send_multipart(message)
            reason = "cache" if claims else "layout"
            eventually(lambda: server.stats().refused[reason] == 1)
        assert server.total_caches == 0


def test_sampler_refuses_servers_that_differ():
    one, other = filled(), started(1, cache_size=64)
    with one, other, connected(other) as client:
        build.add_uniform(client.rem, 6)
        client.push_cache()
        arrived(other, 1)
        for order in ([one, other], [other, one]):
            where = [server.rep_endpoint for server in order]
            with (
                ReplaySampler(where, timeout=SLACK) as sampler,
                pytest.raises(RuntimeError, match=r"has other .* ids, nstep or sequences than"),
            ):
                sampler.get_batch(4, wait=SLACK)


def test_store_refuses_caches_of_another_kind():
    memory = build.memory(64, seed=0)
    build.add_uniform(memory, 20)
    for nstep in (False, True):
        rows, total, _, _, frames = draw_cache(memory, nstep=not nstep)
        with pytest.raises(ValueError, match="columns: expected"):
            CacheStore(build.memory(0), 1, nstep=nstep).push(rows, total, frames)


@pytest.mark.parametrize(
    "settings",
    [
        {"new_priority": "max", "priority_epsilon": 0.25, "frame_padding": "repeat"},
        {"new_priority": 0.0},
        {"new_priority": 2.5, "frame_padding": "zero"},
        {"new_priority": "returns"},
    ],
)
def test_clients_take_the_settings_over(settings):
    with started(1, **settings) as server, connected(server) as client:
        assert {name: getattr(client.rem, name) for name in settings} == settings


def test_padded_stacks_come_over():
    with pair(1, frame_stack=3, frame_padding="repeat", cache_size=40) as (server, client):
        build.add_uniform(client.rem, 3, first=5)
        client.push_cache()
        batch = server.get_batch(40, wait=SLACK)
    assert {tuple(row) for row in batch.prev.s.tolist()} == {(5, 5, 5), (5, 5, 6)}


def test_settings_of_a_server_from_before_are_the_defaults():
    """A peer that does not know the newer fields leaves them out."""
    memory = build.memory(8, new_priority="max", priority_epsilon=0.5, frame_padding="zero")
    sizes = sizes_of(memory, 0, nstep=True)
    for name in ("new_priority", "priority_epsilon", "frame_padding"):
        sizes.settings.ClearField(name)
    made = memory_like(sizes, 8, None, None)
    assert (made.new_priority, made.priority_epsilon, made.frame_padding) == ("returns", 0, "none")


def test_many_threads_take_batches_that_agree_with_themselves():
    with filled(reuse_cache=True) as server:
        failures: list[BaseException] = []

        def take() -> None:
            try:
                for _ in range(50):
                    assert_sums(server.get_batch(60))
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=take) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []
