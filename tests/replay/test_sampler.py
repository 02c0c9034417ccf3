"""Batches from several servers, as if their caches were in one."""

import contextlib
import gc
import logging
import os
import pickle
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import cogrs
from cogrs import Conn, IdBatch, KeyPair, ReplayMemoryServer, ReplaySampler
from cogrs.api import replay_pb2 as pb
from cogrs.replay import ReplayProxy
from cogrs.replay.priorities import topic_of
from cogrs.replay.server_connection import ServerConnection
from cogrs.replay.serving.server_state import ServerState
from tests.replay import build
from tests.replay.fake_server import Fake, samples
from tests.replay.network import (
    LOOPBACK,
    SLACK,
    Call,
    arrived,
    assert_consistent,
    connected,
    ended,
    eventually,
    is_exhausted,
    launch,
    made,
    once_free,
    our_threads,
    said,
    started,
    unused_endpoints,
)


def filled(first: int, weight: float = 1.0, caches: int = 1, **changes: Any) -> ReplayMemoryServer:
    """A server with caches of 20 steps that count from `first`, of 19 times `weight` in all."""
    server = started(caches, **changes)
    with connected(server) as client:
        build.add_uniform(client.rem, 20, first, init_w=weight)
        for _ in range(caches):
            client.push_cache()
        arrived(server, caches)
    return server


@contextlib.contextmanager
def sampled(
    servers: Sequence[ReplayMemoryServer], **options: Any
) -> Iterator[ReplaySampler[cogrs.Batch]]:
    """A sampler of servers, all of which are closed in the end."""
    where = [server.rep_endpoint for server in servers]
    with contextlib.ExitStack() as stack:
        for server in servers:
            stack.enter_context(server)
        yield stack.enter_context(ReplaySampler(where, timeout=SLACK, **options))


@pytest.mark.parametrize("ahead", [0, 3])
def test_rows_are_drawn_in_proportion_to_the_sums_of_weights(ahead: int) -> None:
    shares = np.array([1.0, 2.0, 5.0])
    options = {"reuse_cache": True, "cache_size": 64}
    servers = [filled(100 * at, share, **options) for at, share in enumerate(shares)]
    rows, batches = 50, 100
    counts = np.zeros(3)
    alone = np.zeros((3, 3))
    with sampled(servers, seed=1, ahead=ahead) as sampler:
        for _ in range(batches):
            state = sampler.get_batch(rows, wait=SLACK).prev.s[:, 0]
            server = state // 100
            counts += np.bincount(server, minlength=3)
            # Rows are independent of each other: so are neighbours.
            np.add.at(alone, (server[:-1], server[1:]), 1)
        assert sampler.weight_sum == 19 * shares.sum()
        given = [each.samples - each.kept for each in sampler.stats()]
        assert ahead or not any(each.kept for each in sampler.stats())
    expected = shares / shares.sum() * rows * batches
    # Chi-square with 2 degrees of freedom exceeds 18.4 once in 10,000 runs, with 8 it exceeds 31.8.
    assert ((counts - expected) ** 2 / expected).sum() < 18.4
    pairs = np.outer(shares, shares) / shares.sum() ** 2 * alone.sum()
    assert ((alone - pairs) ** 2 / pairs).sum() < 31.8
    assert given == counts.tolist()


def test_sums_are_renewed_by_each_answer() -> None:
    options = {"reuse_cache": True}
    servers = [filled(0, 1.0, **options), filled(100, 1.0, **options)]
    with sampled(servers, seed=1) as sampler:
        sampler.get_batch(10, wait=SLACK)
        with connected(servers[1]) as client:
            build.add_uniform(client.rem, 20, 100, init_w=1e6)
            client.push_cache()
            arrived(servers[1], 2)
        for _ in range(3):  # what is planned and under way may be older
            sampler.get_batch(10, wait=SLACK)
        batch = sampler.get_batch(500, wait=SLACK)
    assert (batch.prev.s >= 100).all()


@pytest.mark.parametrize("ahead", [0, 2])
def test_each_sample_is_given_once_for_all_sizes_of_batches(ahead: int) -> None:
    servers = [filled(0, caches=3, cache_size=16), filled(100, caches=2, cache_size=16)]
    came = 0
    with sampled(servers, seed=3, ahead=ahead) as sampler:
        for rows in [1, 7, 20, 3, 30]:
            batch = sampler.get_batch(rows, wait=SLACK)
            assert_consistent(batch)
            assert len(batch.weight) == rows
            came += rows
        # One of both is used up first; what is left of the other stays there.
        while not is_exhausted(sampler):
            came += 1
            assert came <= 5 * 16

        def all_has_come() -> bool:
            assert is_exhausted(sampler)  # and takes what has come
            given = [server.stats().samples_given for server in servers]
            return given == [each.samples for each in sampler.stats()]

        eventually(all_has_come)
        stats = sampler.stats()
    assert sum(each.samples for each in stats) == came + sum(each.kept for each in stats)


@pytest.mark.parametrize(("ahead", "most"), [(0, 16), (3, 8)])
def test_one_request_asks_for_rows_of_several_batches(
    monkeypatch: pytest.MonkeyPatch, ahead: int, most: int
) -> None:
    asked, ask = [], ServerConnection._ask

    def spy(self: ServerConnection, message: bytes, rows: int) -> None:
        asked.append(rows)
        ask(self, message, rows)

    monkeypatch.setattr(ServerConnection, "_ask", spy)
    servers = [filled(0, reuse_cache=True), filled(100, reuse_cache=True)]
    with sampled(servers, seed=1, ahead=ahead) as sampler:
        for _ in range(8):
            assert len(sampler.get_batch(20, wait=SLACK).weight) == 20
    # A server may run out a batch before the other.
    assert most / 2 <= sum(rows > 0 for rows in asked) <= most


def test_out_is_filled() -> None:
    with sampled([filled(0, reuse_cache=True), filled(100, reuse_cache=True)]) as sampler:
        batch = sampler.get_batch(8, wait=SLACK)
        batch.prev.s.fill(-1)
        assert sampler.get_batch(8, out=batch) is batch
        assert (batch.prev.s >= 0).all()
        kept = [each.kept for each in sampler.stats()]
        with pytest.raises(ValueError, match=r"out.prev.state: expected int64 \(9, 1\)"):
            sampler.get_batch(9, out=batch)
        assert [each.kept for each in sampler.stats()] == kept


def test_server_is_drawn_from_only_once_its_caches_arrived() -> None:
    with sampled([filled(0, reuse_cache=True), started(2, reuse_cache=True)]) as sampler:
        assert (sampler.get_batch(20, wait=SLACK).prev.s < 100).all()
        assert [each.weight_sum for each in sampler.stats()] == [19.0, 0.0]


def test_waiting_ends_when_samples_come() -> None:
    with started(1) as server, ReplaySampler([server.rep_endpoint], timeout=SLACK) as sampler:
        with pytest.raises(RuntimeError, match="no server has n_caches of them"):
            sampler.get_batch(4)
        with pytest.raises(TimeoutError, match="no server has n_caches of them"):
            sampler.get_batch(4, wait=0.05)
        call = Call(lambda: sampler.get_batch(40, wait=60))
        assert call.blocks()
        with connected(server) as client:
            build.add_uniform(client.rem, 20)
            client.push_cache()  # 32 samples: too few
            arrived(server, 1)
            assert call.blocks()
            server_batch = server.get_batch(1)
            assert len(server_batch.weight) == 1
            client.rem.cache_size = 64
            client.push_cache()
            assert_consistent(call.result())


def test_samples_of_one_server_are_kept_when_another_server_is_late() -> None:
    go_on = threading.Event()

    def late(asked: pb.SamplesRequest, state: ServerState) -> list[Any] | None:
        if asked.rows:
            go_on.wait(SLACK)
        return samples(asked, state, weight_sum=19.0)

    server = filled(0, cache_size=40)
    with (
        server,
        Fake(late) as fake,
        ReplaySampler([server.rep_endpoint, fake.endpoint], timeout=60, seed=1) as sampler,
    ):
        for _ in range(3):
            with pytest.raises(TimeoutError, match=f"no answer from {fake.endpoint} after 1 s"):
                sampler.get_batch(20, wait=1)
        kept = sampler.stats()[0].kept
        assert 0 < kept < 20
        assert sampler.stats()[0].samples == kept  # asked once, for the same plan
        go_on.set()
        batch = sampler.get_batch(20, wait=SLACK)
        assert [each.kept for each in sampler.stats()] == [0, 0]
        assert sampler.stats()[1].samples == 20 - kept
        assert len(batch.weight) == 20
        assert server.stats().samples_given == kept


def test_server_that_is_down_is_named_in_the_error() -> None:
    (nobody,) = unused_endpoints(1)
    with filled(0) as server, ReplaySampler([server.rep_endpoint, nobody], timeout=0.3) as sampler:
        for _ in range(2):
            with pytest.raises(TimeoutError, match=f"no answer from {nobody} after 0.3 s"):
                sampler.get_batch(4)
        assert [each.timeouts for each in sampler.stats()] == [0, 2]


def test_servers_that_are_down_can_be_skipped(caplog: pytest.LogCaptureFixture) -> None:
    options = {"reuse_cache": True}
    staying, leaving = filled(0, **options), filled(100, **options)
    where = [staying.rep_endpoint, leaving.rep_endpoint]
    with staying, ReplaySampler(where, timeout=0.5, skip_down=True, seed=1) as sampler:
        assert (sampler.get_batch(50, wait=SLACK).prev.s >= 100).any()
        leaving.close()
        with caplog.at_level(logging.WARNING, "cogrs.replay"):
            for _ in range(5):
                batch = sampler.get_batch(50, wait=SLACK)
            assert (batch.prev.s < 100).all()
            assert [each.down for each in sampler.stats()] == [False, True]
            assert sampler.weight_sum == 19
            told = [record for record in caplog.records if where[1] in record.getMessage()]
            assert len(told) == 1
            again = made(1, **options)
            with once_free(lambda: again.start(where[1])), connected(again) as client:
                build.add_uniform(client.rem, 20, 100)
                client.push_cache()
                arrived(again, 1)
                end = time.monotonic() + SLACK
                while (sampler.get_batch(50, wait=SLACK).prev.s < 100).all():
                    assert time.monotonic() < end
                    time.sleep(0.02)
            told = [record for record in caplog.records if "answers again" in record.getMessage()]
            assert len(told) == 1


def test_error_with_all_servers_down_names_all_servers() -> None:
    nobody = unused_endpoints(2)
    with ReplaySampler(nobody, timeout=0.3, skip_down=True) as sampler:
        for _ in range(2):
            with pytest.raises(TimeoutError, match=f"no answer from {nobody[0]}, {nobody[1]}"):
                sampler.get_batch(4)
        with made(1).start(nobody[1]) as server, connected(server) as client:
            build.add_uniform(client.rem, 20)
            client.push_cache()
            arrived(server, 1)
            eventually(lambda: _drawn(sampler))
            assert [each.down for each in sampler.stats()] == [True, False]


def _drawn(sampler: ReplaySampler[cogrs.Batch]) -> bool:
    try:
        return len(sampler.get_batch(4, wait=SLACK).weight) == 4
    except TimeoutError:
        return False


def test_errors_go_back_by_way_of_the_servers() -> None:
    one, other = started(1, ids=True), started(1, ids=True)
    with (
        sampled([one, other]) as sampler,
        connected(one) as client,
        connected(other) as another,
    ):
        ids = {each.uuid: build.add_uniform(each.rem, 20) for each in (client, another)}
        for server, each in ((one, client), (other, another)):
            server.wait_subscribers(topic_of(each.uuid))
            each.push_cache()
            arrived(server, 1)
        with pytest.raises(RuntimeError, match="no ids"):
            sampler.update_priority([1], [1], [1.0])
        batch = sampler.get_batch(32, wait=SLACK)
        assert isinstance(batch, IdBatch)
        assert set(batch.sender.tolist()) == {client.uuid, another.uuid}
        assert sampler.update_priority(batch.id, batch.sender, np.full(32, 4.0)) == 0
        for each in (client, another):
            got = each.apply_priorities(timeout=SLACK)
            assert got.entries == (batch.sender == each.uuid).sum()
            assert each.rem.episode(0).weight.max() == 2
            assert ids[each.uuid] in each.rem.episode(0).id


def test_source_stats_is_the_former_name_of_server_connection_stats() -> None:
    with pytest.warns(DeprecationWarning, match="SourceStats is now"):
        assert cogrs.replay.SourceStats is cogrs.replay.ServerConnectionStats


def test_sampler_with_keys_draws_through_a_proxy() -> None:
    keys, learner = KeyPair.new(), KeyPair.new()
    server = made(1, key=keys, allow=[learner.public])
    options: Any = {"key": learner, "server_key": keys.public}
    with ReplayProxy(*[LOOPBACK] * 4, key=keys, allow=[learner.public]) as proxy:
        workers = [
            threading.Thread(target=server.rep_worker_main, args=(proxy.rep_back, Conn)),
            threading.Thread(target=server.pull_worker_main, args=(proxy.pull_back, Conn)),
        ]
        for worker in workers:
            worker.start()
        fronts = server.pub_endpoint, proxy.rep_front, proxy.pull_front
        with (
            cogrs.ReplayMemoryClient(*fronts, max_step=64, **options) as client,
            ReplaySampler([proxy.rep_front], timeout=SLACK, **options) as sampler,
        ):
            build.add_uniform(client.rem, 20)
            client.push_cache()
            assert_consistent(sampler.get_batch(8, wait=SLACK))
        with (
            ReplaySampler([proxy.rep_front], timeout=0.3) as plain,
            pytest.raises(TimeoutError, match="it may want keys"),
        ):
            plain.get_batch(8)
        server.close()
        for worker in workers:
            worker.join(SLACK)


@pytest.mark.parametrize(
    ("endpoints", "options", "error", "text"),
    [
        ("tcp://127.0.0.1:1", {}, TypeError, "endpoints: expected a list of endpoints, got str"),
        ([], {}, ValueError, "endpoints: expected at least one"),
        (["tcp://127.0.0.1:*"], {}, ValueError, "endpoints: expected 'tcp://HOST:PORT'"),
        (["tcp://127.0.0.1:1"] * 2, {}, ValueError, "endpoints: expected each once"),
        (["tcp://127.0.0.1:1"], {"timeout": -1}, ValueError, "timeout"),
        (["tcp://127.0.0.1:1"], {"seed": -1}, ValueError, "seed"),
        (["tcp://127.0.0.1:1"], {"skip_down": 1}, TypeError, "skip_down: expected True or False"),
        (["tcp://127.0.0.1:1"], {"key": KeyPair.new()}, ValueError, "server_key"),
    ],
)
def test_bad_arguments_are_refused_by_name(
    endpoints: Any, options: Any, error: type, text: str
) -> None:
    with pytest.raises(error, match=text):
        ReplaySampler(endpoints, **options)


def test_bad_calls_are_refused_and_take_no_sample() -> None:
    with sampled([filled(0)]) as sampler:
        for rows, wait, error in (
            (0, None, ValueError),
            (1.5, None, TypeError),
            (1, -1, ValueError),
        ):
            with pytest.raises(error):
                sampler.get_batch(rows, wait=wait)
        with pytest.raises(TypeError, match="out: expected"):
            sampler.get_batch(1, out=(1, 2))
        with pytest.raises(TypeError, match="make one in each process"):
            pickle.dumps(sampler)
        assert sampler.stats()[0].samples == 0


def test_close_wakes_calls_that_wait_and_leaves_no_thread() -> None:
    before = our_threads()
    with started(1) as server:
        sampler = ReplaySampler([server.rep_endpoint, *unused_endpoints(1)], timeout=60)
        calls = [Call(lambda: sampler.get_batch(4, wait=60)) for _ in range(2)]
        assert all(call.blocks() for call in calls)
        sampler.close()
        sampler.close()
        for call in calls:
            with pytest.raises(RuntimeError, match="this ReplaySampler is closed"):
                call.result()
        with pytest.raises(RuntimeError, match="closed"):
            sampler.get_batch(4)
        forgotten = ReplaySampler([server.rep_endpoint], timeout=SLACK)
        with pytest.raises(RuntimeError, match="insufficient"):
            forgotten.get_batch(4)
        del forgotten
        gc.collect()
    assert our_threads() <= before


def test_threads_share_a_sampler() -> None:
    servers = [filled(0, caches=3, cache_size=100), filled(100, caches=3, cache_size=100)]
    with sampled(servers, seed=2) as sampler:
        calls = [Call(lambda: [sampler.get_batch(7, wait=60) for _ in range(10)]) for _ in range(4)]
        for call in calls:
            for batch in call.result(60):
                assert_consistent(batch)
        stats = sampler.stats()
    assert sum(each.samples - each.kept for each in stats) == 280


SERVER = """
import sys
import numpy as np
from tests.replay import build
from tests.replay.network import arrived, connected, started

first = int(sys.argv[1])
with started(1, reuse_cache=True) as server, connected(server) as client:
    build.add_uniform(client.rem, 20, first)
    client.push_cache()
    arrived(server, 1)
    print(server.rep_endpoint)
    sys.stdin.read()
"""

LEARNER = """
import sys
import cogrs

with cogrs.ReplaySampler(sys.argv[1:], timeout=60) as sampler:
    print("waits")
    sampler.get_batch(4, wait=60)
"""


def test_servers_in_other_processes_one_of_which_is_killed() -> None:
    processes = [launch(SERVER, first) for first in ("0", "100")]
    with ended(processes):
        where = [process.stdout.readline().strip() for process in processes]
        with ReplaySampler(where, timeout=1, skip_down=True, seed=1) as sampler:
            states = sampler.get_batch(100, wait=SLACK).prev.s
            assert 0 < (states < 100).sum() < 100
            processes[0].kill()
            processes[0].wait()
            assert (sampler.get_batch(100, wait=SLACK).prev.s >= 100).all()


def test_ctrl_c_ends_a_wait() -> None:
    learner = launch(LEARNER, *unused_endpoints(2))
    with ended([learner]):
        said(learner, "waits")
        time.sleep(0.3)
        os.kill(learner.pid, signal.SIGINT)
        assert "KeyboardInterrupt" in learner.communicate(timeout=SLACK)[1]
