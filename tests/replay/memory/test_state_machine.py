"""Random sequences of every call, each compared with the plain model."""

import math
import tempfile
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from cogrs import ReplayMemory
from tests.replay.draw_model import (
    ORDERED,
    WEIGHTED,
    can_draw,
    check_order,
    count,
    drawables,
)
from tests.replay.model import NaiveEntry, NaiveEpisode, NaiveMemory, NaiveWriter

# Quarters are exact in float32, so that a difference in a reward is one of logic.
QUARTERS = st.integers(-16, 16).map(lambda n: n / 4)
MULTIPLIERS = st.sampled_from([1.0, 3.0, 0.25] * 3 + [0.0])
# Numbers of steps are made from a seed: drawn one by one, they would leave room for few calls.
SEED = st.integers(0, 2**16)
# Mostly both, for weights that are made of returns are where most can go wrong.
UPDATES = st.sampled_from([(True, True)] * 6 + [(True, False), (False, False), (False, True)])
STATES = st.sampled_from([("i8", ()), ("u1", (2,)), ("f4", (2, 3))])
REWARDS = st.sampled_from([((), ()), ((1,), (1,)), ((3,), (3,))] * 3 + [((2,), (0,))])
INDEX = st.integers(0, 1000)
SETTINGS = {
    "frame_stack": st.integers(1, 4),
    "multi_step": st.integers(1, 4),
    "max_episode": st.integers(0, 4),
    "priority_exponent": st.sampled_from([1.0, 0.0, 0.5, 2.0]),
    "mix_lambda": st.sampled_from([1.0, 0.0, 0.25, 0.5]),
    "cache_flags": st.lists(st.booleans(), min_size=14, max_size=14),
    "discount_factor": st.lists(st.sampled_from([1.0, 0.0, 0.5, 0.75]), max_size=3),
    "new_priority": st.sampled_from(["returns", "returns", "max", 0.75]),
    "priority_epsilon": st.sampled_from([0.0, 0.0, 0.5]),
    "frame_padding": st.sampled_from(["none", "repeat", "zero"]),
    "max_times_sampled": st.sampled_from([0, 0, 1, 3, 300]),
    "remover": st.sampled_from(["fifo", "lifo"]),
    "reward_coeff": st.lists(st.sampled_from([1.0, -0.5, 0.0, 2.0]), max_size=3),
}


class Pair(NamedTuple):
    """A writer of the memory, and the one of the model that does the same."""

    real: Any
    model: NaiveWriter


class ReplayMachine(RuleBasedStateMachine):
    @initialize(
        max_step=st.sampled_from([*range(1, 41), *range(12, 41)]),
        state=STATES,
        reward=REWARDS,
        settings=st.fixed_dictionaries({}, optional=SETTINGS),
    )
    def construct(self, max_step, state, reward, settings):
        reward_shape, value_shape = reward
        self.templates = {
            "s": np.zeros(state[1], state[0]),
            "a": np.zeros((), np.int32),
            "r": np.zeros(reward_shape, np.float32),
            "p": np.zeros((), np.float32),
            "v": np.zeros(value_shape, np.float32),
            "q": np.zeros(value_shape, np.float32),
            "i": np.zeros((1,), np.int64),
        }
        self.real = ReplayMemory(*self.templates.values(), max_step, seed=0)
        self.model = NaiveMemory(self.templates, max_step)
        self.memory = Pair(self.real, self.model)
        self.writers = [self.memory]
        self.written = 0
        self.buffers: dict[Any, Any] = {}
        self.ids: list[int] = []
        for name, value in settings.items():
            self.set(name, value)

    # -- what the rules share --

    def columns(self, length: int, seed: int) -> tuple[np.ndarray, ...]:
        """The arguments of `add_entries`; no two steps have the same state, action or info."""
        rng = np.random.default_rng(seed)
        k = np.arange(self.written, self.written + length)
        self.written += length
        r, v = rng.integers(-16, 17, (2, length)) / 4
        w = rng.choice([1.0, 1.0, 3.0, 0.25, 0.0], length)
        given = {"s": k, "a": k, "r": r, "p": k, "v": v, "i": k}
        return (*(self.spread(name, values) for name, values in given.items()), w)

    def spread(self, name: str, values: np.ndarray) -> np.ndarray:
        """One number a step made to fill the field, with another in each of its dimensions."""
        template = self.templates[name]
        column = np.asarray(values).reshape(-1, *[1] * template.ndim)
        offset = np.arange(template.size).reshape(template.shape)
        return (column + offset).astype(template.dtype)

    def one(self, name: str, value: float) -> np.ndarray:
        return self.spread(name, np.array([value]))[0]

    def both(self, pair: Pair, method: str, *args: Any, **kwargs: Any) -> tuple[bool, Any]:
        """Call both; whether they went through, and what the real one gave."""
        try:
            getattr(pair.model, method)(*args, **kwargs)
        except RuntimeError:
            with pytest.raises(RuntimeError):
                getattr(pair.real, method)(*args, **kwargs)
            return False, None
        return True, getattr(pair.real, method)(*args, **kwargs)

    def name_ids(self, entries: list[NaiveEntry], first: int) -> None:
        for id_, entry in enumerate(entries, first):
            assert id_ not in self.ids
            self.ids.append(id_)
            entry.id = id_

    def name_final(self) -> None:
        """No call returns the id of a final state's entry: it goes on from the last step's."""
        episode = self.model.episodes[-1]
        first = int(self.real.episode(-1).id[0])
        self.name_ids(episode.entries[-1:], first + len(episode) - 1)

    def writer_at(self, index: int) -> Pair:
        """Any writer, though mostly one whose episode is open: others refuse nearly all calls."""
        opened = [pair for pair in self.writers if pair.model.open is not None]
        pool = opened if opened and index % 8 else self.writers
        return pool[index // 8 % len(pool)]

    # -- writing --

    @rule()
    def make_writer(self):
        if len(self.writers) < 4:
            self.writers.append(Pair(self.real.writer(), self.model.writer()))

    @rule(index=INDEX)
    def drop_writer(self, index):
        if len(self.writers) > 1:
            pair = self.writers.pop(1 + index % (len(self.writers) - 1))
            self.model.drop_writer(pair.model)

    @rule(index=INDEX, length=st.integers(0, 8), seed=SEED)
    def begin_episode(self, index, length, seed):
        pair = self.writers[index % len(self.writers)]
        self.both(pair, "new_episode")
        if length:
            self.add_to(pair, length, seed)

    @rule(index=INDEX)
    def abort_episode(self, index):
        self.both(self.writer_at(index), "abort_episode")

    @rule(index=INDEX, seed=SEED)
    def add_entry(self, index, seed):
        pair = self.writer_at(index)
        row = [column[0] for column in self.columns(1, seed)]
        done, id_ = self.both(pair, "add_entry", *row)
        if done:
            self.name_ids(pair.model.open.entries[-1:], id_)

    @rule(index=INDEX, length=st.integers(1, 12), seed=SEED)
    def add_entries(self, index, length, seed):
        self.add_to(self.writer_at(index), length, seed)

    def add_to(self, pair: Pair, length: int, seed: int) -> None:
        done, first = self.both(pair, "add_entries", *self.columns(length, seed))
        if done:
            self.name_ids(pair.model.open.entries[-length:], first)

    def end(self, bootstrap: float | None, final: bool, info: bool) -> dict[str, Any]:
        """The keyword arguments of `close_episode`."""
        given = {}
        if bootstrap is not None and self.templates["v"].size:
            given["bootstrap_value"] = self.one("v", bootstrap)
        if final:
            given["final_state"] = self.one("s", self.written)
        if final and info:
            given["final_info"] = self.one("i", self.written)
        self.written += 1
        return given

    @rule(
        index=INDEX,
        multiplier=MULTIPLIERS,
        updates=UPDATES,
        bootstrap=st.none() | QUARTERS,
        final=st.booleans(),
        info=st.booleans(),
    )
    def close_episode(self, index, multiplier, updates, bootstrap, final, info):
        end = self.end(bootstrap, final, info)
        pair = self.writer_at(index)
        done, _ = self.both(pair, "close_episode", multiplier, *updates, **end)
        if done and final:
            self.name_final()

    @rule(
        length=st.integers(0, 12),
        seed=SEED,
        multiplier=MULTIPLIERS,
        updates=UPDATES,
        bootstrap=st.none() | QUARTERS,
        final=st.booleans(),
    )
    def add_episode(self, length, seed, multiplier, updates, bootstrap, final):
        end = self.end(bootstrap, final, info=True)
        args = (*self.columns(length, seed), multiplier, *updates)
        done, first = self.both(self.memory, "add_episode", *args, **end)
        if done and length:
            self.name_ids(self.model.episodes[-1].steps(), first)
        if done and final:
            self.name_final()

    @rule(chance=st.integers(0, 19))
    def clear(self, chance):
        # More often, and hardly any memory would live to be full.
        if chance == 7:
            self.both(self.memory, "clear")

    @rule(chance=st.integers(0, 9))
    def save_and_load(self, chance):
        if chance != 7:
            return
        with tempfile.TemporaryDirectory() as directory:
            self.real.save(f"{directory}/memory")
            self.real = ReplayMemory.load(f"{directory}/memory")
        # Open episodes are left out.
        self.memory = Pair(self.real, self.model)
        for at, pair in enumerate(self.writers):
            pair.model.open = None
            self.writers[at] = (
                self.memory if pair.model is self.model else Pair(self.real.writer(), pair.model)
            )

    # -- settings --

    @rule(change=st.one_of(*(st.tuples(st.just(name), of) for name, of in SETTINGS.items())))
    def change_setting(self, change):
        self.set(*change)

    def set(self, name: str, value: Any) -> None:
        if name in ("discount_factor", "reward_coeff"):
            value = value[: self.templates["r"].size]
        for memory in self.memory:
            setattr(memory, name, value)
        assert getattr(self.real, name) == getattr(self.model, name)

    # -- correcting --

    def pick(self, index: int, stale: bool) -> int:
        """An id of a closed episode, or one of which it is unknown whether it is gone."""
        closed = [entry.id for episode in self.model.episodes for entry in episode.entries]
        pool = self.ids if stale or not closed else closed
        return pool[index % len(pool)] if pool else index

    def is_open(self, id_: int) -> bool:
        found = self.model.find(id_)
        return found is not None and found[0] not in self.model.episodes

    @rule(
        picks=st.dictionaries(st.tuples(INDEX, st.booleans()), QUARTERS.map(abs), max_size=6),
        absolute=st.booleans(),
    )
    def update_priority(self, picks, absolute):
        chosen = {self.pick(*pick): error for pick, error in picks.items()}
        chosen = {id_: error for id_, error in chosen.items() if not self.is_open(id_)}
        ids, priorities = list(chosen), list(chosen.values())
        expected = self.model.update_priority(ids, priorities, absolute=absolute)
        ids = np.array(ids, np.uint64)
        assert self.real.update_priority(ids, priorities, absolute=absolute) == expected

    @rule(index=INDEX, stale=st.booleans(), delta=QUARTERS)
    def add_reward(self, index, stale, delta):
        id_ = self.pick(index, stale)
        found = self.model.find(id_)
        if found is not None and found[0].has_final_state and found[1] == len(found[0]) - 1:
            return
        change = self.one("r", delta)
        assert self.real.add_reward(id_, change) is self.model.add_reward(id_, change)

    # -- reading --

    @rule(
        sampler=st.sampled_from(["prioritized", *WEIGHTED, "uniform", *ORDERED]),
        size=st.integers(1, 12),
    )
    def draw(self, sampler, size):
        self.check_sample(size, sampler)

    def check_sample(self, size: int, sampler: Any = "prioritized") -> None:
        closed = [self.real.episode(k) for k in range(self.real.num_episode())]
        weights = {
            int(i): float(w) for each in closed for i, w in zip(each.id, each.weight, strict=True)
        }
        assert self.real.num_drawable == len(drawables(self.model))
        if not can_draw(self.model, sampler, size, weights):
            with pytest.raises(RuntimeError):
                self.real.sample(size, sampler=sampler)
            return
        # Filled again as long as the settings give batches of these shapes.
        limited = self.real.max_times_sampled > 0
        shapes = (self.real.frame_stack, tuple(self.real.cache_flags), size, limited)
        buffers = self.buffers.get(shapes)
        total, drawable = self.real.weight_sum, self.real.num_drawable
        sample = self.real.sample(size, nstep_return=True, sampler=sampler, out=buffers)
        assert buffers is None or sample is buffers
        self.buffers[shapes] = sample
        exact = np.ones(size)
        if sampler in WEIGHTED:
            exact = sample.weight.astype(np.float64) / total
            assert np.all(sample.weight > 0)
        elif sampler == "uniform":
            exact /= drawable
        assert np.array_equal(sample.probability, exact)
        for row in range(size):
            self.check_row(sample, row)
        drawn = sample.id.tolist()
        check_order(self.model, sampler, drawn, weights)
        if limited:
            assert sample.times_sampled.tolist() == count(self.model, drawn)

    def check_row(self, sample: Any, row: int) -> None:
        episode, t = self.model.find(int(sample.id[row]))
        assert self.model.is_drawable(episode, t)
        expected = self.model.transition(episode, t)
        assert sample.next_terminated[row] == expected.next_terminated
        # Quarters and their products with powers of the discount factor: exact in float32.
        assert sample.nstep_return[row].tolist() == expected.nstep_return.tolist()
        assert sample.nstep_discount[row].tolist() == expected.nstep_discount.tolist()
        check_weight(sample.weight[row], expected.weight)
        self.check_side(sample.prev, row, expected.prev, self.model.cache_flags[:7])
        self.check_side(sample.next, row, expected.next, self.model.cache_flags[7:])

    def check_side(self, side: Any, row: int, expected: dict[str, np.ndarray], flags: list) -> None:
        for name, shown in zip(side._fields, flags, strict=True):
            column = getattr(side, name)
            if not shown:
                assert len(column) == 0
            elif name == "q":
                check_returns(column[row], expected["q"])
            else:
                assert column[row].tobytes() == expected[name].tobytes()

    @invariant()
    def holds_the_same(self):
        assert self.real.num_episode() == self.model.num_episode()
        assert self.real.num_entry == len(self.real) == self.model.num_entry
        weights = [self.check_episode(k, episode) for k, episode in enumerate(self.model.episodes)]
        self.check_totals(np.concatenate([np.zeros(0, np.float32), *weights]))
        if self.real.max_times_sampled == 0:
            self.check_sample(8)

    def check_episode(self, k: int, episode: NaiveEpisode) -> np.ndarray:
        real, model = self.real.episode(k), self.model.episode(k)
        for name in "sarpvi":
            got, expected = getattr(real.entries, name), getattr(model.entries, name)
            assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
            assert got.tobytes() == expected.tobytes()
        check_returns(real.entries.q, model.entries.q)
        assert real.id.tolist() == model.id.tolist()
        assert real[3:] == (model.truncated, model.has_final_state)
        for t, weight in enumerate(real.weight):
            drawable = self.model.is_drawable(episode, t)
            check_weight(weight, episode.entries[t].weight_range() if drawable else (0, 0))
        return real.weight

    def check_totals(self, weights: np.ndarray) -> None:
        positive = weights[weights > 0]
        assert self.real.num_sampleable == len(positive)
        assert self.real.min_weight == (positive.min() if len(positive) else 0.0)
        assert math.isclose(self.real.weight_sum, math.fsum(weights), rel_tol=1e-12)


def check_weight(weight: float, allowed: tuple[float, float]) -> None:
    assert allowed[0] * (1 - 1e-6) <= weight <= allowed[1] * (1 + 1e-6)


def check_returns(got: np.ndarray, expected: np.ndarray) -> None:
    # A late reward may be worked in from returns that were already rounded to float32.
    np.testing.assert_allclose(got, expected, rtol=0, atol=2e-5)


TestReplayMachine = ReplayMachine.TestCase
