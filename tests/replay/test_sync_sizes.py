"""`sync_sizes`: a memory like the server's, created at the client."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cogrs import ReplayMemoryClient
from cogrs.replay.wire import SETTINGS, encode, memory_like, sizes_of
from tests.replay import build
from tests.replay.build import ODD_TEMPLATES, OTHER_SETTINGS
from tests.replay.network import (
    SLACK,
    connected,
    deaf,
    full_pair,
    pair,
    started,
)


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


@pytest.mark.parametrize("template", ODD_TEMPLATES, ids=lambda each: f"{each.dtype}{each.shape}")
def test_templates_and_values_of_any_dtype_survive_the_network(template: np.ndarray) -> None:
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


@pytest.mark.parametrize("compress", [None, {"state": "lz4"}, {"state": "delta+zstd"}])
def test_images_come_back_byte_for_byte(compress: dict[str, str] | None) -> None:
    frames = np.random.default_rng(0).integers(0, 256, (20, 84, 84), np.uint8)
    frames[5:15, 10:60] = 3
    with pair(1, s=frames[0], frame_stack=4, compress=compress) as (server, client):
        assert client.rem.compress == (compress or {})
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
def test_call_before_sync_sizes_names_sync_sizes(call: Callable[[ReplayMemoryClient], Any]) -> None:
    with deaf() as client, pytest.raises(RuntimeError, match="call sync_sizes"):
        call(client)


@pytest.mark.parametrize("changes", [{"cache_size": 2**31 - 1}, {"cache_size": 50_000_000}])
def test_sizes_of_a_cache_that_would_take_all_memory_are_refused(changes: dict[str, int]) -> None:
    with started() as server, connected(server, None, timeout=SLACK) as client:
        sizes = sizes_of(server.rem, 1 << 20)
        for name, value in changes.items():
            setattr(sizes.settings, name, value)
        with pytest.raises(
            RuntimeError, match=r"invalid sizes: cache_size: [0-9]+ bytes per cache"
        ):
            memory_like(sizes, 64, None, None)
        server._state.answer = lambda *_: [encode(1, sizes=sizes)]
        with pytest.raises(RuntimeError, match="cache_size"):
            client.sync_sizes(64)
