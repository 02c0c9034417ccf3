"""The memory of the process that a replay memory takes: at most `nbytes`."""

import subprocess
import sys

import numpy as np
import pytest

from cogrs import ReplayMemory
from tests.replay.build import add_uniform, contents, memory, step, steps

_MEASURE = """
import gc, resource, sys
import numpy as np
from cogrs import ReplayMemory

count, length, dims, truncated = map(int, sys.argv[1:])
scalar = np.zeros(dims, np.float32) if dims > 1 else np.float32(0)
zeros = np.zeros((length, dims), np.float32) if dims > 1 else np.zeros(length, np.float32)
templates = np.int64(0), np.int64(0), scalar, np.float32(0), scalar, scalar, np.int64(0)
whole, plain = np.zeros(length, np.int64), np.zeros(length, np.float32)


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def fill(memory, episodes):
    for _ in range(episodes):
        memory.add_episode(
            whole, whole, zeros, plain, zeros, whole, 1.0,
            bootstrap_value=scalar if truncated else None,
        )


fill(ReplayMemory(*templates, 100), 1_000)  # what the first calls take once and for all
memory = ReplayMemory(*templates, count * length)
gc.collect()
before = resident()
fill(memory, 2 * count)
print(resident() - before, memory.nbytes, memory.num_episode())
"""


def measured(*arguments: int) -> list[int]:
    """Bytes taken, bytes announced, and episodes held by a memory that was filled twice over."""
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
    )
    return list(map(int, done.stdout.split()))


@pytest.mark.skipif(sys.platform != "linux", reason="statm is Linux's")
@pytest.mark.parametrize(
    ("count", "length", "dims", "truncated"),
    [
        (60_000, 1, 1, 0),
        (60_000, 1, 1, 1),
        (40_000, 1, 5, 1),
        (115_000, 1, 1, 0),
        (30_000, 3, 1, 0),
    ],
)
def test_memory_reserves_at_most_nbytes(count: int, length: int, dims: int, truncated: int) -> None:
    taken, announced, held = measured(count, length, dims, truncated)
    assert held == count
    # Pages are counted whole, and the allocator has some of its own.
    assert taken <= announced + 1_000_000
    if length == 1:
        assert taken >= 0.6 * announced


def test_check_against_the_machine_counts_episodes_of_one_step() -> None:
    small = memory(1_000)
    slots = (small.nbytes - memory(0).nbytes) // 1_000
    assert slots > small.entry_size + 21 + 80
    entries = memory(0)
    with pytest.raises(MemoryError, match=r"max_step: \d+ entries take up to \d+ bytes, of which"):
        memory(2**40 // slots * 64)
    assert entries.nbytes < 20_000


@pytest.mark.parametrize("limit", [0, 2, 5])
def test_empty_episodes_are_bounded_and_make_no_other_go(limit: int) -> None:
    rem = memory(10, max_episode=limit)
    add_uniform(rem, 3, 0)
    add_uniform(rem, 3, 10)
    for _ in range(1_000):
        rem.new_episode()
        rem.close_episode()
        rem.add_episode(**steps(0))
    assert contents(rem)[:2] == [[0, 1, 2], [10, 11, 12]]
    assert rem.total_episodes == 2_002
    assert rem.num_episode() <= (limit or 2 + 64)
    assert rem.num_entry == 6
    assert (rem.sample(50).prev.s % 10 < 2).all()


def test_empty_episodes_are_counted_and_evicted_in_order() -> None:
    rem = memory(6)
    rem.add_episode(**steps(0))
    add_uniform(rem, 3, 0)
    rem.add_episode(**steps(0))
    assert contents(rem) == [[], [0, 1, 2], []]
    add_uniform(rem, 4, 10)
    assert contents(rem) == [[], [10, 11, 12, 13]]


def test_episode_with_entries_takes_the_place_of_an_empty_one() -> None:
    rem = memory(20, max_episode=2)
    add_uniform(rem, 2, 0)
    rem.add_episode(**steps(0))
    add_uniform(rem, 2, 10)
    assert contents(rem) == [[0, 1], [10, 11]]
    rem.add_episode(**steps(0))
    assert contents(rem) == [[0, 1], [10, 11]]
    add_uniform(rem, 2, 20)
    assert contents(rem) == [[10, 11], [20, 21]]


def test_lower_limit_counts_from_the_next_close_on() -> None:
    rem = memory(20)
    for first in (0, 10, 20):
        add_uniform(rem, 2, first)
        rem.add_episode(**steps(0))
    rem.max_episode = 2
    assert rem.num_episode() == 6
    rem.add_episode(**steps(0))
    assert contents(rem) == [[10, 11], [20, 21]]


def test_empty_episodes_of_a_file_are_bounded_too(tmp_path) -> None:
    rem = memory(10)
    for first in range(100):
        rem.add_episode(**steps(0))
        if first % 50 == 0:
            add_uniform(rem, 2, first)
    rem.save(tmp_path / "rem")
    again = ReplayMemory.load(tmp_path / "rem")
    assert contents(again) == contents(rem)
    assert again.num_episode() == 64 + 2
    again.add_episode(**steps(0))
    assert again.num_episode() == 64 + 2
    again.clear()
    for _ in range(70):
        again.add_episode(**steps(0))
    assert again.num_episode() == 64
    again.new_episode()
    again.add_entry(**step())
    again.close_episode()
    np.testing.assert_array_equal(again.episode(-1).entries.s, [0])
