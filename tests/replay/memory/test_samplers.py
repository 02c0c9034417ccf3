"""Samplers, and limits of how often an entry is given.

Chi-square tests have a fixed seed, and would fail for one seed in 10^4.
"""

import signal
import threading
import time
from typing import Any

import numpy as np
import pytest

import cogrs
from cogrs import ReplayMemory
from tests.program import program
from tests.replay.build import UNIFORM, add_uniform, memory, steps

ORDERED = ["fifo", "lifo", "highest", "lowest"]
SAMPLERS = ["prioritized", "stratified", "uniform", *ORDERED]


def weighted(weights: list[float], **changes: Any) -> tuple[ReplayMemory, int]:
    """A memory of one episode with these weights, one entry longer than that."""
    rem = memory(64, seed=1, **changes)
    first = rem.add_episode(**steps(len(weights) + 1), **UNIFORM)
    rem.update_priority(np.arange(first, first + len(weights)), weights, absolute=True)
    return rem, first


def assert_fits(counts: np.ndarray, chances: list[float], critical: float) -> None:
    expected = counts.sum() * np.array(chances)
    assert np.sum((counts - expected) ** 2 / expected) < critical


@pytest.mark.parametrize(
    ("sampler", "chances"),
    [
        ("prioritized", [0.1, 0.2, 0.3, 0.4]),
        ("stratified", [0.1, 0.2, 0.3, 0.4]),
        ("uniform", [0.25, 0.25, 0.25, 0.25]),
    ],
)
def test_draws_have_the_probabilities_that_samples_state(sampler, chances):
    rem, first = weighted([1, 2, 3, 4])
    rows = [rem.sample(7, sampler=sampler) for _ in range(3000)]
    steps_drawn = np.concatenate([row.id for row in rows]).astype(int) - first
    stated = np.concatenate([row.probability for row in rows])
    np.testing.assert_allclose(stated, np.array(chances)[steps_drawn])
    # 3 degrees of freedom; strata make counts more even than chance would.
    assert_fits(np.bincount(steps_drawn, minlength=4), chances, 21.11)


def test_entry_of_weight_zero_is_drawn_by_all_but_weighted_samplers():
    rem, first = weighted([0, 1])
    assert (rem.num_drawable, rem.num_sampleable) == (2, 1)
    for sampler in SAMPLERS:
        drawn = np.concatenate([rem.sample(2, sampler=sampler).id for _ in range(40)])
        assert set(drawn - first) == ({1} if sampler in ("prioritized", "stratified") else {0, 1})


@pytest.mark.parametrize("sampler", ["prioritized", "stratified"])
def test_weighted_sampler_without_a_positive_weight_is_refused_while_others_draw(sampler):
    rem, _ = weighted([0, 0])
    with pytest.raises(RuntimeError, match=r"all weights are 0"):
        rem.sample(1, sampler=sampler)
    assert len(rem.sample(4, sampler="uniform").id) == 4


def test_entry_of_initial_weight_zero_is_drawn_by_no_sampler():
    rem = memory(8)
    first = add_uniform(rem, 3, init_w=np.array([0.0, 1.0, 0.0]))
    for sampler in SAMPLERS:
        assert rem.sample(1, sampler=sampler).id == first + 1


@pytest.mark.parametrize(
    ("sampler", "order"),
    [("fifo", [0, 1, 2, 3]), ("lifo", [3, 2, 1, 0]), ("highest", [1, 3, 0, 2]),
     ("lowest", [2, 0, 1, 3])],
)  # fmt: skip
def test_ordered_sampler_gives_each_entry_once_with_probability_one(sampler, order):
    rem, first = weighted([1, 5, 0, 5])
    sample = rem.sample(4, sampler=sampler, beta=0.5)
    assert (sample.id - first).tolist() == order
    assert sample.probability.tolist() == [1] * 4
    assert sample.importance_weight.tolist() == [1] * 4
    with pytest.raises(RuntimeError, match=rf"sampler='{sampler}': need 5, have 4"):
        rem.sample(5, sampler=sampler)


def test_fifo_goes_by_the_order_of_closing_then_of_steps():
    rem = memory(64)
    writers = [rem.writer() for _ in range(3)]
    for writer in writers:
        writer.new_episode()
    for k in range(4):
        for number, writer in enumerate(writers):
            writer.add_entries(**steps(1, 10 * number + k))
    for number in (2, 0, 1):
        writers[number].close_episode(1.0, **UNIFORM)
    oldest = [20, 21, 22, 0, 1, 2, 10, 11, 12]
    assert rem.sample(9, sampler="fifo").prev.s[:, 0].tolist() == oldest
    assert rem.sample(9, sampler="lifo").prev.s[:, 0].tolist() == oldest[::-1]


@pytest.mark.parametrize("writers", [1, 3])
def test_strata_run_over_entries_oldest_first_also_when_the_ring_has_wrapped(writers):
    rem = memory(40, seed=0)
    made = [rem.writer() for _ in range(writers)]
    for k in range(30):
        for writer in made:
            writer.new_episode()
        for _ in range(3):
            for writer in made:
                writer.add_entries(**steps(1, k))
        for writer in made[::-1]:
            writer.close_episode(1.0, **UNIFORM)
    order = np.concatenate([rem.episode(k).id[:-1] for k in range(rem.num_episode())])
    assert len(order) == rem.num_drawable
    position = {int(each): at for at, each in enumerate(order)}
    for _ in range(20):
        drawn = [position[int(each)] for each in rem.sample(len(order), sampler="stratified").id]
        assert drawn == list(range(len(order)))


def test_get_batch_and_sample_follow_the_memorys_sampler():
    rem, first = weighted([1, 2, 3], sampler="highest")
    assert (rem.sample(3).id - first).tolist() == [2, 1, 0]
    assert rem.get_batch(3).weight.tolist() == [3, 2, 1]
    rem.sampler = "lowest"
    assert rem.get_batch(3).weight.tolist() == [1, 2, 3]
    assert rem.sample(3, sampler="highest").weight.tolist() == [3, 2, 1]


def test_importance_weights_of_uniform_draws_are_ones():
    rem, _ = weighted([1, 2, 3])
    assert rem.sample(8, sampler="uniform", beta=1.0).importance_weight.tolist() == [1] * 8


@pytest.mark.parametrize("name", ["sampler", "remover"])
def test_misspelt_name_is_a_value_error_with_the_nearest(name):
    rem = memory()
    wrong, near = {"sampler": ("unifrom", "uniform"), "remover": ("lovest", "lowest")}[name]
    with pytest.raises(ValueError, match=rf"^{name}: expected .*; did you mean '{near}'"):
        setattr(rem, name, wrong)
    with pytest.raises(ValueError, match=r'^sampler: expected .*got "x"$'):
        rem.sample(1, sampler="x")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match=r"^sampler: expected .*got int"):
        rem.sample(1, sampler=1)  # type: ignore[call-overload]


# -- max_times_sampled --


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_entry_is_given_no_more_often_than_the_limit_allows(sampler):
    rem, first = weighted([1, 2, 3, 4], max_times_sampled=3, sampler=sampler)
    counts: dict[int, int] = {}
    for _ in range(6):
        sample = rem.sample(2)
        for each, times in zip(sample.id.tolist(), sample.times_sampled.tolist(), strict=True):
            counts[each] = counts.get(each, 0) + 1
            assert times == counts[each]
    assert counts == dict.fromkeys(range(first, first + 4), 3)
    assert (rem.num_drawable, rem.num_sampleable, rem.weight_sum) == (0, 0, 0)
    with pytest.raises(RuntimeError, match=r"have 0 .*max_times_sampled=3"):
        rem.sample(1)


@pytest.mark.parametrize("sampler", ["prioritized", "stratified", "uniform"])
def test_batch_beyond_the_limit_is_refused_with_both_numbers_and_counts_nothing(sampler):
    rem, _ = weighted([1, 2, 3], max_times_sampled=2, sampler=sampler)
    rem.sample(1)
    for _ in range(3):
        with pytest.raises(RuntimeError, match=r"need 6, have 5"):
            rem.sample(6)
    assert np.sort(rem.sample(5).times_sampled).tolist()[-3:] == [2, 2, 2]


def test_used_up_entry_stays_used_up_after_corrections():
    rem, first = weighted([1, 2, 3], max_times_sampled=1)
    gone = int(rem.sample(1, sampler="fifo").id[0])
    rem.update_priority(gone, 5.0)
    rem.add_reward(gone, 1.0)
    rem.frame_stack, rem.frame_stack = 2, 1
    rem.multi_step, rem.multi_step = 2, 1
    assert rem.num_drawable == 2
    assert np.sort(rem.sample(2).id - first).tolist() == [1, 2]


def test_counts_are_saved_and_loaded(tmp_path):
    rem, first = weighted([1, 2, 3], max_times_sampled=2, sampler="fifo", remover="lifo")
    rem.sample(3)
    rem.sample(1)
    rem.save(tmp_path / "memory")
    made = ReplayMemory.load(tmp_path / "memory")
    assert (made.sampler, made.max_times_sampled, made.remover) == ("fifo", 2, "lifo")
    sample = made.sample(2)
    assert (sample.id - first).tolist() == [1, 2]
    assert sample.times_sampled.tolist() == [2, 2]
    assert made.num_drawable == 0


@pytest.mark.parametrize("limit", [1, 255, 256, 70_000])
def test_count_of_any_limit_is_kept(limit):
    rem, _ = weighted([1], max_times_sampled=limit)
    rows = [rem.sample(min(limit - at, 1000)).times_sampled for at in range(0, limit, 1000)]
    assert np.concatenate(rows).tolist() == list(range(1, limit + 1))
    assert rem.num_drawable == 0


def test_queue_gives_every_entry_once_in_order_through_a_small_ring():
    rem = memory(32, sampler="fifo", max_times_sampled=1)
    given: list[int] = []
    for k in range(40):
        add_uniform(rem, 5, 4 * k, s=4 * k + np.arange(5))
        given += rem.get_batch(4).prev.s[:, 0].tolist()
    assert given == list(range(160))


@pytest.mark.parametrize("nstep", [False, True])
def test_samples_under_a_limit_have_counts_before_importance_weights(nstep):
    rem, _ = weighted([1, 2], max_times_sampled=9)
    plain = rem.sample(2, nstep_return=nstep)
    assert plain._fields[-1] == "times_sampled"
    assert plain.times_sampled.dtype == np.uint32
    both = rem.sample(2, nstep_return=nstep, beta=0.4)
    assert both._fields[-2:] == ("times_sampled", "importance_weight")
    rem.max_times_sampled = 0
    with pytest.raises(AttributeError, match=r"set max_times_sampled"):
        _ = rem.sample(2, nstep_return=nstep).times_sampled


def test_limit_out_of_range_is_refused_by_name():
    with pytest.raises(ValueError, match=r"^max_times_sampled: expected an integer below"):
        memory(max_times_sampled=1 << 32)
    with pytest.raises(ValueError, match=r"^max_times_sampled: expected an integer >= 0"):
        memory(max_times_sampled=-1)


# -- waiting --


def test_wait_ends_when_enough_entries_are_closed():
    rem = memory(64, sampler="fifo", max_times_sampled=1)

    def write() -> None:
        for k in range(5):
            time.sleep(0.02)
            add_uniform(rem, 3, 2 * k)

    thread = threading.Thread(target=write)
    thread.start()
    sample = rem.sample(10, wait=30)
    thread.join()
    assert len(sample.id) == 10
    assert sample.times_sampled.tolist() == [1] * 10


@pytest.mark.parametrize("call", ["sample", "get_batch"])
def test_wait_without_enough_entries_ends_in_a_timeout_error_with_the_reason(call):
    rem, _ = weighted([1, 2], sampler="fifo")
    begun = time.monotonic()
    with pytest.raises(TimeoutError, match=r"waited 0\.2 s: .*need 3, have 2"):
        getattr(rem, call)(3, wait=0.2)
    assert time.monotonic() - begun >= 0.2
    with pytest.raises(TimeoutError, match=r"waited 0 s"):
        getattr(rem, call)(3, wait=0)
    with pytest.raises(TimeoutError, match=r"no episode has been closed"):
        getattr(memory(), call)(1, wait=0.01)
    with pytest.raises(ValueError, match=r"^wait: expected seconds >= 0"):
        getattr(rem, call)(1, wait=-1)
    assert len(getattr(rem, call)(2, wait=5).weight) == 2


PROGRAM = """
import numpy as np, cogrs
zero = np.float32(0)
memory = cogrs.ReplayMemory(zero, zero, zero, zero, zero, zero, zero, 8)
print("ready", flush=True)
try:
    memory.sample(1, wait=600)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_ctrl_c_ends_a_wait():
    with program(PROGRAM) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30)[0] == "interrupted\n"


def test_counted_classes_are_public():
    for name in ("CountedSample", "NStepCountedSample", "CountedWeightedSample"):
        assert hasattr(cogrs.replay, name)
