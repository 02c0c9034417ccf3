"""Waits for a rate limiter: what ends them, and threads on both sides."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from cogrs import RateLimiter, ReplayMemory
from tests.program import program
from tests.replay.build import TEMPLATES, add_uniform, memory, step
from tests.replay.model import FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 30
"""Seconds after which a test fails that should have ended long before."""


def limited(limiter: RateLimiter, max_step: int = 64) -> ReplayMemory:
    return ReplayMemory(*(TEMPLATES[name] for name in FIELDS), max_step, seed=0, limiter=limiter)


def insert(to: ReplayMemory, count: int = 1, **changes: Any) -> None:
    add_uniform(to, count, final_state=0, **changes)


class Waiting:
    """A call in a thread, which is started at once."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.error: BaseException | None = None
        self._call = call
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        time.sleep(0.1)

    def _run(self) -> None:
        try:
            self._call()
        except BaseException as error:
            self.error = error

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def join(self) -> None:
        self._thread.join(LIMIT)
        assert self.is_over
        if self.error is not None:
            raise self.error


def test_sample_that_waits_is_given_when_entries_come() -> None:
    rem = limited(RateLimiter.min_size(4))
    sample = Waiting(lambda: rem.sample(8))
    insert(rem, 3)
    assert not sample.is_over
    insert(rem, 1)
    sample.join()


def test_close_that_waits_goes_in_when_samples_are_drawn() -> None:
    rem = limited(RateLimiter.queue(3))
    insert(rem, 4)
    rem.new_episode()
    rem.add_entry(**step(1))
    close = Waiting(rem.close_episode)
    rem.sample(1)
    time.sleep(0.1)
    assert not close.is_over
    rem.sample(1)
    close.join()
    assert rem.total_steps == 5


def test_insert_that_waits_goes_in_after_clear() -> None:
    rem = limited(RateLimiter.queue(2))
    insert(rem, 2)
    waiting = Waiting(lambda: insert(rem))
    assert not waiting.is_over
    rem.clear()
    waiting.join()


def test_memory_without_limiter_waits_for_entries_to_draw() -> None:
    rem = memory(8)
    sample = Waiting(lambda: rem.sample(2, wait=LIMIT))
    assert not sample.is_over
    insert(rem, 2)
    sample.join()


@pytest.mark.parametrize("change", ["update_priority", "frame_stack"])
def test_sample_that_waits_is_given_when_entries_become_drawable(change: str) -> None:
    rem = memory(8)
    if change == "frame_stack":
        rem.frame_stack = 5
    first = rem.add_episode(*[[1, 1]] * 6, 1.0, final_state=0, do_update_weight=False)
    if change == "update_priority":
        rem.update_priority([first, first + 1], 0.0)
    sample = Waiting(lambda: rem.sample(2, wait=LIMIT))
    assert not sample.is_over
    if change == "frame_stack":
        rem.frame_stack = 1
    else:
        rem.update_priority(first, 1.0)
    sample.join()


def test_close_raises_if_another_thread_drops_the_episode_in_the_wait() -> None:
    rem = limited(RateLimiter.queue(1))
    insert(rem)
    writer = rem.writer()
    writer.new_episode()
    writer.add_entry(**step(1))
    close = Waiting(writer.close_episode)
    writer.new_episode()
    writer.add_entry(**step(2))
    rem.sample(1)
    with pytest.raises(RuntimeError, match="no episode is open"):
        close.join()
    writer.close_episode(wait=0)


def test_arrays_of_out_are_filled_after_the_wait() -> None:
    rem = limited(RateLimiter.min_size(2))
    insert(rem, 2)
    out = rem.sample(3)
    rem.clear()
    out.prev.s[:] = -1
    sample = Waiting(lambda: rem.sample(3, out=out))
    insert(rem, 4, first=10)
    sample.join()
    assert np.all(out.prev.s >= 10)


def test_layout_that_changes_in_the_wait_is_that_of_the_batch() -> None:
    rem = limited(RateLimiter.min_size(4))
    shapes: list[tuple[int, ...]] = []
    sample = Waiting(lambda: shapes.append(rem.sample(3).prev.s.shape))
    rem.frame_stack = 2
    insert(rem, 4)
    sample.join()
    assert shapes == [(3, 2)]


def test_draw_of_a_view_that_waits_for_the_limiter_raises_when_the_view_is_closed() -> None:
    rem = limited(RateLimiter.min_size(2))
    view = rem.view("other")
    sample = Waiting(lambda: view.sample(1))
    view.close()
    with pytest.raises(RuntimeError, match="this view was closed"):
        sample.join()


@pytest.mark.parametrize("settings", [{"sampler": "fifo"}, {"max_times_sampled": 1}])
def test_batch_that_no_wait_could_ever_fill_is_refused_at_once(settings: Any) -> None:
    rem = limited(RateLimiter.min_size(1), 8)
    view = rem.view("other", **settings)
    for name, value in settings.items():
        setattr(rem, name, value)
    for draw in (rem.sample, rem.get_batch, view.sample, lambda n: rem.sample_sequences(n, 1)):
        with pytest.raises(ValueError, match=r"expected at most 8 with max_step=8, .* got 9"):
            draw(9)
    insert(rem, 7)
    assert len(rem.sample(7).weight) == 7
    with pytest.raises(TimeoutError, match="waited 0 s"):
        rem.sample(9, wait=0)


def test_sequences_with_too_few_steps_after_are_refused_before_the_wait() -> None:
    rem = limited(RateLimiter.min_size(2))
    with pytest.raises(ValueError, match="after: expected at least multi_step=1"):
        rem.sample_sequences(1, 2, nstep_return=True)


class Observed:
    """A memory with threads on both sides, and every violation of its limits that was seen."""

    SPI, MIN_SIZE, BUFFER, LONGEST = 2.0, 20, 12.0, 6
    LOW, HIGH = MIN_SIZE * SPI - BUFFER, MIN_SIZE * SPI + BUFFER

    def __init__(self) -> None:
        self.rem = limited(RateLimiter(self.SPI, self.MIN_SIZE, self.BUFFER), 256)
        self.stop = threading.Event()
        self.wrong: list[str] = []
        acts = [self.write] * 4 + [self.draw] * 2 + [self.check]
        threads = [threading.Thread(target=self.work, args=each) for each in enumerate(acts)]
        for thread in threads:
            thread.start()
        time.sleep(3)
        self.stop.set()
        for thread in threads:
            thread.join(LIMIT)
            assert not thread.is_alive()

    def work(self, seed: int, act: Callable[[np.random.Generator], None]) -> None:
        rng = np.random.default_rng(seed)
        while not self.stop.is_set():
            try:
                act(rng)
            except TimeoutError:
                continue
            except BaseException as error:
                self.wrong.append(repr(error))
                return
            time.sleep(rng.uniform(0, 0.002))

    def check(self, rng: np.random.Generator) -> None:
        figures = self.rem.stats().limiter
        assert figures is not None
        owed = figures.inserts * self.SPI - figures.samples
        # One entry may come, and then its whole episode does.
        highest = self.HIGH + (self.LONGEST - 1) * self.SPI
        if owed > highest or (figures.samples and owed < self.LOW):
            self.wrong.append(f"{owed} outside of [{self.LOW}, {highest}]")

    def write(self, rng: np.random.Generator) -> None:
        insert(self.rem, int(rng.integers(1, self.LONGEST + 1)), wait=0.5)

    def draw(self, rng: np.random.Generator) -> None:
        self.rem.sample(int(rng.integers(1, 12)), wait=0.5)


def test_ratio_stays_between_its_limits_with_four_writers_and_two_samplers() -> None:
    observed = Observed()
    assert observed.wrong == []
    figures = observed.rem.stats().limiter
    assert figures is not None
    assert figures.inserts > 200
    assert abs(figures.samples_per_insert - observed.SPI) < 0.5


def test_many_writers_that_wait_all_come_in_turn() -> None:
    rem = limited(RateLimiter.queue(1))
    insert(rem)
    waiting = [Waiting(lambda: insert(rem)) for _ in range(8)]
    assert not any(each.is_over for each in waiting)
    for _ in range(8):
        rem.sample(1, wait=LIMIT)
    for each in waiting:
        each.join()
    assert rem.total_steps == 9


MAKE = """
import sys
import numpy as np
from cogrs import RateLimiter, ReplayMemory

number = np.float32(0)
buffers = (0, 0, number, number, number, number, 0)
rem = ReplayMemory(*buffers, 64, limiter=RateLimiter.queue(1))
one = ([1], [1], [1.0], [1.0], [1.0], [1])
rem.add_episode(*one, 1.0, do_update_weight=False, final_state=0)
empty = ReplayMemory(*buffers, 64, limiter=RateLimiter.min_size(1))
plain = ReplayMemory(*buffers, 64)
rem.new_episode()
rem.add_entry(*[1] * 6, 1.0)
recorder = rem.recorder(1)
zero = np.zeros(1)
call = lambda: CALL
"""

CALLS = [
    "rem.close_episode()",
    "rem.close_episode(wait=60)",
    "rem.add_episode(*one, 1.0)",
    "recorder.add(zero.astype(int), [1], zero, [True], [False], next_obs=[2])",
    "empty.sample(1)",
    "empty.get_batch(1, wait=60)",
    "plain.sample(1, wait=60)",
    "plain.sample(1, wait=float('inf'))",
]


@pytest.mark.parametrize("call", CALLS)
def test_ctrl_c_ends_each_wait_and_changes_nothing(call: str) -> None:
    script = (
        MAKE.replace("CALL", call)
        + """
before = [(each.num_entry, each.total_steps, each.stats()) for each in (rem, empty, plain)]
print("ready", flush=True)
try:
    call()
except KeyboardInterrupt:
    after = [(each.num_entry, each.total_steps, each.stats()) for each in (rem, empty, plain)]
    counted = lambda each: [
        (a, b, c.limiter and (c.limiter.inserts, c.limiter.samples, c.limiter.removed))
        for a, b, c in each
    ]
    assert counted(before) == counted(after)
    rem.sample(1)
    rem.close_episode(wait=0)
    print("interrupted", flush=True)
"""
    )
    with program(script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=LIMIT)
        assert (output, errors) == ("interrupted\n", "")
        assert time.monotonic() - began < LIMIT / 2


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="this system does not fork")
@pytest.mark.parametrize(
    "call", ["rem.close_episode()", "rem.sample(1)", "rem.stats()", "rem.add_episode(*one, 1.0)"]
)
def test_forked_child_is_refused_also_while_a_thread_of_the_parent_waits(call: str) -> None:
    script = (
        MAKE.replace("CALL", call)
        + """
import os, threading, time
waiting = threading.Thread(target=lambda: rem.add_episode(*one, 1.0))
waiting.start()
time.sleep(0.2)
child = os.fork()
if child == 0:
    try:
        call()
    except RuntimeError as error:
        os.write(1, f"refused: {error}\\n".encode())
    os._exit(0)
os.waitpid(child, 0)
rem.sample(1)
waiting.join(10)
os.write(1, f"{waiting.is_alive()} {rem.total_steps}\\n".encode())
"""
    )
    with program(script) as process:
        output, _ = process.communicate(timeout=LIMIT)
        assert output.startswith("refused: this ReplayMemory was created before a fork")
        assert output.endswith("False 2\n")


def test_program_ends_while_a_daemon_thread_waits() -> None:
    script = (
        MAKE.replace("CALL", "rem.close_episode()")
        + """
import threading, time
threading.Thread(target=call, daemon=True).start()
threading.Thread(target=lambda: empty.sample(1), daemon=True).start()
time.sleep(0.3)
print("end", flush=True)
"""
    )
    with program(script) as process:
        try:
            output, errors = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            pytest.fail("the program does not end")
        assert (output, errors, process.returncode) == ("end\n", "", 0)


def test_recorder_waits_once_before_anything_is_stored() -> None:
    rem = limited(RateLimiter.queue(2))
    recorder = rem.recorder(2, "same_step", do_update_weight=False, do_update_value=False)
    insert(rem, 3)
    ends = [True, True]

    def add(**changes: Any) -> Any:
        ones = np.ones(2)
        return recorder.add([1, 2], [0, 0], ones, ends, [False, False], [3, 4], **changes)

    with pytest.raises(TimeoutError, match="does not allow an insert yet"):
        add(wait=0.1)
    assert (rem.num_entry, rem.num_episode()) == (4, 1)
    ends[:] = [False, False]
    add(wait=0)
    ends[:] = [True, True]
    adding = Waiting(add)
    assert not adding.is_over
    rem.sample(2)
    adding.join()
    figures = rem.stats().limiter
    assert figures is not None
    assert (figures.inserts, rem.num_episode()) == (7, 3)


@pytest.mark.parametrize("ends", [False, True])
def test_recorder_refuses_a_wait_that_is_not_seconds_whether_or_not_an_episode_ends(
    ends: bool,
) -> None:
    rem = limited(RateLimiter.min_size(1))
    recorder = rem.recorder(1)
    with pytest.raises(ValueError, match="wait: expected seconds >= 0"):
        recorder.add([1], [0], [0.0], [ends], [False], next_obs=[2], wait=-1)
    assert rem.num_entry == 0


def test_sample_that_would_wait_for_ever_for_min_size_is_an_error_at_once() -> None:
    rem = limited(RateLimiter.min_size(20))
    rem.max_episode = 3
    for _ in range(12):
        insert(rem, 5)
    expected = r"^limiter: expected a min_size that is held with max_step=64 and max_episode=3"
    with pytest.raises(ValueError, match=expected):
        rem.sample(1)
    with pytest.raises(ValueError, match=expected):
        rem.sample_sequences(1, 2)
    with pytest.raises(TimeoutError, match="is below min_size = 20"):
        rem.sample(1, wait=0)
    rem.max_episode = 4
    insert(rem, 5)
    assert len(rem.sample(1).weight) == 1
