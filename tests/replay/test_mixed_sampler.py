"""Batches of several memories, views and servers in fixed shares."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cogrs
from cogrs import MixedSampler, RateLimiter, ReplaySampler
from cogrs.replay.batch import NStepSample, NStepWeightedSample, Sample, WeightedSample
from tests.replay.build import TEMPLATES, UNIFORM, add_uniform, memory, steps
from tests.replay.model import FIELDS
from tests.replay.network import SLACK, Call, arrived, connected, eventually, started

if TYPE_CHECKING:
    from collections.abc import Iterator


def filled(first: int = 0, count: int = 20, **changes: Any) -> cogrs.ReplayMemory:
    """A memory with an episode that counts from `first` and was truncated."""
    rem = memory(64, **changes)
    rem.add_episode(**steps(count, first), **UNIFORM, final_state=first + count, truncated=True)
    return rem


def states(batch: Any) -> list[int]:
    return batch.prev.s[:, 0].tolist()


class Server:
    """A server with a cache of 20 steps that count from `first`, and its client."""

    def __init__(self, stack: ExitStack, first: int, **changes: Any) -> None:
        options = {"nstep": True, "reuse_cache": True, "seed": 0, **changes}
        self.server = stack.enter_context(started(1, **options))
        self.client = stack.enter_context(connected(self.server))
        end = {"final_state": first + 20, "terminated": True}
        self.first = self.client.rem.add_episode(**steps(20, first), **UNIFORM, **end)
        self.client.push_cache()
        arrived(self.server, 1)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as each:
        yield each


@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=12),
    parts=st.lists(st.integers(0, 5), min_size=1, max_size=4).filter(any),
    change=st.integers(0, 12),
)
@settings(max_examples=40)
def test_rows_come_from_the_sources_in_their_shares(
    sizes: list[int], parts: list[int], change: int
) -> None:
    sources = {f"s{at}": (filled(100 * at), part / sum(parts)) for at, part in enumerate(parts)}
    mixed, total, counts = MixedSampler(sources), 0, np.zeros(len(parts))
    for number, size in enumerate(sizes):
        if number == change:
            parts = parts[::-1]
            mixed.set_fractions({f"s{at}": part / sum(parts) for at, part in enumerate(parts)})
            total, counts = 0, np.zeros(len(parts))
        batch = mixed.sample(size)
        total += size
        of = np.asarray(states(batch)) // 100
        assert mixed.source_of(batch.id).tolist() == of.tolist() == sorted(of.tolist())
        counts += np.bincount(of, minlength=len(parts))
        assert (abs(counts - total * np.array(parts) / sum(parts)) < 1 + 1e-9).all()


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({}, Sample),
        ({"nstep_return": True}, NStepSample),
        ({"beta": 0.5}, WeightedSample),
        ({"nstep_return": True, "beta": 0.5}, NStepWeightedSample),
    ],
)
def test_batch_has_the_layout_of_a_memory(options: dict[str, Any], kind: type) -> None:
    one, other = (filled(first, frame_stack=2) for first in (0, 100))
    batch = MixedSampler({"one": (one, 0.25), "other": (other, 0.75)}).sample(16, **options)
    like = one.sample(16, **options)
    assert type(batch) is type(like) is kind
    for mine, its in zip(batch, like, strict=True):
        if isinstance(its, tuple):
            assert [(a.dtype, a.shape) for a in mine] == [(a.dtype, a.shape) for a in its]
        else:
            assert (mine.dtype, mine.shape) == (its.dtype, its.shape)


def test_dicts_of_spaces_stay_dicts() -> None:
    spaces = pytest.importorskip("gymnasium.spaces")
    space = spaces.Dict({"x": spaces.Box(-1, 1, (2,)), "y": spaces.Tuple([spaces.Discrete(3)])})
    memories = [
        cogrs.ReplayMemory.from_spaces(space, spaces.Discrete(2), 50, seed=at) for at in (0, 1)
    ]
    for at, rem in enumerate(memories):
        state = {"x": np.full((5, 2), at, np.float32), "y": (np.full(5, at),)}
        rem.add_episode(
            state, np.zeros(5, int), np.ones(5), np.ones(5), np.zeros(5), np.zeros((5, 0)), 1.0
        )
    batch = MixedSampler({"a": (memories[0], 0.5), "b": (memories[1], 0.5)}).sample(6)
    assert batch.prev.s["x"][:, 0, 0].tolist() == [0, 0, 0, 1, 1, 1]
    assert batch.prev.s["y"][0].ravel().tolist() == [0, 0, 0, 1, 1, 1]


def test_probability_and_weights_are_equal_a_naive_model() -> None:
    one, other = filled(0, 10, priority_exponent=1.0), filled(100, 30, priority_exponent=1.0)
    for rem in (one, other):
        ids = rem.episode(0).id
        rem.update_priority(ids[:-1], np.linspace(1, 4, len(ids) - 1))
    batch = MixedSampler({"one": (one, 0.5), "other": (other, 0.5)}).sample(200, beta=0.7)
    raw = []
    for row, state in enumerate(states(batch)):
        rem = one if state < 100 else other
        error = np.linspace(1, 4, rem.num_sampleable)[state % 100]
        assert batch.weight[row] == pytest.approx(error)
        assert batch.probability[row] == pytest.approx(error / rem.weight_sum)
        raw.append((rem.num_sampleable * error / rem.weight_sum) ** -0.7)
    np.testing.assert_allclose(batch.importance_weight, np.array(raw) / max(raw), rtol=1e-5)


def test_source_that_does_not_draw_by_weight_has_weights_of_one() -> None:
    one = filled(0, sampler="uniform", priority_exponent=1.0)
    one.update_priority(one.episode(0).id[:-1], np.arange(1, 21))
    mixed = MixedSampler({"one": (one, 0.5), "other": (filled(100), 0.5)})
    assert mixed.sample(20, beta=1.0).importance_weight.tolist() == [1.0] * 20


@given(st.data())
@settings(max_examples=30)
def test_priorities_reach_the_entries_of_their_sources(data: Any) -> None:
    rems = [filled(100 * at, priority_exponent=1.0) for at in range(3)]
    view = rems[2].view("mine", priority_exponent=1.0)
    mixed = MixedSampler({"a": (rems[0], 0.4), "b": (rems[1], 0.3), "c": (view, 0.3)})
    expected: dict[int, float] = {}
    for _ in range(3):
        batch = mixed.sample(data.draw(st.integers(1, 20)))
        order = np.array(data.draw(st.permutations(range(len(batch.id)))))
        errors = np.arange(1.0, len(batch.id) + 1)
        assert mixed.update_priority(batch.id[order], errors[order]) == 0
        at = np.asarray(states(batch))[order]
        expected |= dict(zip(at.tolist(), errors[order].tolist(), strict=True))
    for at, source in enumerate((*rems[:2], view)):
        sample = source.sample(20, sampler="fifo")
        of = dict(zip(states(sample), sample.weight.tolist(), strict=True))
        for state, weight in of.items():
            assert weight == expected.get(state, 1.0), at
    assert set(rems[2].episode(0).weight[:-1].tolist()) == {1.0}


def test_dropped_entries_are_counted() -> None:
    one, other = filled(0), filled(100)
    mixed = MixedSampler({"one": (one, 0.25), "other": (other, 0.75)})
    batch = mixed.sample(8)
    other.clear()
    assert mixed.update_priority(batch.id, 3.0) == 6
    assert (mixed.source_of(batch.id) == 1).sum() == 6


def test_absolute_priorities_are_weights() -> None:
    one = filled(0)
    mixed = MixedSampler({"one": (one, 1.0)})
    mixed.update_priority(mixed.sample(50).id, 9.0, absolute=True)
    assert 9.0 in one.episode(0).weight.tolist()


def test_server_sampler_memory_and_view_share_a_batch(stack: ExitStack) -> None:
    near, far = Server(stack, 100, ids=True), Server(stack, 200, ids=True)
    remote = stack.enter_context(ReplaySampler([far.server.rep_endpoint], timeout=SLACK))
    local = filled(0)
    mixed = MixedSampler(
        {
            "memory": (local, 0.25),
            "server": (near.server, 0.25),
            "sampler": (remote, 0.25),
            "view": (filled(300).view("v"), 0.25),
        }
    )
    batch = mixed.sample(40, nstep_return=True, beta=0.4, wait=SLACK)
    of = np.repeat([0, 1, 2, 3], 10)
    assert (np.asarray(states(batch)) // 100).tolist() == of.tolist()
    assert mixed.source_of(batch.id).tolist() == of.tolist()
    assert batch.nstep_return.tolist() == states(batch)
    # All weights are 1: every row of 20 steps is drawn with the same probability.
    np.testing.assert_allclose(batch.probability, 1 / 20)
    assert batch.importance_weight.tolist() == [1.0] * 40
    last = np.asarray(states(batch)) % 100 == 19
    assert batch.next_terminated.tolist() == (last & ((of == 1) | (of == 2))).tolist()
    mixed.update_priority(batch.id, np.asarray(states(batch), float) + 1)
    for each in (near, far):
        eventually(lambda client=each.client: client.apply_priorities().entries > 0)
        weights = each.client.rem.episode(0).weight[:-1]
        states_of = each.client.rem.episode(0).entries.s[:-1]
        changed = weights != 1
        assert changed.any()
        assert set(states_of[changed].tolist()) <= set(states(batch))
        np.testing.assert_allclose(weights[changed], np.sqrt(states_of[changed] + 1.0))


def test_server_without_ids_gives_rows_but_takes_no_errors(stack: ExitStack) -> None:
    each, local = Server(stack, 100), filled(0)
    mixed = MixedSampler({"memory": (local, 0.5), "server": (each.server, 0.5)})
    batch = mixed.sample(8)
    assert mixed.source_of(batch.id).tolist() == [0] * 4 + [1] * 4
    with pytest.raises(ValueError, match=r"id: expected rows of 'server' to have ids: make the"):
        mixed.update_priority(batch.id, 5.0)
    assert set(local.episode(0).weight[:-1].tolist()) == {1.0}
    assert mixed.update_priority(batch.id[:4], 5.0) == 0


def test_server_without_nstep_is_refused(stack: ExitStack) -> None:
    each = Server(stack, 100, nstep=False)
    with pytest.raises(ValueError, match=r"sources\['s'\]: expected a server made with nstep=True"):
        MixedSampler({"s": (each.server, 1.0)})
    remote = stack.enter_context(ReplaySampler([each.server.rep_endpoint], timeout=SLACK))
    mixed = MixedSampler({"s": (remote, 1.0)})
    with pytest.raises(ValueError, match=r"sources\['s'\]: expected a server made with nstep=True"):
        mixed.sample(4, wait=SLACK)


def test_rows_of_a_server_are_kept_when_another_source_is_short(stack: ExitStack) -> None:
    each = Server(stack, 100, reuse_cache=False, cache_size=20, sampler="fifo")
    empty = memory(64)
    mixed = MixedSampler({"server": (each.server, 0.5), "memory": (empty, 0.5)})
    for _ in range(3):
        with pytest.raises(RuntimeError, match=r"memory: nothing to sample"):
            mixed.sample(16)
    with pytest.raises(TimeoutError, match=r"memory: "):
        mixed.sample(16, wait=0.01)
    add_uniform(empty, 20)
    seen = [state for _ in range(2) for state in states(mixed.sample(20)) if state >= 100]
    assert sorted(seen) == list(range(100, 120))


def test_limiter_of_a_source_counts_each_row_once() -> None:
    limiter = RateLimiter(1.0, 1, (-100, 100))
    limited = cogrs.ReplayMemory(*(TEMPLATES[name] for name in FIELDS), 64, limiter=limiter)
    add_uniform(limited, 20)
    empty = memory(64)
    mixed = MixedSampler({"limited": (limited, 0.5), "empty": (empty, 0.5)})
    for _ in range(4):
        with pytest.raises(RuntimeError, match=r"empty: "):
            mixed.sample(10)
    assert limited.stats().limiter.samples == 5
    add_uniform(empty, 20)
    mixed.sample(10)
    mixed.sample(10)
    assert limited.stats().limiter.samples == 10


def test_wait_ends_when_another_thread_stores_an_episode() -> None:
    late = memory(64)
    mixed = MixedSampler({"now": (filled(0), 0.5), "late": (late, 0.5)})
    call = Call(lambda: mixed.sample(8, wait=10 * SLACK))
    mixed.set_fractions({"now": 0.75, "late": 0.25})  # does not wait for the draw
    add_uniform(late, 20, 100)
    assert sum(state >= 100 for state in states(call.result(SLACK))) in (2, 4)


def test_draws_of_many_threads_keep_the_shares() -> None:
    mixed = MixedSampler({"a": (filled(0), 0.3), "b": (filled(100), 0.7)})
    counts, lock = np.zeros(2, int), threading.Lock()

    def draw() -> None:
        for _ in range(50):
            of = np.bincount(mixed.source_of(mixed.sample(7).id), minlength=2)
            with lock:
                counts[:] += of

    for call in [Call(draw) for _ in range(4)]:
        call.result(SLACK)
    assert counts.tolist() == [420, 980]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"s": np.zeros(3, np.float32)}, r"got state int64 \(\) in 'one' and float32 \(3,\) in"),
        ({"a": np.int32(0)}, r"got action int64 \(\) in 'one' and int32 \(\) in 'other'"),
        ({"frame_stack": 2}, r"got frame_stack 1 in 'one' and 2 in 'other'"),
        ({"cache_flags": [True] * 13 + [False]}, r"got cache_flags \[True, .* in 'other'"),
    ],
)
def test_sources_of_other_fields_are_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=rf"sources: expected equal fields, {text}"):
        MixedSampler({"one": (memory(), 0.5), "other": (memory(**changes), 0.5)})


def test_view_of_other_fields_is_refused_by_the_draw() -> None:
    other = filled(0, frame_stack=2)
    mixed = MixedSampler({"one": (filled(0), 0.5), "view": (other.view("v"), 0.5)})
    text = r"got prev.s int64 \(1,\) in 'one' and int64 \(2,\) in 'view'"
    with pytest.raises(ValueError, match=text):
        mixed.sample(4)


@pytest.mark.parametrize(
    ("sources", "kind", "text"),
    [
        ([], TypeError, "sources: expected a mapping from names to sources with fractions, got"),
        ({}, ValueError, "sources: expected 1 to 128 sources, got 0"),
        ({1: 2}, TypeError, "sources: expected a string, got int"),
        ({"a": 2}, TypeError, r"sources\['a'\]: expected \(source, fraction\), got int"),
        ({"a": (2, 1.0)}, TypeError, r"sources\['a'\]: expected a memory, a view, a server or a"),
        ({"a": (memory(), 0.5)}, ValueError, "fractions: expected fractions that add up to 1"),
    ],
    ids=range(6),
)
def test_wrong_sources_are_refused(sources: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        MixedSampler(sources)


@pytest.mark.parametrize(
    ("ids", "priority", "kind", "text"),
    [
        ([1 << 57], 1.0, ValueError, "id: expected ids of this sampler's batches, got"),
        ([5 << 32], 1.0, ValueError, "id: expected ids of this sampler's batches, got"),
        ([0.5], 1.0, TypeError, "id: expected integers"),
        ([[0]], 1.0, ValueError, r"id: expected shape \(B,\), got \(1, 1\)"),
        ([0], [1.0, 2.0], ValueError, r"priority: expected one number, or one for each of 1 ids"),
        ([0], -1.0, ValueError, "priority: expected finite numbers >= 0"),
        ([0], np.nan, ValueError, "priority: expected finite numbers >= 0"),
    ],
)
def test_wrong_priorities_change_nothing(
    ids: Any, priority: Any, kind: type[Exception], text: str
) -> None:
    rem = filled(0)
    mixed = MixedSampler({"a": (rem, 1.0)})
    mixed.sample(4)
    with pytest.raises(kind, match=text):
        mixed.update_priority(ids, priority)
    assert set(rem.episode(0).weight[:-1].tolist()) == {1.0}


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({"batch_size": 0}, ValueError, "batch_size: expected an integer >= 1, got 0"),
        ({"batch_size": 4, "beta": -1.0}, ValueError, "beta: expected a finite number >= 0"),
        ({"batch_size": 4, "beta": "x"}, TypeError, "beta: expected a finite number, got str"),
        ({"batch_size": 4, "nstep_return": 3}, TypeError, "nstep_return: expected True or False"),
        ({"batch_size": 4, "wait": -1}, ValueError, "wait: expected seconds >= 0 or None, got -1"),
    ],
)
def test_wrong_arguments_of_sample_are_refused(
    arguments: dict[str, Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        MixedSampler({"a": (filled(0), 1.0)}).sample(**arguments)


def test_fractions_are_shown_and_wrong_ones_change_nothing() -> None:
    mixed = MixedSampler({"a": (filled(0), 0.5), "b": (filled(100), 0.5)})
    with pytest.raises(ValueError, match="fractions: expected fractions that add up to 1, got 2"):
        mixed.set_fractions({"a": 1, "b": 1})
    assert mixed.names == ("a", "b")
    assert mixed.fractions == {"a": 0.5, "b": 0.5}
    assert repr(mixed) == "MixedSampler({'a': 0.5, 'b': 0.5})"
    mixed.set_fractions({"b": 1, "a": 0})
    assert mixed.fractions == {"a": 0.0, "b": 1.0}
    assert min(states(mixed.sample(9))) >= 100
