"""Many writers of one memory, one after another and at once."""

import gc
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from cogrs import ReplayMemory, ReplayWriter, Sample
from tests.replay import build
from tests.replay.build import memory, step, steps

# Large enough for its copies to be made while other threads run.
STATE = np.zeros((100, 100), np.int64)


def test_episodes_side_by_side_stay_apart() -> None:
    rem = memory(32)
    writers = [rem, rem.writer(), rem.writer()]
    for writer in writers:
        writer.new_episode()
    for t in range(4):
        for k, writer in enumerate(writers):
            writer.add_entry(**step(100 * k + t))
    for writer in reversed(writers):
        writer.close_episode()
    assert build.contents(rem) == [[200, 201, 202, 203], [100, 101, 102, 103], [0, 1, 2, 3]]


def test_stack_leaves_out_a_slot_of_another_between_its_own() -> None:
    """The first writer's entries lie in slots 0, 3, 2 and 4 in the end, the last writer's in 1."""
    rem = memory(5, frame_stack=3)
    writers = [rem.writer() for _ in range(5)]
    for k, writer in enumerate(writers):
        writer.new_episode()
        writer.add_entry(**step(100 * k))
    for k in (3, 2, 1):
        writers[k].abort_episode()
    writers[0].add_entries(**steps(3, first=1))
    writers[0].close_episode(**build.UNIFORM)
    batch = rem.get_batch(2)
    assert batch.prev.s.tolist() == [[0, 1, 2]] * 2
    assert batch.next.s.tolist() == [[1, 2, 3]] * 2


def test_ids_are_consecutive_inside_each_episode() -> None:
    rem = memory(32)
    writers = [rem.writer() for _ in range(3)]
    for writer in writers:
        writer.new_episode()
    returned = [[writer.add_entry(**step()) for writer in writers] for _ in range(5)]
    for writer in writers:
        writer.close_episode(final_state=1)
    stored = [rem.episode(k).id.tolist() for k in range(3)]
    for k, ids in enumerate(np.transpose(returned).tolist()):
        assert stored[k] == list(range(ids[0], ids[0] + 6))
        assert stored[k][:5] == ids
    assert len({id_ for ids in stored for id_ in ids}) == 18


def test_ids_are_never_used_again() -> None:
    rem = memory(4)
    seen: set[int] = set()
    for k in range(50):
        first = build.add_uniform(rem, 1 + k % 4)
        ids = set(range(first, first + 1 + k % 4))
        assert not ids & seen
        seen |= ids


def test_eviction_follows_the_order_of_closing() -> None:
    rem = memory(6)
    early, late = rem.writer(), rem.writer()
    early.new_episode()
    early.add_entries(**steps(2))
    late.new_episode()
    late.add_entries(**steps(2, first=10))
    late.close_episode()
    early.close_episode()
    build.add_uniform(rem, 4, first=20)
    assert build.contents(rem) == [[0, 1], [20, 21, 22, 23]]


def test_open_entries_count_against_the_size() -> None:
    rem = memory(8)
    writer = rem.writer()
    writer.new_episode()
    writer.add_entries(**steps(5))
    assert rem.num_entry == 5
    rem.new_episode()
    rem.add_entries(**steps(3))
    with pytest.raises(RuntimeError):
        rem.add_entry(**step())
    with pytest.raises(RuntimeError):
        writer.add_entry(**step())


def test_entries_of_another_writer_are_never_evicted_while_open() -> None:
    rem = memory(8)
    writer = rem.writer()
    writer.new_episode()
    writer.add_entries(**steps(3))
    for first in range(10, 100, 10):
        build.add_uniform(rem, 4, first)
    writer.close_episode()
    assert build.contents(rem) == [[90, 91, 92, 93], [0, 1, 2]]


def test_writer_starts_without_an_episode() -> None:
    rem = memory()
    rem.new_episode()
    with pytest.raises(RuntimeError):
        rem.writer().add_entry(**step())


def test_writer_may_drop_its_episode() -> None:
    rem = memory()
    writer = rem.writer()
    writer.new_episode()
    writer.add_entries(**steps(3))
    writer.abort_episode()
    assert rem.num_entry == 0
    with pytest.raises(RuntimeError):
        writer.close_episode()


def test_writer_that_goes_away_drops_its_open_episode() -> None:
    rem = memory(4)
    writer = rem.writer()
    writer.new_episode()
    writer.add_entries(**steps(4))
    del writer
    gc.collect()
    assert rem.num_entry == 0
    build.add_uniform(rem, 4)


def test_writer_that_goes_away_leaves_its_closed_episodes() -> None:
    rem = memory()
    writer = rem.writer()
    writer.new_episode()
    writer.add_entries(**steps(3))
    writer.close_episode()
    del writer
    gc.collect()
    assert build.contents(rem) == [[0, 1, 2]]


def test_writer_outlives_the_memory() -> None:
    rem = memory()
    writer = rem.writer()
    del rem
    gc.collect()
    writer.new_episode()
    assert writer.add_entry(**step()) + 1 == writer.add_entry(**step())
    writer.close_episode()


def test_clear_drops_the_episodes_of_writers() -> None:
    rem = memory()
    writer = rem.writer()
    writer.new_episode()
    writer.add_entries(**steps(3))
    rem.clear()
    assert rem.num_entry == 0
    with pytest.raises(RuntimeError):
        writer.add_entry(**step())


def test_dropping_the_episode_of_a_cleared_memory_keeps_new_episodes() -> None:
    rem = memory(4)
    writer = rem.writer()
    writer.new_episode()
    writer.add_entries(**steps(3))
    rem.clear()
    build.add_uniform(rem, 4)
    del writer
    gc.collect()
    assert build.contents(rem) == [[0, 1, 2, 3]]


# -- at once --


def run_together(jobs: list[Callable[[], None]]) -> None:
    """Start all at the same moment; the first failure is raised here."""
    barrier = threading.Barrier(len(jobs))

    def started(job: Callable[[], None]) -> None:
        barrier.wait(60)
        job()

    with ThreadPoolExecutor(len(jobs)) as pool:
        for future in [pool.submit(started, job) for job in jobs]:
            future.result()


def write_numbered(writer: ReplayMemory | ReplayWriter, first: int, episodes: int) -> None:
    """Step k has k in every element of every field."""
    for k in range(first, first + 10 * episodes, 10):
        writer.new_episode()
        for t in range(k, k + 8):
            writer.add_entry(**step(t, s=STATE + t))
        # A whole stack at once takes another way into the memory than step by step.
        writer.add_entries(**steps(2, k + 8, s=STATE + np.array([k + 8, k + 9])[:, None, None]))
        writer.close_episode(1.0, False, False)


def check_not_mixed(sample: Sample) -> None:
    k = sample.prev.i
    frames = k[:, None] - np.arange(2)[::-1]
    assert (sample.prev.s == frames[:, :, None, None]).all()
    assert (sample.next.s == frames[:, :, None, None] + 3).all()
    for name in "arpv":
        assert (getattr(sample.prev, name) == k).all()
        assert (getattr(sample.next, name) == k + 3).all()


def test_samples_are_never_mixed_while_others_write() -> None:
    rem = memory(150, s=STATE, frame_stack=2, multi_step=3, seed=0)
    writers = [rem, *(rem.writer() for _ in range(3))]
    write_numbered(rem, 0, 1)
    writing = threading.Event()
    writing.set()
    left = threading.Semaphore(len(writers) - 1)

    def write(at: int) -> None:
        try:
            write_numbered(writers[at], 1_000_000 * at, 10_000 if build.SOAK else 150)
        finally:
            if not left.acquire(blocking=False):
                writing.clear()

    def read() -> None:
        while writing.is_set():
            check_not_mixed(rem.sample(16))
            view = rem.episode(-1)
            assert np.array_equal(view.entries.s[:, 5, 7], view.entries.i)

    run_together([*(lambda at=at: write(at) for at in range(4)), *[read] * 4])
    assert rem.num_entry <= 150
    check_not_mixed(rem.sample(64))


def test_writers_in_threads_lose_and_mix_nothing() -> None:
    rem = memory(4 * 100)
    jobs = []
    for at in range(4):
        writer = rem.writer()
        jobs.append(lambda writer=writer, at=at: write_small(writer, 1000 * at))
    run_together(jobs)
    firsts = [1000 * at + k for at in range(4) for k in range(0, 100, 5)]
    assert sorted(build.contents(rem)) == [list(range(k, k + 5)) for k in firsts]


def write_small(writer: ReplayWriter, first: int) -> None:
    for k in range(first, first + 100, 5):
        writer.new_episode()
        for t in range(k, k + 5):
            writer.add_entry(**step(t))
        writer.close_episode()


def test_corrections_and_settings_from_other_threads() -> None:
    rem = memory(64, priority_exponent=1.0, seed=0)
    build.add_uniform(rem, 10)

    def write() -> None:
        for k in range(300):
            rem.add_episode(**steps(10, 10 * k))

    def correct() -> None:
        for _ in range(300):
            ids = rem.sample(16).id
            rem.update_priority(ids, 1.0)
            rem.add_reward(int(ids[0]), 1.0)

    def change() -> None:
        for k in range(300):
            rem.frame_stack = 1 + k % 3
            rem.multi_step = 1 + k % 2
            sample = rem.sample(4)
            assert (sample.next.i > sample.prev.i).all()

    run_together([write, correct, change, change])
    weights = np.concatenate([rem.episode(k).weight for k in range(rem.num_episode())])
    assert rem.weight_sum == pytest.approx(weights.astype(np.float64).sum(), rel=1e-9)


def test_counters_answer_while_a_large_batch_is_gathered() -> None:
    frame = np.zeros(2**21 if build.SOAK else 2**18, np.uint8)
    rem = memory(64, s=frame)
    build.add_uniform(rem, 64, s=np.zeros((64, *frame.shape), np.uint8))
    gathering = threading.Thread(target=rem.get_batch, args=(256,))
    answers = 0
    gathering.start()
    while gathering.is_alive():
        answers += rem.num_episode() == 1 and rem.num_entry == 64 and rem.frame_stack == 1
    gathering.join()
    # Were they to wait for the batch, or for a piece of it, there would be one or a few.
    assert answers > 100


def test_one_episode_written_by_several_threads_loses_no_entry() -> None:
    rem = memory(400)
    rem.new_episode()
    run_together([lambda at=at: add_each(rem, at) for at in range(4)])
    rem.close_episode()
    view = rem.episode(0)
    assert sorted(view.entries.s.tolist()) == list(range(400))
    assert np.array_equal(view.entries.s, view.entries.i)


def add_each(rem: ReplayMemory, at: int) -> None:
    for k in range(at, 400, 4):
        rem.add_entry(**step(k))


DROPPING = """
import sys, threading
import numpy as np
import cogrs

sys.setswitchinterval(1e-5)
f = np.float32(0)
memory = cogrs.ReplayMemory(np.zeros(300, f.dtype), f, f, f, f, f, f, 1000)
memory.add_episode(np.zeros((100, 300), f.dtype), *[np.zeros(100, f.dtype)] * 5, 1, 1, False, False)

def drop():
    for _ in range(30_000):
        memory.writer()

def sample():
    for _ in range(1_000):
        memory.get_batch(256)

def reopen():
    writer = memory.writer()
    for _ in range(30_000):
        writer.new_episode()

threads = [threading.Thread(target=work) for work in (drop, sample, reopen)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_dropping_writers_does_not_block_threads_that_wait_for_the_memory() -> None:
    # In a process of its own: a thread that waits for ever would keep this one from ending.
    subprocess.run([sys.executable, "-c", DROPPING], check=True, timeout=60)
