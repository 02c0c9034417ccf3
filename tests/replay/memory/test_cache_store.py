"""The newest caches and the batches made of them, without a network."""

import gc
import json
import weakref
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cogrs._core import CacheStore, cache_layout, draw_cache
from tests.replay import build
from tests.replay.build import memory
from tests.replay.golden import chi2_limit, pooled_chi2
from tests.replay.stores import ONLY_INFO, columns, empty, push

DATA = Path(__file__).parents[2] / "data" / "replay"
TWO_PHASE = json.loads((DATA / "index.json").read_text())["two_phase"]


def taken(of: CacheStore, count: int) -> list[int]:
    return of.get_batch(count).prev.i.tolist()


# -- what is kept --


@pytest.mark.parametrize("n_caches", [1, 2, 3])
def test_newest_caches_of_a_store_are_kept(n_caches: int) -> None:
    _, store = empty(n_caches)
    for info in range(7):
        push(store, info)
    assert len(store) == n_caches
    assert sorted(taken(store, n_caches)) == list(range(7 - n_caches, 7))


def test_unused_samples_of_the_oldest_cache_are_lost_with_the_cache() -> None:
    _, store = empty(1)
    push(store, 1, 2, 3)
    assert taken(store, 1) == [1]
    push(store, 4)
    assert store.num_unused == 1
    assert taken(store, 1) == [4]


def test_used_up_caches_stay_until_replaced() -> None:
    _, store = empty(2)
    push(store, 1)
    push(store, 2)
    taken(store, 2)
    assert (len(store), store.num_unused, store.weight_sum) == (2, 0, 2.0)
    push(store, 3)
    assert taken(store, 1) == [3]


def test_caches_may_differ_in_size() -> None:
    _, store = empty(2)
    push(store, 1)
    push(store, 2, 3, 4)
    assert sorted(taken(store, 4)) == [1, 2, 3, 4]


def test_weight_sum_is_that_of_the_caches_held() -> None:
    _, store = empty(2)
    for weight_sum in (1.0, 2.5, 4.0):
        push(store, 0, weight_sum=weight_sum)
    assert store.weight_sum == 6.5


def test_frame_of_a_replaced_cache_is_let_go() -> None:
    _, store = empty(1)
    frames = columns([1])
    gone = weakref.ref(frames[1])
    store.push(1, 1.0, frames)
    del frames
    gc.collect()
    assert gone() is not None
    push(store, 2)
    assert gone() is None


def test_frame_lives_as_long_as_its_cache() -> None:
    _, store = empty(1)
    store.push(50_000, 1.0, columns(np.arange(50_000)))
    gc.collect()
    clobber = [np.full(50_000, -1, np.int64) for _ in range(4)]
    assert taken(store, 50_000) == list(range(50_000))
    del clobber


def test_batch_outlives_the_store() -> None:
    rem, store = empty(1)
    store.push(50_000, 1.0, columns(np.arange(50_000)))
    batch = store.get_batch(50_000)
    del store, rem
    gc.collect()
    clobber = [np.full(50_000, -1, np.int64) for _ in range(4)]
    assert (batch.prev.i == np.arange(50_000)).all()
    del clobber


def test_batches_share_no_memory() -> None:
    _, store = empty(1, reuse_cache=True)
    push(store, 1, 2)
    first, second = store.get_batch(2), store.get_batch(2)
    first.prev.i[:] = 9
    first.weight[:] = 9
    assert (second.prev.i.tolist(), second.weight.tolist()) == ([1, 2], [1, 1])
    assert taken(store, 2) == [1, 2]


# -- what is given --


def test_samples_come_in_order_of_arrival() -> None:
    _, store = empty(3)
    for first in (0, 100, 200):
        push(store, *range(first, first + 10))
    got = taken(store, 12) + taken(store, 18)
    for first in (0, 100, 200):
        assert [info for info in got if first <= info < first + 10] == list(
            range(first, first + 10)
        )


def test_first_comes_again_after_the_last_when_caches_are_reused() -> None:
    _, store = empty(1, reuse_cache=True)
    push(store, 1, 2, 3)
    assert taken(store, 7) == [1, 2, 3, 1, 2, 3, 1]
    assert taken(store, 3) == [2, 3, 1]


def test_reuse_can_be_switched_off_again() -> None:
    rem, store = empty(1, reuse_cache=True)
    push(store, 1, 2, 3)
    assert taken(store, 4) == [1, 2, 3, 1]
    rem.reuse_cache = False
    assert store.num_unused == 2
    assert taken(store, 2) == [2, 3]
    with pytest.raises(RuntimeError):
        store.get_batch(1)
    rem.reuse_cache = True
    assert taken(store, 1) == [1]


@pytest.mark.parametrize("reuse", [False, True])
def test_fewer_than_n_caches_are_not_enough(reuse: bool) -> None:
    _, store = empty(3, reuse_cache=reuse)
    push(store, *range(10))
    push(store, *range(10))
    with pytest.raises(RuntimeError, match=r"insufficient caches: have 2, need n_caches=3"):
        store.get_batch(1)
    assert "have 2" in store.shortage(1)
    push(store, 1)
    assert store.shortage(1) is None
    assert len(taken(store, 1)) == 1


def test_too_few_samples_are_refused_with_counts_and_none_is_taken() -> None:
    _, store = empty(2)
    push(store, 1, 2)
    push(store, 11, 12)
    with pytest.raises(RuntimeError, match=r"have 4 unused samples, need batch_size=5"):
        store.get_batch(5)
    assert store.num_unused == 4
    assert sorted(taken(store, 4)) == [1, 2, 11, 12]
    with pytest.raises(RuntimeError, match="have 0 unused"):
        store.get_batch(1)


def test_refused_call_does_not_change_the_next_sample() -> None:
    _, store = empty(2, seed=5)
    _, calm = empty(2, seed=5)
    for each in (store, calm):
        push(each, *range(20))
        push(each, *range(100, 120))
    with pytest.raises(RuntimeError):
        store.get_batch(41)
    assert taken(store, 30) == taken(calm, 30)


@pytest.mark.parametrize("size", [0, -1])
def test_batch_size_out_of_range(size: int) -> None:
    _, store = empty(1)
    push(store, 1)
    with pytest.raises(ValueError, match="batch_size"):
        store.get_batch(size)
    assert store.num_unused == 1


@pytest.mark.parametrize("size", [None, "1", 1.5, [1]])
def test_batch_size_that_is_not_an_integer_is_refused(size: Any) -> None:
    _, store = empty(1)
    push(store, 1)
    with pytest.raises(TypeError, match="batch_size"):
        store.get_batch(size)


@pytest.mark.parametrize("size", [2**40, 2**62])
def test_batch_beyond_the_machine_is_a_memory_error_and_takes_nothing(size: int) -> None:
    _, store = empty(1, reuse_cache=True)
    push(store, 1, 2)
    with pytest.raises(MemoryError):
        store.get_batch(size)
    assert taken(store, 1) == [1]


def test_batch_weights_equal_the_weights_of_the_cache() -> None:
    _, store = empty(1)
    weights = np.array([0.5, 1e-30, 3e38], np.float32)
    store.push(3, 1.0, [weights.view(np.uint8), columns([1, 2, 3])[1]])
    batch = store.get_batch(3)
    assert batch.weight.dtype == np.float32
    assert batch.weight.tobytes() == weights.tobytes()


def test_fields_that_are_not_carried_have_no_rows() -> None:
    _, store = empty(1)
    push(store, 1, 2)
    batch = store.get_batch(2)
    carried = [len(field) for field in (*batch.prev, *batch.next)]
    assert carried == [2 * flag for flag in ONLY_INFO]


@pytest.mark.parametrize("case", TWO_PHASE, ids=lambda case: str(case["sum_weights"]))
def test_caches_are_drawn_in_proportion_to_their_weight_sums(case: dict[str, Any]) -> None:
    _, store = empty(case["n_caches"], reuse_cache=bool(case["reuse_cache"]), seed=1)
    rows, draws = case["cache_size"], 60_000
    for at, weight_sum in enumerate(case["sum_weights"]):
        push(store, *range(at * rows, (at + 1) * rows), weight_sum=weight_sum)
    got = np.concatenate([store.get_batch(draws // 10).prev.i for _ in range(10)])
    counts = np.bincount(got // rows, minlength=case["n_caches"])
    chi2, df = pooled_chi2(counts, np.array(case["share"]) * draws)
    assert chi2 <= chi2_limit(df)
    for at, count in enumerate(counts):
        assert (got[got // rows == at] == at * rows + np.arange(count) % rows).all()


def test_used_up_caches_are_not_drawn() -> None:
    _, store = empty(2)
    push(store, 1, weight_sum=1e30)
    push(store, *range(100, 150), weight_sum=1e-30)
    assert sorted(taken(store, 51)) == [1, *range(100, 150)]


def test_seed_reproduces_draws() -> None:
    def draws(seed: int | None) -> list[int]:
        _, store = empty(2, seed=seed)
        push(store, *range(100))
        push(store, *range(100, 200))
        return taken(store, 90)

    assert draws(3) == draws(3)
    assert draws(3) != draws(4)
    assert draws(None) != draws(None)


@pytest.mark.parametrize("pack", [0, 1 << 18])
def test_caches_of_a_memory_come_out_unchanged(pack: int) -> None:
    source = memory(64, frame_stack=2, multi_step=3, cache_size=30, seed=0)
    build.add_uniform(source, 30)
    store = CacheStore(memory(0, frame_stack=2, multi_step=3), 1, seed=0)
    rows, weight_sum, _, _, frames = draw_cache(source, pack=pack)
    assert len(frames) == (1 if pack else 15)
    store.push(rows, weight_sum, frames)
    batch = store.get_batch(30)
    assert weight_sum == source.weight_sum
    assert batch.prev.s.shape == batch.next.s.shape == (30, 2)
    assert (batch.prev.s[:, 1] - batch.prev.s[:, 0] == 1).all()
    for name in "arpvi":
        assert (getattr(batch.prev, name) == batch.prev.s[:, 1]).all()
        assert (getattr(batch.next, name) == batch.prev.s[:, 1] + 3).all()


# -- settings that change --


@pytest.mark.parametrize(
    "change", [{"cache_flags": [at in (6, 13) for at in range(14)]}, {"cache_flags": [True]}]
)
def test_changed_cache_flags_drop_held_caches(change: dict[str, Any]) -> None:
    rem, store = empty(1)
    push(store, 1)
    for name, value in change.items():
        setattr(rem, name, value)
    assert (len(store), store.num_unused, store.weight_sum) == (0, 0, 0.0)
    with pytest.raises(RuntimeError, match="have 0"):
        store.get_batch(1)


def test_changed_frame_stack_drops_held_caches() -> None:
    source = memory(16)
    build.add_uniform(source, 5)
    rem = memory(0)
    store = CacheStore(rem, 1)
    store.push(*draw_cache(source)[:2], draw_cache(source)[4])
    rem.frame_stack = 2
    assert len(store) == 0


@pytest.mark.parametrize(
    "change", [{"multi_step": 2}, {"cache_size": 1}, {"priority_exponent": 0.0}, {"max_episode": 1}]
)
def test_other_settings_drop_nothing(change: dict[str, Any]) -> None:
    rem, store = empty(1)
    push(store, 1, 2)
    for name, value in change.items():
        setattr(rem, name, value)
    assert taken(store, 2) == [1, 2]


def test_unchanged_cache_flags_drop_no_cache() -> None:
    rem, store = empty(1)
    push(store, 1)
    rem.cache_flags = ONLY_INFO
    assert taken(store, 1) == [1]


def test_caches_without_any_field_have_weights() -> None:
    store = CacheStore(memory(0, cache_flags=[False] * 14), 1)
    store.push(2, 1.0, columns([1, 2])[:1])
    assert store.get_batch(2).weight.tolist() == [1, 1]


# -- what is counted --


def test_figures_of_a_store() -> None:
    _, store = empty(2)
    assert store.stats() == (0, 0, 0.0, 0, 0, None, None, (0, 0, 0), (0, 0, 0), {})
    for sender, infos in ((7, [1, 2]), (2**32 - 1, [3]), (7, [4, 5, 6])):
        store.push(len(infos), 1.5, columns(infos), sender=sender)
    taken(store, 3)
    *counts, oldest, newest, received, others, clients = store.stats()
    assert counts == [2, 1, 3.0, 3, 2]
    assert oldest >= newest >= 0
    assert (received, others) == ((3, 6, 6 * 12), (0, 0, 0))
    assert list(clients.items()) == [(2**32 - 1, (1, 1, 12)), (7, (2, 5, 5 * 12))]


@pytest.mark.parametrize("sender", [-1, 2**32])
def test_sender_out_of_range(sender: int) -> None:
    _, store = empty()
    with pytest.raises(OverflowError):
        store.push(1, 1.0, columns([1]), sender=sender)
    assert store.stats()[7] == (0, 0, 0)


def test_cache_of_another_layout_is_not_kept() -> None:
    rem, store = empty(1)
    flags, frame_stack, _ = cache_layout(rem)
    for other in ((flags + 1, frame_stack), (flags, frame_stack + 1)):
        assert store.push(1, 1.0, columns([1]), layout=other) is False
    assert store.stats()[7] == (0, 0, 0)
    assert store.push(1, 1.0, columns([1]), layout=(flags, frame_stack)) is True
    rem.cache_flags = [True]
    assert store.push(1, 1.0, columns([1]), layout=(flags, frame_stack)) is False
    assert len(store) == 0


# -- against a model --


class Held:
    def __init__(self, first: int, rows: int) -> None:
        self.first, self.rows, self.next = first, rows, 0

    @property
    def left(self) -> int:
        return self.rows - self.next


class StoreAndModel(RuleBasedStateMachine):
    """A store beside a deque of caches: each row says which cache it is of, and its place there."""

    @initialize(n_caches=st.integers(1, 4), seed=st.integers(0, 2**64 - 1))
    def start(self, n_caches: int, seed: int) -> None:
        self.rem, self.store = empty(n_caches, seed=seed)
        self.n_caches = n_caches
        self.held: deque[Held] = deque(maxlen=n_caches)
        self.pushed = 0

    @rule(rows=st.integers(1, 6), weight_sum=st.floats(1e-30, 1e30))
    def push(self, rows: int, weight_sum: float) -> None:
        first = 1000 * self.pushed
        push(self.store, *range(first, first + rows), weight_sum=weight_sum)
        self.held.append(Held(first, rows))
        self.pushed += 1

    @rule(reuse=st.booleans())
    def set_reuse(self, reuse: bool) -> None:
        self.rem.reuse_cache = reuse

    @rule()
    def change_what_info_does_not_depend_on(self) -> None:
        self.rem.frame_stack = 2 if self.rem.frame_stack == 1 else 1

    @precondition(lambda self: self.held)
    @rule()
    def push_garbage(self) -> None:
        with pytest.raises(ValueError, match="columns"):
            self.store.push(3, 1.0, columns([1]))

    @rule(count=st.integers(1, 15))
    def take(self, count: int) -> None:
        unused = sum(held.left for held in self.held)
        if len(self.held) < self.n_caches or (not self.rem.reuse_cache and unused < count):
            assert self.store.shortage(count) is not None
            with pytest.raises(RuntimeError, match="insufficient caches"):
                self.store.get_batch(count)
            return
        assert self.store.shortage(count) is None
        for info in taken(self.store, count):
            self.check_next(info)

    def check_next(self, info: int) -> None:
        (held,) = [held for held in self.held if held.first == info // 1000 * 1000]
        if self.rem.reuse_cache and not held.left:
            held.next = 0
        assert info == held.first + held.next
        assert held.left > 0
        held.next += 1

    @invariant()
    def counts_agree(self) -> None:
        if hasattr(self, "held"):
            assert len(self.store) == len(self.held)
            assert self.store.num_unused == sum(held.left for held in self.held)


TestStoreAndModel = StoreAndModel.TestCase
