"""Caches whose columns travel compressed: the same samples, and no harm from hostile peers."""

import tracemalloc
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import zmq
from hypothesis import given

from cogrs import ReplayMemory
from cogrs._core import (
    CacheStore,
    compress_cache,
    draw_cache,
    set_cache_sequences,
)
from cogrs.replay.synced_memory import SyncedMemory
from cogrs.replay.wire import sizes_of
from tests.replay.game_memory import assert_same, fill, frames, game_memory
from tests.replay.network import SLACK, arrived, cache_message, eventually, pair, raw

CODECS = ["lz4", "delta+lz4", "zstd:1", "delta+zstd"]
SETTINGS: dict[str, Any] = {"cache_size": 16, "frame_stack": 2}
LARGEST = 16 * 2 * 480
"""Bytes of the largest column."""


def source(codec: str = "lz4", **changes: Any) -> ReplayMemory:
    made = game_memory(compress={"state": codec, "info": "lz4"}, **SETTINGS | changes)
    fill(made, 1)
    return made


def store_like(memory: ReplayMemory, **options: Any) -> CacheStore:
    settings = {name: getattr(memory, name) for name in (*SETTINGS, "cache_flags")}
    return CacheStore(game_memory(0, compress=memory.compress, **settings), 1, seed=0, **options)


def push(store: CacheStore, columns: list[Any], compressed: int, rows: int = 16) -> bool:
    return store.push(rows, 1.0, columns, compressed=compressed, max_frame=LARGEST)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("options", [{}, {"ids": True, "nstep": True}])
@pytest.mark.parametrize("flags", [[True] * 14, [True, False] * 7])
def test_compressed_cache_gives_the_samples_of_a_plain_one(
    codec: str, options: dict[str, bool], flags: list[bool]
) -> None:
    memory = source(codec, cache_flags=flags)
    drawn = draw_cache(memory, **options)
    assert drawn is not None
    plain = drawn[4]
    columns, compressed = compress_cache(memory, plain)
    # Weights, and what else is not a compressed field, travel as they are.
    assert compressed & 1 == 0
    assert compressed.bit_count() == sum(flags[at] for at in (0, 6, 7, 13))
    assert sum(map(len, columns)) < sum(map(len, plain)) / 2
    stores = [store_like(memory, **options) for _ in range(2)]
    assert push(stores[0], columns, compressed)
    assert push(stores[1], plain, 0)
    assert_same(stores[0].get_batch(16), stores[1].get_batch(16))


def test_compressed_cache_of_sequences_gives_the_samples_of_a_plain_one() -> None:
    memory = source()
    stores = []
    for compresses in (True, False):
        like = game_memory(0, compress=memory.compress, **SETTINGS)
        set_cache_sequences(like, 6, 2)
        stores.append(CacheStore(like, 1, seed=0))
        if compresses:
            set_cache_sequences(memory, 6, 2)
            drawn = draw_cache(memory)
            assert drawn is not None
        columns, compressed = compress_cache(memory, drawn[4]) if compresses else (drawn[4], 0)
        assert bool(compressed) == compresses
        stores[-1].push(16, 1.0, columns, compressed=compressed, max_frame=1 << 20)
    assert_same(stores[0].get_batch(16), stores[1].get_batch(16))


def test_memory_without_compressed_fields_compresses_no_column() -> None:
    memory = game_memory(**SETTINGS)
    fill(memory, 1)
    drawn = draw_cache(memory)
    assert drawn is not None
    columns, compressed = compress_cache(memory, drawn[4])
    assert compressed == 0
    assert_same(tuple(columns), tuple(drawn[4]))


@pytest.mark.parametrize("codec", CODECS)
def test_images_arrive_to_the_bit(codec: str) -> None:
    given_frames = frames(40)
    with pair(1, s=given_frames[0], compress={"state": codec}, **SETTINGS) as (server, client):
        numbers = np.arange(40)
        floats = np.ones(40)
        client.rem.add_episode(given_frames, numbers, floats, floats, floats, numbers, 1.0)
        client.push_cache()
        batch = server.get_batch(16, wait=SLACK)
        assert np.array_equal(batch.prev.s[:, 1], given_frames[batch.prev.a])
        assert np.array_equal(batch.next.s[:, 1], given_frames[batch.next.a])
        assert server.total_refused == 0
        # A client of an earlier version sends plain columns.
        with raw(zmq.PUSH, server.pull_endpoint) as socket:
            socket.send_multipart(cache_message(client))
            arrived(server, 2)


def test_earlier_server_is_sent_plain_columns() -> None:
    sizes = sizes_of(game_memory(compress={"state": "lz4"}, **SETTINGS), 1 << 20)
    for takes in (True, False):
        sizes.compressed_caches = takes
        synced = SyncedMemory(sizes, 400, 1, 0, None)
        fill(synced.rem, 1)
        cache = synced.take_cache()
        assert cache is not None
        assert bool(cache[0].compressed) == takes


def test_columns_that_lie_are_refused_and_counted() -> None:
    with pair(1, s=frames(1)[0], compress={"state": "zstd"}, **SETTINGS) as (server, client):
        numbers, floats = np.arange(40), np.ones(40)
        client.rem.add_episode(frames(40), numbers, floats, floats, floats, numbers, 1.0)
        at = 1  # prev's state, behind the weights
        packed = compress_cache(client.rem, [np.zeros(1 << 24, np.uint8)] * 15)[0][at]
        assert len(packed) < 10_000

        def with_column(column: bytes) -> Any:
            return lambda columns: [*columns[:at], column, *columns[at + 1 :]]

        bad: list[dict[str, Any]] = [
            {"compressed": 2},
            {"compressed": 2, "frames": with_column(b"")},
            {"compressed": 2, "frames": with_column(packed)},
            {"compressed": 2, "frames": with_column(packed[:-1])},
            {"compressed": 2, "frames": with_column(packed), "rows": 2**32 - 1},
            {"compressed": 2, "frames": with_column(packed), "rows": (1 << 24) // 960},
            {"compressed": 1},
            {"compressed": 1 << 2},
            {"compressed": 1 << 63},
            {"compressed": 2, "frames": lambda columns: columns[:-1]},
        ]
        with raw(zmq.PUSH, server.pull_endpoint) as socket:
            for changes in bad:
                socket.send_multipart(cache_message(client, **changes))
            eventually(lambda: server.total_refused == len(bad))
        assert server.stats().refused["cache"] == len(bad)
        assert server.total_caches == 0
        client.push_cache()
        server.get_batch(16, wait=SLACK)


@pytest.fixture(scope="module")
def target() -> tuple[CacheStore, list[bytes], list[Any], int]:
    memory = source("zstd")
    drawn = draw_cache(memory)
    assert drawn is not None
    plain = [bytes(column) for column in drawn[4]]
    return store_like(memory), plain, *compress_cache(memory, plain)


@given(data=st.data())
def test_any_bytes_take_no_more_than_the_templates_say(
    target: tuple[CacheStore, list[bytes], list[Any], int], data: st.DataObject
) -> None:
    store, plain, columns, compressed = target
    count = len(columns)
    bits = data.draw(st.sampled_from([compressed, 2, (1 << count) - 1]) | st.integers(0, 2**64 - 1))
    rows = data.draw(st.sampled_from([16, 0, 1, 17, 2**20, 2**32, 2**60]))
    given_columns = list(columns)
    for at in data.draw(st.lists(st.integers(0, count - 1), max_size=3)):
        whole = bytes(columns[at])
        place = data.draw(st.integers(0, len(whole)))
        given_columns[at] = data.draw(
            st.sampled_from([plain[at], whole[:place], whole[place:] + whole])
            | st.binary(max_size=200).map(lambda more, w=whole, p=place: w[:p] + more)
        )
    tracemalloc.start()
    try:
        push(store, given_columns, bits, rows)
    except ValueError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 16 * 2 * (480 * 2 + 60 + 100) + 100_000
