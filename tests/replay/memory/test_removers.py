"""Removers: which closed episode goes when slots, or episodes, are more than allowed."""

import numpy as np
import pytest

from tests.replay.build import UNIFORM, add_uniform, contents, memory, step

WEIGHTS = {"a": 3.0, "b": 1.0, "c": 5.0, "d": 1.0}


def filled(remover: str, **changes: object):
    """Four episodes of two entries, 10 apart, with these weights, in a memory of eight."""
    rem = memory(8, remover=remover, **changes)
    for k, weight in enumerate(WEIGHTS.values()):
        add_uniform(rem, 2, 10 * k, init_w=weight)
    return rem


@pytest.mark.parametrize(
    ("remover", "left"), [("fifo", [10, 20, 30]), ("lifo", [0, 10, 20]), ("lowest", [0, 20, 30]),
                          ("highest", [0, 10, 30])],
)  # fmt: skip
@pytest.mark.parametrize("limit", ["slots", "max_episode"])
def test_episode_that_the_remover_names_goes_and_the_new_one_stays(remover, left, limit):
    rem = filled(remover) if limit == "slots" else filled(remover, max_episode=4)
    add_uniform(rem, 2, 40, init_w=0.5)
    assert [states[0] for states in contents(rem)] == [*left, 40]
    assert rem.num_entry == 8


def test_removers_by_weight_follow_priorities_and_late_rewards():
    rem = filled("lowest", priority_exponent=1.0)
    rem.update_priority(rem.episode(1).id, 9.0)
    rem.update_priority(rem.episode(2).id, 0.1)
    add_uniform(rem, 2, 40)
    assert [states[0] for states in contents(rem)] == [0, 10, 30, 40]
    rem.remover = "highest"
    add_uniform(rem, 2, 50)
    assert [states[0] for states in contents(rem)] == [0, 30, 40, 50]
    by_return = memory(4, remover="lowest", priority_exponent=1.0)
    for k in (0, 10):
        first = by_return.add_episode(
            s=np.array([k, k]), a=np.zeros(2, np.int64), r=np.float32([1 + k, 1]),
            p=np.zeros(2, np.float32), v=np.zeros(2, np.float32), i=np.zeros(2, np.int64),
            init_w=1.0,
        )  # fmt: skip
    by_return.add_reward(first, -10.0)
    by_return.add_reward(int(by_return.episode(0).id[0]), 7.0)
    add_uniform(by_return, 1, 20)
    assert [states[0] for states in contents(by_return)] == [0, 20]


@pytest.mark.parametrize("remover", ["fifo", "lifo", "lowest", "highest"])
def test_open_episode_is_never_evicted(remover):
    rem = memory(8, remover=remover)
    rem.new_episode()
    for k in range(3):
        rem.add_entry(**step(100 + k))
    for k in range(6):
        add_uniform(rem, 2, 10 * k)
    with pytest.raises(RuntimeError, match=r"no room for 6"):
        add_uniform(rem, 6)
    rem.close_episode(1.0, **UNIFORM)
    assert contents(rem)[-1] == [100, 101, 102]


def test_used_slots_of_evictions_in_the_middle_are_all_used_again():
    rem = memory(64, remover="lowest", sampler="stratified", seed=0)
    rng = np.random.default_rng(0)
    for k in range(300):
        add_uniform(rem, int(rng.integers(1, 9)), 10 * k, init_w=float(rng.integers(1, 5)))
        if rem.num_drawable:
            ids = rem.sample(rem.num_drawable, sampler="fifo").id
            kept = [rem.episode(at).id[:-1] for at in range(rem.num_episode())]
            assert ids.tolist() == np.concatenate(kept).tolist()
            order = {int(each): at for at, each in enumerate(ids)}
            drawn = [order[int(each)] for each in rem.sample(8).id]
            assert drawn == sorted(drawn)
    assert rem.num_entry > 55
