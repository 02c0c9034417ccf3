"""A memory saved to a file and loaded: equal, and refused when the file is not whole."""

import errno
import os
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cogrs import ReplayMemory
from tests.replay.build import SOAK, add_uniform, described, memory, step, steps, vector_memory

SETTINGS = {
    "priority_exponent": 0.75,
    "mix_lambda": 0.5,
    "frame_stack": 2,
    "multi_step": 3,
    "cache_size": 7,
    "max_episode": 9,
    "reuse_cache": True,
    "discount_factor": [0.5],
    "reward_coeff": [2.0],
    "cache_flags": [True, False] * 7,
    "new_priority": "max",
    "priority_epsilon": 0.125,
    "frame_padding": "repeat",
    "sampler": "stratified",
    "max_times_sampled": 300,
    "remover": "lowest",
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.rm"


def filled(**changes: Any) -> ReplayMemory:
    """Wrapped round, with episodes closed in every way."""
    made = memory(60, seed=3, **changes)
    for first in range(0, 100, 10):
        made.add_episode(**steps(10, first), episodic_weight_multiplier=0.5)
    made.add_episode(**steps(5, 100), final_state=105, final_info=7)
    made.add_episode(**steps(5, 110), bootstrap_value=2.0, final_state=115)
    made.add_episode(**steps(0))
    add_uniform(made, 8, 120)
    return made


def loaded(saved: ReplayMemory, path: Path) -> ReplayMemory:
    saved.save(path)
    return ReplayMemory.load(path)


def assert_same(one: ReplayMemory, other: ReplayMemory) -> None:
    assert one.num_episode() == other.num_episode()
    assert one.num_entry == other.num_entry
    assert one.weight_sum == other.weight_sum
    assert one.num_sampleable == other.num_sampleable
    for k in range(one.num_episode()):
        assert described(one.episode(k)) == described(other.episode(k))
        np.testing.assert_array_equal(one.episode(k).id, other.episode(k).id)


def test_checkpoint_restores_all_entries_and_settings(path):
    saved = filled()
    made = loaded(saved, path)
    assert_same(saved, made)
    for name in ("uuid", "max_step", "entry_size", "nbytes"):
        assert getattr(made, name) == getattr(saved, name)


def test_settings_come_back(path):
    made = loaded(memory(**SETTINGS), path)
    assert {name: getattr(made, name) for name in SETTINGS} == SETTINGS


def test_draws_after_loading_continue_the_random_sequence(path):
    saved = filled()
    saved.sample(5)
    made = loaded(saved, path)
    np.testing.assert_array_equal(made.sample(100).id, saved.sample(100).id)


def test_new_ids_follow_the_old_ones(path):
    saved = filled()
    made = loaded(saved, path)
    assert add_uniform(made, 3) == add_uniform(saved, 3)


def test_open_episodes_are_left_out(path):
    saved = filled()
    saved.new_episode()
    gone = saved.add_entry(**step())
    made = loaded(saved, path)
    assert made.num_entry == saved.num_entry - 1
    assert not made.add_reward(gone, 1.0)
    with pytest.raises(RuntimeError, match="new_episode"):
        made.add_entry(**step())


def test_late_reward_finds_its_step_after_loading(path):
    saved = filled(mix_lambda=0.5, discount_factor=0.5)
    made = loaded(saved, path)
    late = int(saved.episode(1).id[4])
    assert saved.add_reward(late, 3.0)
    assert made.add_reward(late, 3.0)
    assert_same(saved, made)


def test_entries_outside_of_the_borders_are_drawable_again_when_borders_shrink(path):
    saved = filled()
    before = saved.num_sampleable
    saved.multi_step = 4
    made = loaded(saved, path)
    assert made.num_sampleable == saved.num_sampleable < before
    made.multi_step = 1
    assert made.num_sampleable == before


def test_loaded_memory_is_filled_to_the_last_slot(path):
    made = loaded(filled(), path)
    made.clear()
    add_uniform(made, made.max_step)
    assert made.num_entry == made.max_step


@pytest.mark.parametrize(
    "state",
    [
        np.zeros(2, [("x", "<f4"), ("y", "<i8", (2,))]),
        np.zeros(3, "U5"),
        np.zeros((), "datetime64[ms]"),
        np.zeros((4, 100), np.uint8),
        np.zeros(0, np.float16),
    ],
    ids=lambda state: str(state.dtype),
)
def test_checkpoint_restores_every_dtype(path, state):
    made = loaded(memory(s=state), path)
    assert (made.state_buf.dtype, made.state_buf.shape) == (state.dtype, state.shape)


def test_empty_memory_comes_back(path):
    made = loaded(memory(0), path)
    assert (made.max_step, made.num_episode()) == (0, 0)


@given(lengths=st.lists(st.integers(0, 12), max_size=12), max_step=st.integers(0, 30))
def test_any_fill_comes_back(tmp_path_factory, lengths, max_step):
    saved = vector_memory(2, max_step)
    for length in lengths:
        if length <= max_step:
            columns = {name: np.ones((length, 2), np.float32) for name in "rv"}
            saved.add_episode(**steps(length, **columns))
    assert_same(saved, loaded(saved, tmp_path_factory.mktemp("fill") / "memory.rm"))


def test_another_process_samples_at_once(path):
    saved = filled()
    saved.save(path)
    code = (
        "import sys, cogrs; made = cogrs.ReplayMemory.load(sys.argv[1]);"
        "made.get_batch(4); assert cogrs._core.draw_cache(made)[0] == made.cache_size;"
        "print(made.num_episode(), made.weight_sum, made.total_episodes, made.total_steps)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=True
    )
    totals = (saved.total_episodes, saved.total_steps)
    assert done.stdout.split() == list(map(str, (saved.num_episode(), saved.weight_sum, *totals)))


STREAMED = """
import resource, sys
import numpy as np
import cogrs

def limit(extra):
    pages = int(open("/proc/self/statm").read().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + extra,) * 2)

work, path, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
frame, f = np.zeros((84, 84), np.uint8), np.float32(0)
cogrs.ReplayMemory(f, f, f, f, f, f, f, 1)  # imports what memories need
size = count * (frame.nbytes + 5 * 4)
if work == "save":
    memory = cogrs.ReplayMemory(frame, f, f, f, f, f, np.zeros(0), count)
    for first in range(0, count, 100):
        k = np.arange(first, first + 100, dtype=np.float32)
        states = np.broadcast_to((k % 251).astype(np.uint8)[:, None, None], (100, 84, 84))
        memory.add_episode(states, k, k, k, k, np.zeros((100, 0)), 1.0, 1.0, False, False)
    # A tenth of the data is all that saving may take.
    limit(size // 10)
    memory.save(path)
else:
    limit(size + size // 10)
    memory = cogrs.ReplayMemory.load(path, allow_overcommit=True)
for at in (0, memory.num_episode() // 2, -1):
    entries = memory.episode(at).entries
    assert (entries.s == (entries.r % 251)[:, None, None]).all()
print(size, memory.num_episode(), memory.weight_sum)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits and /proc of Linux")
def test_saving_and_loading_take_little_beyond_the_data(path):
    count = 142_400 if SOAK else 14_240
    done = {}
    for work in ("save", "load"):
        script = [sys.executable, "-c", STREAMED, work, str(path), str(count)]
        done[work] = subprocess.run(script, capture_output=True, text=True, check=False)
        assert done[work].stderr == ""
    assert done["save"].stdout == done["load"].stdout
    size = int(done["save"].stdout.split()[0])
    assert path.stat().st_size <= size * 1.01


def test_older_file_stays_when_saving_fails(path):
    path.mkdir()
    with pytest.raises(OSError, match=str(path)):
        filled().save(path)
    assert list(path.parent.iterdir()) == [path]


def test_saving_into_no_folder_is_an_os_error(path):
    missing = path / "nowhere" / "memory.rm"
    with pytest.raises(FileNotFoundError, match="nowhere") as caught:
        memory().save(missing)
    assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, str(missing))
    assert caught.value.strerror.startswith("No such file or directory")


@pytest.mark.skipif(sys.platform != "linux", reason="needs a folder where nobody makes files")
def test_saving_where_no_file_can_be_made_is_an_os_error_with_number_and_name():
    where = "/proc/self/memory.rm"
    with pytest.raises(OSError, match=where) as caught:
        memory().save(where)
    number = caught.value.errno
    assert number in (errno.EACCES, errno.ENOENT)
    assert (caught.value.filename, caught.value.strerror) == (where, os.strerror(number))


@pytest.mark.parametrize("given", [5, None, ["memory.rm"]], ids=str)
def test_argument_other_than_a_path_is_a_type_error(given):
    for call in (memory().save, ReplayMemory.load):
        with pytest.raises(TypeError, match="path: expected a path, got"):
            call(given)


def test_paths_are_text_or_bytes_or_path_objects(path):
    for form in (path, str(path), os.fsencode(path)):
        filled().save(form)
        assert len(ReplayMemory.load(form)) == len(filled())


def test_missing_file_is_an_os_error(path):
    with pytest.raises(FileNotFoundError, match=str(path)) as caught:
        ReplayMemory.load(path)
    assert caught.value.args == (errno.ENOENT, "No such file or directory")
    assert caught.value.filename == str(path)


@pytest.mark.skipif(sys.platform != "linux", reason="needs a limit on the size of files")
def test_file_that_may_not_grow_is_an_os_error_and_leaves_nothing(path):
    script = """
import resource, signal, sys
from tests.replay import build
rem = build.memory(4096)
build.add_uniform(rem, 4000)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    rem.save(sys.argv[1])
except OSError as error:
    print(error.errno, error.filename)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{errno.EFBIG} {path}\n"
    assert list(path.parent.iterdir()) == []


def test_file_gets_the_usual_permissions(path):
    memory().save(path)
    other = path.with_suffix(".other")
    other.touch()
    assert os.stat(path).st_mode == os.stat(other).st_mode


@pytest.mark.parametrize("content", [b"", b"x" * 10, b"x" * 1000], ids=["empty", "short", "other"])
def test_file_of_another_kind_is_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"expected a saved replay memory, got a file"):
        ReplayMemory.load(path)


def test_file_of_another_version_is_refused(path):
    filled().save(path)
    whole = bytearray(path.read_bytes())
    whole[8] += 1
    path.write_bytes(whole)
    with pytest.raises(ValueError, match="version"):
        ReplayMemory.load(path)


def test_file_cut_anywhere_is_refused(path):
    filled().save(path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 13):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"short|cut"):
            ReplayMemory.load(path)


def test_file_with_a_changed_byte_is_refused(path):
    filled().save(path)
    whole = path.read_bytes()
    for at in range(0, len(whole), 7):
        changed = bytearray(whole)
        changed[at] ^= 0x10
        path.write_bytes(changed)
        with pytest.raises(ValueError, match="expected a saved replay memory, got"):
            ReplayMemory.load(path)


def test_file_added_to_is_refused(path):
    filled().save(path)
    with path.open("ab") as file:
        file.write(b"more")
    with pytest.raises(ValueError, match="added"):
        ReplayMemory.load(path)


def rewritten(path: Path, change: Any) -> None:
    """Change the header, and make its checksum fit again."""
    whole = path.read_bytes()
    length = int.from_bytes(whole[12:20], "little")
    header = bytearray(whole[20 : 20 + length])
    change(header)
    checksum = zlib.crc32(header).to_bytes(4, "little")
    path.write_bytes(whole[:20] + header + checksum + whole[24 + length :])


@pytest.mark.parametrize(
    ("saved", "forged", "refusal"),
    [
        (b"|V4", b"|V9", "info: expected"),
        (b"<f4", b"<i4", "expected a saved replay memory"),
    ],
    ids=["contradicts its size", "not for this field"],
)
def test_forged_dtype_is_refused(path, saved, forged, refusal):
    memory(i=np.zeros((), "V4")).save(path)

    def forge(header: bytearray) -> None:
        at = header.index(saved)
        header[at : at + len(saved)] = forged

    rewritten(path, forge)
    with pytest.raises(ValueError, match=refusal):
        ReplayMemory.load(path)


def test_totals_outlive_the_process_and_evicted_entries(path):
    rem = filled()
    totals = rem.total_episodes, rem.total_steps
    assert totals > (rem.num_episode(), 0)
    rem.save(path)
    loaded = ReplayMemory.load(path)
    assert (loaded.total_episodes, loaded.total_steps) == totals


def test_claimed_header_of_gigabytes_is_refused(path):
    memory().save(path)
    kind_and_version = path.read_bytes()[:12]
    with path.open("wb") as file:
        file.write(kind_and_version + (40 << 30).to_bytes(8, "little"))
        file.truncate((40 << 30) + 100)
    with pytest.raises(ValueError, match="header of 42949672960 bytes"):
        ReplayMemory.load(path)


def test_pipe_is_neither_waited_for_nor_replaced(path):
    os.mkfifo(path)
    with pytest.raises(ValueError, match="not a regular file"):
        ReplayMemory.load(path)
    with pytest.raises(OSError, match="not a file"):
        memory().save(path)
    assert path.is_fifo()


def test_link_is_followed_and_permissions_stay(path):
    target = path.with_suffix(".target")
    target.touch(mode=0o600)
    path.symlink_to(target)
    filled().save(path)
    assert path.is_symlink()
    assert target.stat().st_mode & 0o777 == 0o600
    assert ReplayMemory.load(target).num_episode() > 0
