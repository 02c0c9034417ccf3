"""Servers that keep large columns of caches in a folder: the same batches, come what may."""

import gc
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cogrs import ReplayMemoryClient, ReplayMemoryServer
from tests.replay import build
from tests.replay.game_memory import assert_same
from tests.replay.network import SLACK, arrived, connected, made, started

SHAPE = (128, 128)
SETTINGS: dict[str, Any] = {"s": np.zeros(SHAPE, np.uint8), "cache_size": 16}
COLUMN = 16 * 128 * 128
"""Bytes of the states of a cache: prev's, and next's are as many."""


def push(client: ReplayMemoryClient, seed: int, length: int = 20) -> None:
    """Push a cache of an episode of its own."""
    rng = np.random.default_rng(seed)
    states = np.broadcast_to(rng.integers(0, 256, (1, *SHAPE), np.uint8), (length, *SHAPE)).copy()
    states[:, 0, 0] = np.arange(length)
    client.rem.clear()
    build.add_uniform(client.rem, length, s=states)
    assert client.push_cache() == 0


def push_to(server: ReplayMemoryServer, seeds: range) -> None:
    with connected(server, seed=1, input_uuid=9) as client:
        for seed in seeds:
            before = server.total_caches
            push(client, seed)
            arrived(server, before + 1)


@pytest.mark.parametrize("options", [{}, {"compress": {"state": "lz4"}}, {"max_step": 30}])
def test_server_with_storage_gives_the_batches_of_one_without(
    options: dict[str, Any], tmp_path: Path
) -> None:
    batches = []
    for storage in (tmp_path / "new", None):
        with started(3, seed=1, storage=storage, **SETTINGS, **options) as server:
            push_to(server, range(5))
            on_disk = server.stats().bytes_on_disk
            # The newest three, prev's states and next's.
            assert on_disk == (3 * 2 * COLUMN if storage else 0)
            batches.append(server.get_batch(40, wait=SLACK))
            assert server.total_refused == 0
    assert_same(*batches)


def test_batch_outlives_its_caches_whose_columns_leave_the_disk(tmp_path: Path) -> None:
    with started(1, seed=1, storage=tmp_path, **SETTINGS) as server:
        push_to(server, range(1))
        batch = server.get_batch(16)
        states = batch.prev.s.copy()
        push_to(server, range(1, 2))
        assert np.array_equal(batch.prev.s, states)
        server.rem.frame_stack = 2  # caches of another layout are dropped
        assert (server.stats().caches, server.stats().bytes_on_disk) == (0, 0)
    assert os.listdir(tmp_path) == [".cogrs-storage.lock"]


def test_small_columns_stay_in_memory(tmp_path: Path) -> None:
    with started(1, storage=tmp_path, **SETTINGS | {"cache_size": 1}) as server:
        push_to(server, range(1))
        assert (server.stats().caches, server.stats().bytes_on_disk) == (1, 0)


@pytest.mark.parametrize("restored", [True, False])
@pytest.mark.parametrize("saved", [True, False])
def test_checkpoint_goes_from_any_storage_to_any(
    saved: bool, restored: bool, tmp_path: Path
) -> None:
    file = tmp_path / "server"
    batches = []
    with started(2, seed=1, storage=tmp_path / "1" if saved else None, **SETTINGS) as server:
        push_to(server, range(2))
        server.save(file)
        batches.append(server.get_batch(20))
    with made(2, seed=1, storage=tmp_path / "2" if restored else None, **SETTINGS) as server:
        server.restore(file)
        assert server.stats().bytes_on_disk == (2 * 2 * COLUMN if restored else 0)
        batches.append(server.get_batch(20))
    assert_same(*batches)


def test_folder_is_of_one_server_until_that_is_gone(tmp_path: Path) -> None:
    first = made(1, storage=tmp_path, **SETTINGS)
    with pytest.raises(RuntimeError, match="storage: expected a folder that no other memory uses"):
        made(1, storage=tmp_path, **SETTINGS)
    first.close()
    del first
    gc.collect()
    made(1, storage=tmp_path, **SETTINGS).close()


def test_storage_that_is_not_a_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="storage: expected a path, got int"):
        made(1, storage=1, **SETTINGS)
    file = tmp_path / "file"
    file.write_text("")
    for wrong in (file, tmp_path / "none" / "below"):
        with pytest.raises(OSError, match=wrong.name):
            made(1, storage=wrong, **SETTINGS)
    with pytest.raises(ValueError, match="storage: expected None for a memory without a state"):
        made(1, storage=tmp_path)
    with pytest.raises(TypeError, match="max_bytes: expected None without compress"):
        made(1, max_bytes=1 << 20, **SETTINGS)


def test_more_caches_than_the_disk_holds_are_refused_at_the_start(tmp_path: Path) -> None:
    caches = (1 << 31) - 1
    expected = f"{caches} caches take up to {caches * 2 * COLUMN} bytes there, .*set fewer n_caches"
    with made(caches, storage=tmp_path, **SETTINGS) as server:
        with pytest.raises(OSError, match=expected):
            server.start()
        with pytest.raises(OSError, match=expected):
            server.pull_worker_main("tcp://127.0.0.1:*", "Bind")
        server.rem.cache_size = 1
        server.start()


FULL = """
import pathlib, sys
import numpy as np
from tests.replay import build
from tests.replay.network import connected, eventually, started

place = pathlib.Path(sys.argv[1])
COLUMN = 16 * 128 * 128
SETTINGS = {"s": np.zeros((128, 128), np.uint8), "cache_size": 16}


def push(client, seed):
    client.rem.clear()
    build.add_uniform(client.rem, 20, s=np.full((20, 128, 128), seed, np.uint8))
    assert client.push_cache() == 0


with started(100, storage=place, **SETTINGS) as server, connected(server) as client:
    # Room for 100 caches was there at the start, and goes to another file.
    with open(place / "ballast", "wb") as ballast:
        try:
            while True:
                ballast.write(bytes(1 << 16))
                ballast.flush()
        except OSError:
            pass
    held = 0
    while not server.total_refused:
        push(client, held)
        held += 1
        eventually(lambda: server.total_caches + server.total_refused == held)
    stats = server.stats()
    assert stats.refused["storage"] == 1, stats
    assert stats.bytes_on_disk == stats.caches * 2 * COLUMN
    (place / "ballast").unlink()
    push(client, held)
    eventually(lambda: server.total_caches == held)
    assert server.stats().caches == held
print("done")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="namespaces are Linux's")
def test_cache_for_which_the_disk_has_no_room_is_refused_and_counted(tmp_path: Path) -> None:
    own = ["unshare", "-m"] if os.getuid() == 0 else ["unshare", "-rm"]
    if not shutil.which("unshare") or subprocess.run([*own, "true"], check=False).returncode:
        pytest.skip("this system mounts no file systems for tests")
    command = f'mount -t tmpfs -o size=80m tmpfs {tmp_path} && exec "$@"'
    script = [sys.executable, "-c", FULL, str(tmp_path)]
    done = subprocess.run(
        [*own, "sh", "-c", command, "sh", *script],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[3],
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    assert "refused a message" in done.stderr
    assert "a cache that could not be stored" in done.stderr
