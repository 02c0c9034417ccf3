"""Memories with large fields in a folder: the same samples, whatever happens to the disk."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cogrs import ReplayMemory
from tests.replay import golden
from tests.replay.build import SOAK, memory
from tests.replay.game_memory import (
    assert_draws_are_the_same,
    assert_same,
    fill,
    game_memory,
    game_steps,
)

WAYS: list[dict[str, Any]] = [
    {},
    {"compress": {"state": "delta+lz4"}},
    {"compress": {"info": "zstd:1"}},
]
LOCK = ".cogrs-storage.lock"


@pytest.mark.parametrize("codec", [None, "lz4", "delta+zstd:1"])
@pytest.mark.parametrize("case", golden.CASES, ids=lambda case: case.name)
def test_memory_with_storage_draws_the_recorded_samples(
    case: golden.Case, codec: str | None, tmp_path: Path
) -> None:
    templates = case.templates()
    fields = {"s": "state", "a": "action", "i": "info"}
    compress = {name: codec for letter, name in fields.items() if templates[letter].nbytes}
    options = {"compress": compress} if codec else {}
    made = stored(case, tmp_path, options)
    made = golden.configure(case, made)
    for expected in golden.play_counted(case, made):
        golden.check_drawable(case, made, expected)


def stored(case: golden.Case, folder: Path, options: dict[str, Any]) -> ReplayMemory:
    max_step = case.about["params"]["max_step"]
    templates = case.templates()
    large = any(templates[letter].nbytes > 128 for letter in "sai")
    storage = folder if large or options else None
    return ReplayMemory(*templates.values(), max_step, seed=0, storage=storage, **options)


@pytest.mark.parametrize("options", WAYS)
def test_memory_with_storage_gives_the_samples_of_a_plain_one(
    options: dict[str, Any], tmp_path: Path
) -> None:
    settings = {"frame_stack": 4, "multi_step": 2, "frame_padding": "repeat"}
    pair = [game_memory(**settings), game_memory(storage=tmp_path / "0", **options, **settings)]
    for turn in range(4):
        for each in pair:
            fill(each, turn)
            each.frame_padding = ["repeat", "zero", "none", "repeat"][turn]
        assert_draws_are_the_same(*pair)
        path = tmp_path / "memory"
        for at, each in enumerate(pair):
            each.save(path)
            folder = tmp_path / str(turn + 1) if at == turn % 2 else None
            pair[at] = ReplayMemory.load(path, storage=folder)
            assert pair[at].storage == folder
        assert_draws_are_the_same(*pair)


@pytest.mark.parametrize("storage", [True, False])
def test_file_is_loaded_with_another_compression(storage: bool, tmp_path: Path) -> None:
    made = game_memory(compress={"state": "delta+lz4"})
    fill(made, 1)
    path = tmp_path / "memory"
    made.save(path)
    made = ReplayMemory.load(path)
    options: dict[str, Any] = {"storage": tmp_path / "folder"} if storage else {}
    for compress in ({}, {"state": "zstd:1", "info": "lz4"}, {"info": "delta+lz4"}):
        loaded = ReplayMemory.load(path, compress=compress, **options)
        assert loaded.compress == compress
        assert_same(loaded.sample(64), ReplayMemory.load(path).sample(64))
        loaded.save(tmp_path / "again")
        assert ReplayMemory.load(tmp_path / "again").compress == compress
        del loaded


def test_file_is_loaded_with_another_limit_of_bytes(tmp_path: Path) -> None:
    made = game_memory(compress={"state": "lz4"})
    fill(made, 1)
    made.save(tmp_path / "memory")
    held = made.stats().compression["state"].bytes
    options = {"compress": {"state": "lz4"}, "max_bytes": 2 * held}
    assert ReplayMemory.load(tmp_path / "memory", **options).max_bytes == 2 * held
    with pytest.raises(MemoryError, match=f"take at least .*, of which {held // 2} are"):
        ReplayMemory.load(tmp_path / "memory", **options | {"max_bytes": held // 2})
    with pytest.raises(TypeError, match="max_bytes: expected None without compress"):
        ReplayMemory.load(tmp_path / "memory", max_bytes=9)


@pytest.mark.parametrize("options", WAYS)
def test_file_is_restored_into_a_memory_with_storage(
    options: dict[str, Any], tmp_path: Path
) -> None:
    source = game_memory(**options)
    fill(source, 1)
    source.save(tmp_path / "memory")
    made = game_memory(storage=tmp_path / "folder", **options)
    fill(made, 2)
    made.restore(tmp_path / "memory")
    assert_draws_are_the_same(made, ReplayMemory.load(tmp_path / "memory"))
    assert made.storage == tmp_path / "folder"


def test_bytes_on_disk_and_in_memory_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = game_memory(10_000)
    assert (plain.storage, plain.stats().storage) == (None, None)
    made = game_memory(10_000, storage=tmp_path)
    assert plain.nbytes - made.nbytes == 10_000 * 480
    used = made.stats().storage
    assert used is not None
    assert (used.folder, used.bytes, used.expected) == (tmp_path, 0, 10_000 * 480)
    fill(made, 1)
    used = made.stats().storage
    assert used is not None
    assert made.num_entry * 480 < used.bytes < 5_000_000
    made.print_info()
    told = f"storage: {tmp_path}, {used.bytes} bytes of at most {used.expected} on disk"
    assert told in capsys.readouterr().out


def test_compressed_bytes_of_open_episodes_lie_in_memory(tmp_path: Path) -> None:
    made = game_memory(storage=tmp_path, compress={"state": "lz4"})
    made.new_episode()
    made.add_entries(**game_steps(30, 1))
    held = made.stats()
    assert held.storage is not None
    assert held.storage.in_memory == held.compression["state"].bytes > 0
    made.close_episode()
    assert (now := made.stats().storage) is not None
    assert now.in_memory == 0


def test_folder_is_used_by_one_memory_at_a_time(tmp_path: Path) -> None:
    made = game_memory(storage=tmp_path)
    with pytest.raises(RuntimeError, match="storage: expected a folder that no other memory uses"):
        game_memory(storage=tmp_path)
    made.save(tmp_path / "memory")
    with pytest.raises(RuntimeError, match="another memory uses it"):
        ReplayMemory.load(tmp_path / "memory", storage=tmp_path)
    del made
    game_memory(storage=os.fsencode(tmp_path))


def test_storage_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="storage: expected a path, got int"):
        game_memory(storage=3)
    with pytest.raises(FileNotFoundError):
        game_memory(storage=tmp_path / "a" / "b")
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(FileExistsError):
        game_memory(storage=file)
    scalar = np.float32(0)
    with pytest.raises(ValueError, match="storage: expected None for a memory without a state"):
        ReplayMemory(*[scalar] * 7, 10, storage=tmp_path)
    with pytest.raises(OSError, match=r"No space left.*allow_overcommit=True"):
        game_memory(storage=tmp_path, compress={"info": "lz4"}, max_bytes=1 << 60)
    assert os.listdir(tmp_path) in ([LOCK, "file"], ["file", LOCK])


def test_file_that_is_cut_or_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "memory"
    made = game_memory(storage=tmp_path / "folder")
    fill(made, 1)
    made.save(path)
    whole = path.read_bytes()
    for cut in (10, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(ValueError, match="memory: expected a saved replay memory"):
            ReplayMemory.load(path, storage=tmp_path / "other")
    memory().save(path)
    with pytest.raises(ValueError, match="path: expected a file of a memory with the same"):
        made.restore(path)


WRITE = """
import sys
from tests.replay.game_memory import fill, game_memory

made = game_memory(storage=sys.argv[1], compress={"info": "lz4"})
for turn in range(10_000):
    fill(made, turn)
    made.save(sys.argv[2])
    print(turn, flush=True)
"""


def test_process_that_is_killed_leaves_a_folder_that_the_next_uses(tmp_path: Path) -> None:
    folder, path = tmp_path / "folder", tmp_path / "memory"
    for turns in range(1, 4 if SOAK else 2):
        with subprocess.Popen(
            [sys.executable, "-c", WRITE, folder, path], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            for _ in range(turns):
                process.stdout.readline()
            process.send_signal(signal.SIGKILL)
        assert os.listdir(folder) == [LOCK]
        assert ReplayMemory.load(path, storage=folder).num_entry > 0


FORK = """
import os, sys
from tests.replay.game_memory import fill, game_memory

made = game_memory(storage=sys.argv[1])
fill(made, 1)
if os.fork() == 0:
    try:
        made.sample(1)
    except RuntimeError:
        print("refused", flush=True)
    del made
    os._exit(0)
os.wait()
try:
    game_memory(storage=sys.argv[1])
except RuntimeError as error:
    print("locked", flush=True)
made.sample(8)
del made
game_memory(storage=sys.argv[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_forked_child_neither_uses_a_memory_nor_frees_its_folder(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK, tmp_path], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["refused", "locked"]


FULL = """
import errno, os, sys
from pathlib import Path
import numpy as np
from cogrs import ReplayMemory
from tests.replay.game_memory import assert_same, fill

place, code, ballast = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
rng = np.random.default_rng(0)
scalar = np.float32(0)
templates = np.zeros((84, 84), np.uint8), 0, scalar, scalar, scalar, scalar, np.zeros(0)
compress = {} if code == "plain" else {"state": code}


def made(**options):
    return ReplayMemory(*templates, 100_000, seed=1, compress=compress, **options)


try:
    made(storage=place, max_bytes=1 << 30) if compress else made(storage=place)
except OSError as error:
    assert error.errno == errno.ENOSPC, error
else:
    raise SystemExit("a memory that the disk cannot hold was created")

pair = made(storage=place, allow_overcommit=True), made()


def add(memory, frames):
    count = len(frames)
    ones = np.ones(count)
    zeros = np.zeros(count, int)
    memory.add_episode(frames, zeros, ones, ones, ones - 1, np.zeros((count, 0)), 1.0)


def fill_disk():
    for turn in range(1_000):
        frames = rng.integers(0, 256, (20, 84, 84), np.uint8)
        held = pair[0].num_entry
        try:
            add(pair[0], frames)
        except OSError as error:
            assert error.errno == errno.ENOSPC, error
            assert error.filename == str(place)
            assert pair[0].num_entry == held
            return turn
        add(pair[1], frames)
    raise SystemExit("the disk was not full")


if ballast:
    # A save that shares blocks: what is written next needs blocks of its own.
    for _ in range(20):
        frames = rng.integers(0, 256, (20, 84, 84), np.uint8)
        add(pair[0], frames), add(pair[1], frames)
    pair[0].save(place / "memory")
    pair[0].clear(), pair[1].clear()
    with open(place / "ballast", "wb") as file:
        try:
            while True:
                os.write(file.fileno(), b"1" * (1 << 16))
        except OSError:
            pass
    fill_disk()
    os.remove(place / "ballast")
    frames = rng.integers(0, 256, (20, 84, 84), np.uint8)
    add(pair[0], frames), add(pair[1], frames)
    loaded = ReplayMemory.load(place / "memory")
    assert loaded.num_entry == 400
else:
    assert fill_disk() > 1
pair[0].new_episode(), pair[1].new_episode()
assert_same(pair[0].sample(64), pair[1].sample(64))
if not ballast:
    try:
        pair[0].save(place / "memory")
    except OSError as error:
        assert error.errno == errno.ENOSPC, error
    assert os.listdir(place) == [".cogrs-storage.lock"]
print("done")
"""


def run_on(mount: str, place: Path, *arguments: str) -> None:
    """Run the script where a small file system is mounted, in a namespace that ends with it."""
    own = ["unshare", "-m"] if os.getuid() == 0 else ["unshare", "-rm"]
    if not shutil.which("unshare") or subprocess.run([*own, "true"], check=False).returncode:
        pytest.skip("this system mounts no file systems for tests")
    command = f'{mount} && exec "$@"'
    script = [sys.executable, "-c", FULL, str(place), *arguments]
    done = subprocess.run(
        [*own, "sh", "-c", command, "sh", *script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.parametrize("options", [{}, {"compress": {"state": "lz4", "info": "zstd"}}])
@pytest.mark.parametrize("loaded", [{}, {"compress": {"state": "zstd:1"}}])
def test_flipped_bit_in_saved_columns_is_found(
    options: dict[str, Any], loaded: dict[str, Any], tmp_path: Path
) -> None:
    made = game_memory(storage=tmp_path / "own", **options)
    for seed in range(3):
        made.add_episode(**game_steps(100, seed))
    path = tmp_path / "saved"
    made.save(path)
    whole = bytearray(path.read_bytes())
    # What lies in the folder comes last, from a multiple of 64 KiB on: 0 where no entry is.
    places = [at for at in range(1 << 16, len(whole)) if whole[at]]
    for at in places[:: len(places) // 20]:
        whole[at] ^= 4
        path.write_bytes(whole)
        with pytest.raises(
            ValueError, match="saved: expected a saved replay memory, got a file with"
        ):
            ReplayMemory.load(path, **loaded)
        whole[at] ^= 4
    path.write_bytes(whole)
    assert ReplayMemory.load(path, **loaded).num_entry == made.num_entry


@pytest.mark.skipif(sys.platform != "linux", reason="namespaces are Linux's")
@pytest.mark.parametrize("code", ["plain", "lz4"])
def test_full_file_system_is_an_error_before_anything_is_stored(code: str, tmp_path: Path) -> None:
    run_on(f"mount -t tmpfs -o size=24m tmpfs {tmp_path}", tmp_path, code, "0")


@pytest.mark.skipif(not SOAK or os.getuid() != 0, reason="long, and only root mounts a file")
@pytest.mark.parametrize("code", ["plain", "lz4"])
@pytest.mark.parametrize("system", ["xfs", "btrfs", "ext4"])
def test_blocks_that_a_saved_file_shares_are_no_trap(
    system: str, code: str, tmp_path: Path
) -> None:
    if not shutil.which(f"mkfs.{system}"):
        pytest.skip(f"mkfs.{system} is not installed")
    image, place = tmp_path / "image", tmp_path / "place"
    place.mkdir()
    with open(image, "wb") as file:
        file.truncate(320 << 20)
    subprocess.run([f"mkfs.{system}", image], capture_output=True, check=True)
    run_on(f"mount -o loop {image} {place}", place, code, "1")
