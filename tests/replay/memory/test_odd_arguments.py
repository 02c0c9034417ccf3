"""Calls with arguments of any kind: they work or raise, and the memory goes on."""

import array
import itertools
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cogrs import ReplayMemory, importance_weights
from cogrs._core import CacheStore, cache_layout, draw_cache
from tests.replay import build


class OddError(Exception):
    """What an argument raises when it is looked at."""


class Odd:
    """An argument whose every conversion raises."""

    def _raise(self, *_: Any, **__: Any) -> Any:
        raise OddError

    __array__ = __buffer__ = __float__ = __index__ = __int__ = __len__ = __iter__ = _raise
    __bool__ = __getitem__ = __fspath__ = __str__ = __repr__ = __eq__ = __hash__ = _raise


class Lying:
    """An argument that says it is something other than it is."""

    dtype = np.dtype(np.float32)
    shape = (3, 4)

    def __len__(self) -> int:
        return 5

    def __getitem__(self, at: Any) -> Any:
        if at > 2:
            raise IndexError
        return at


def frozen(made: np.ndarray) -> np.ndarray:
    made.flags.writeable = False
    return made


# Anything a call of an allowed type may raise; a panic of Rust is not among them.
REFUSALS = (
    TypeError,
    ValueError,
    RuntimeError,
    MemoryError,
    IndexError,
    OverflowError,
    AttributeError,
    OSError,
    BufferError,
    OddError,
)
DTYPES = ["f4", "f8", "i8", "u1", "?", "c8", "U2", "S3", "M8[s]", "m8[D]", "V4", "O", ">f4", "f2"]
SHAPES = [(), (0,), (1,), (4,), (2, 3), (4, 2, 3), (1, 4), (4, 1), (0, 3), (1,) * 31]


def arrays() -> st.SearchStrategy[np.ndarray]:
    shapes = st.sampled_from(SHAPES)
    plain = st.builds(np.ones, shapes, st.sampled_from(DTYPES))
    records = st.builds(np.zeros, shapes, st.just([("x", "f4"), ("y", "i2", (2,))]))
    changes = [frozen, np.transpose, lambda made: np.atleast_1d(made)[..., :0]]
    return st.one_of(plain, records, *map(plain.map, changes))


# Numbers between these would make some machine take gigabytes rather than refuse.
INTEGERS = [-(2**70), -1, 0, 1, 2, 3, 4, 7, 2**44, 2**62, 2**63, 2**64 - 1, 2**64, 10**30]
FLOATS = [-1.0, -0.0, 0.0, 0.5, 1.0, 1e-300, 1e39, 1e300, float("inf"), float("nan")]


def anything() -> st.SearchStrategy[Any]:
    scalars = st.sampled_from(
        [None, True, False, "", "text", b"bytes", 1j, ..., object, type, slice(3), {}, {"a": 1}]
    )
    numbers = st.sampled_from([*INTEGERS, *FLOATS, np.float32(2), np.int8(-3), np.uint64(2**63)])
    made = st.sampled_from(
        [
            Odd,
            Lying,
            object,
            lambda: (k for k in range(4)),
            lambda: itertools.count(),
            lambda: memoryview(b"abcd"),
            lambda: memoryview(bytearray(64))[::2],
            lambda: array.array("f", [1, 2, 3, 4]),
            lambda: [1, [2, 3]],
            lambda: [[1.0] * 3] * 4,
            lambda: range(4),
            lambda: np.ma.masked_array([1.0, 2.0], [True, False]),
        ]
    ).map(lambda make: make())
    return st.one_of(scalars, numbers, made, arrays())


CALLS = [
    "new_episode",
    "add_entry",
    "add_entries",
    "add_episode",
    "close_episode",
    "abort_episode",
    "update_priority",
    "add_reward",
    "get_batch",
    "sample",
    "episode",
    "writer",
    "clear",
    "save",
    "load",
    "pub_bytes",
    "num_episode",
    "print_info",
]
SETTINGS = [
    "priority_exponent",
    "mix_lambda",
    "frame_stack",
    "multi_step",
    "cache_size",
    "max_episode",
    "reuse_cache",
    "discount_factor",
    "reward_coeff",
    "cache_flags",
]
OPTIONS = ["bootstrap_value", "final_state", "final_info", "do_update_value", "batch_size", "id"]


def good(name: str) -> tuple[Any, ...]:
    """Arguments with which the call works, now and then."""
    row = tuple(build.step(3).values())
    return {
        "add_entry": row,
        "add_entries": tuple(build.steps(4).values()),
        "add_episode": tuple(build.steps(4).values()),
        "update_priority": ([0, 1], 2.0),
        "add_reward": (0, 1.0),
        "get_batch": (3,),
        "sample": (3,),
        "episode": (0,),
    }.get(name, ())


def calls() -> st.SearchStrategy[tuple[Any, ...]]:
    free = st.tuples(
        st.sampled_from(CALLS),
        st.lists(anything(), max_size=9).map(tuple),
        st.dictionaries(st.sampled_from(OPTIONS), anything(), max_size=2),
    )
    # One argument of a good call replaced comes further than arguments that are all wrong.
    spoiled = st.builds(
        lambda name, at, value: (
            name,
            tuple(value if k == at else each for k, each in enumerate(good(name))),
            {},
        ),
        st.sampled_from(CALLS),
        st.integers(0, 12),
        anything(),
    )
    settings = st.tuples(st.just("set"), st.tuples(st.sampled_from(SETTINGS), anything()))
    return st.one_of(free, spoiled, settings.map(lambda pair: (*pair, {})))


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("fuzz"))
        yield


def make(rem: ReplayMemory, of: Any, name: str, args: tuple[Any, ...], kwargs: dict) -> None:
    if name == "set":
        setattr(rem, *args)
    else:
        getattr(of if hasattr(of, name) else rem, name)(*args, **kwargs)


def goes_on(rem: ReplayMemory) -> None:
    """What can be drawn is what was stored, whatever happened."""
    rem.cache_flags = [True] * 14
    rem.frame_stack = rem.multi_step = 1
    rem.max_episode = 0
    build.add_uniform(rem, 4)
    sample = rem.sample(20)
    assert np.isfinite(sample.weight).all()
    assert (sample.weight > 0).all()
    assert sum(len(rem.episode(k).id) for k in range(rem.num_episode())) <= rem.num_entry <= 16


@given(st.lists(st.tuples(st.booleans(), calls()), max_size=15))
def test_memory_works_after_calls_with_arguments_of_any_type(made: list[Any]) -> None:
    rem = build.memory(16, seed=0)
    writer = rem.writer()
    for by_writer, (name, args, kwargs) in made:
        with suppress(*REFUSALS):
            make(rem, writer if by_writer else rem, name, args, kwargs)
    del writer
    rem.new_episode()
    goes_on(rem)


@given(st.lists(anything(), min_size=7, max_size=9), st.integers(0, 9))
def test_construction_with_arguments_of_any_type_does_not_crash(
    templates: list[Any], spoiled: int
) -> None:
    for args in (
        templates,
        [
            value if at == spoiled else template
            for at, (template, value) in enumerate(
                itertools.zip_longest(build.TEMPLATES.values(), templates, fillvalue=16)
            )
        ],
    ):
        with suppress(*REFUSALS):
            # What a template of its own accepts is a memory that works.
            rem = ReplayMemory(*args)
            assert rem.num_entry == 0


@given(st.lists(anything(), min_size=1, max_size=4), st.lists(anything(), max_size=18))
def test_caches_with_arguments_of_any_type_do_not_crash(args: list[Any], frames: list[Any]) -> None:
    rem = build.memory(16, seed=0, cache_size=4)
    build.add_uniform(rem, 4)
    for of in (rem, *args):
        for call in (draw_cache, cache_layout):
            with suppress(*REFUSALS):
                call(of)
    with suppress(*REFUSALS):
        CacheStore(rem, *args)
    store = CacheStore(rem, 1)
    rows, weight_sum, _, _, columns = draw_cache(rem)
    spoiled = [*frames[:3], *columns[3:]]
    for given_frames in (frames, spoiled, *args):
        with suppress(*REFUSALS):
            store.push(rows, weight_sum, given_frames)
    for value in args:
        with suppress(*REFUSALS):
            store.push(value, weight_sum, columns)
        with suppress(*REFUSALS):
            store.push(rows, value, columns)
        with suppress(*REFUSALS):
            store.get_batch(value)
        with suppress(*REFUSALS):
            store.shortage(value)
    store.push(rows, weight_sum, columns)
    assert set(store.get_batch(4).prev.i.tolist()) <= {0, 1, 2}


@given(*(anything() for _ in range(6)))
def test_importance_weights_with_arguments_of_any_type_do_not_crash(
    weight: Any, exponent: Any, total: Any, count: Any, normalize: Any, min_weight: Any
) -> None:
    good = {"exponent": 0.5, "total": 3.0, "count": 2, "normalize": "all", "min_weight": 1.0}
    bad = {
        "exponent": exponent,
        "total": total,
        "count": count,
        "normalize": normalize,
        "min_weight": min_weight,
    }
    for name, value in bad.items():
        with suppress(*REFUSALS):
            importance_weights([1.0, 2.0], **{**good, name: value})
    with suppress(*REFUSALS):
        importance_weights(weight, **good)
