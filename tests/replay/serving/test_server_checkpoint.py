"""Checkpoints of a server: caches, totals and counts of its limiter."""

import errno
import gc
import weakref

import numpy as np
import pytest

import cogrs
from tests.replay import build, stores
from tests.replay.network import (
    SLACK,
    arrived,
    assert_consistent,
    connected,
    endpoints,
    made,
    started,
)


def push(server, client, caches, first=0):
    build.add_uniform(client.rem, 20, first)
    before = server.total_caches
    for _ in range(caches):
        assert client.push_cache() == 0
    arrived(server, before + caches)
    client.update_counter()


def saved(path, caches=3, given=0, **options):
    with started(2, **options) as server, connected(server) as client:
        push(server, client, caches)
        if given:
            server.get_batch(given)
        server.save(path)
        return server.stats(), client.uuid


def test_restored_server_has_caches_and_counts_of_the_saved_one(tmp_path):
    path = tmp_path / "server"
    before, uuid = saved(path, ids=True, nstep=True, cache_size=8)
    with made(2, ids=True, nstep=True, cache_size=8) as server:
        server.restore(path)
        after = server.stats()
        assert (after.caches, after.received, after.clients) == (
            before.caches,
            before.received,
            {uuid: before.received},
        )
        assert (after.total_steps, after.total_episodes) == (20, 1)
        assert after.samples_discarded == before.samples_discarded == 8
        server.start()
        batch = server.get_batch(16, wait=SLACK)
        assert_consistent(batch)
        assert set(batch.sender.tolist()) == {uuid}


def test_restored_server_gives_no_sample_again(tmp_path):
    path = tmp_path / "server"
    saved(path, caches=2, given=10, cache_size=16)
    with made(2, cache_size=16) as server:
        server.restore(path)
        assert server.stats().samples_unused == 22
        assert server.stats().samples_given == 10
        server.get_batch(22)
        with pytest.raises(RuntimeError, match="have 0 unused samples"):
            server.get_batch(1)


def test_restored_server_counts_only_news_of_a_known_client(tmp_path):
    path = tmp_path / "server"
    limiter = cogrs.RateLimiter.min_size(10)
    with started(1, limiter=limiter) as server, connected(server, 1_000) as client:
        push(server, client, 1)
        server.get_batch(4, wait=SLACK)
        server.save(path)
        build.add_uniform(client.rem, 30, 20)
        client.update_counter()
        again = made(1, limiter=limiter)
        again.restore(path)
        with again.start():
            limits = again.stats().limiter
            assert (limits.inserts, limits.samples, again.total_steps) == (20, 4, 20)
            client.replace(*endpoints(again))
            client.update_counter()
            assert (again.total_steps, again.stats().limiter.inserts) == (50, 50)


def test_counts_of_a_restored_server_go_on(tmp_path):
    path = tmp_path / "server"
    before, uuid = saved(path, cache_size=8)
    with made(2, cache_size=8) as server:
        server.restore(path)
        server.start()
        with connected(server, input_uuid=uuid) as client:
            push(server, client, 2, 20)
        sent = server.stats().clients[uuid]
        assert (sent.caches, sent.samples) == (5, before.received.samples + 16)
        assert server.stats().received == sent


@pytest.mark.parametrize(
    "options", [{"ids": True}, {"nstep": True}, {"frame_stack": 2}, {"a": np.zeros(3, np.int64)}]
)
def test_checkpoint_of_another_server_is_refused(tmp_path, options):
    path = tmp_path / "server"
    saved(path)
    with made(2, **options) as server:
        with pytest.raises(ValueError, match="expected a server of the same templates"):
            server.restore(path)
        assert server.stats().caches == 0


def test_damaged_checkpoint_is_refused_whole(tmp_path):
    path = tmp_path / "server"
    saved(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    broken = [whole[:at] for at in rng.integers(0, len(whole), 20)]
    broken += [b"", b"cogrs server 1\n", whole + b"\0"]
    for at in rng.integers(0, len(whole), 40):
        bad = bytearray(whole)
        bad[at] ^= 1 << rng.integers(8)
        broken.append(bytes(bad))
    with made(2) as server:
        for content in broken:
            path.write_bytes(content)
            with pytest.raises(ValueError, match="server: expected a"):
                server.restore(path)
        assert server.stats().received.caches == 0
        path.write_bytes(whole)
        server.restore(path)
        assert server.stats().caches == 2


def test_failed_write_leaves_the_old_checkpoint(tmp_path, monkeypatch):
    path = tmp_path / "server"
    saved(path)
    whole = path.read_bytes()

    def full(_descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with made(2) as server:
        server.restore(path)
        with pytest.raises(OSError, match="No space left"):
            server.save(path)
    assert path.read_bytes() == whole
    assert list(tmp_path.iterdir()) == [path]


def test_checkpoint_is_written_while_caches_arrive(tmp_path):
    path = tmp_path / "server"
    with started(2, cache_size=4) as server, connected(server) as client:
        build.add_uniform(client.rem, 20)
        for number in range(200):
            client.push_cache()
            if number % 20 == 0:
                server.save(path)
                with made(2, cache_size=4) as again:
                    again.restore(path)
                    stats = again.stats()
                    assert stats.received.samples == 4 * stats.received.caches


def test_frames_of_held_caches_outlive_their_caches():
    _, store = stores.empty(1)
    frames = stores.columns([7, 8])
    store.push(2, 1.0, frames)
    (cache,), _ = store.held()
    assert (cache[0], cache[3]) == (2, 0)
    expected = [frame.tobytes() for frame in frames]
    gone = weakref.ref(frames[0])
    del frames
    stores.push(store, 9)
    assert [*cache[4]] == expected
    assert cache[4].sizes() == [*map(len, expected)]
    with pytest.raises(IndexError):
        cache[4][len(expected)]
    assert gone() is not None
    del cache
    gc.collect()
    assert gone() is None
