"""Batches as arrays of JAX."""

import gc
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from cogrs import Batch, Episode, ReplayMemory, Sample, importance_weights
from tests.replay import build
from tests.replay.build import memory

jax = pytest.importorskip("jax")
cogrs_jax = pytest.importorskip("cogrs.jax")

X64 = pytest.mark.parametrize("x64", [False, True], ids=["32 bits", "64 bits"])


def enable(x64: bool) -> Any:
    """A context in which JAX has dtypes of 64 bits, or has not."""
    return jax.enable_x64(x64) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64(x64)


def filled(**changes: Any) -> ReplayMemory:
    """A memory of steps without a dtype of 64 bits."""
    narrow = {"s": np.zeros((2, 3), np.float32), "a": np.int32(0), "i": np.int32(0)}
    rem = memory(64, seed=0, **narrow, **changes)
    k = np.arange(20, dtype=np.int32)
    states = np.arange(20 * 6, dtype=np.float32).reshape(20, 2, 3)
    rem.add_episode(**build.steps(20, s=states, a=k, i=k), **build.UNIFORM)
    return rem


def leaves(batch: Any) -> list[Any]:
    """All arrays of a batch."""
    return [
        leaf
        for member in batch
        for leaf in (leaves(member) if isinstance(member, tuple) else [member])
    ]


def check_shared(given: Any, made: Any, numpy: int = 0) -> None:
    """All members are the same arrays of JAX, so many of them still those of NumPy."""
    assert type(made) is type(given)
    left = 0
    for array, taken in zip(leaves(given), leaves(made), strict=True):
        if not isinstance(array, np.ndarray) or taken is array:
            assert taken is array
            left += isinstance(array, np.ndarray)
            continue
        assert isinstance(taken, jax.Array)
        assert (taken.shape, taken.dtype) == (array.shape, array.dtype)
        assert array.size == 0 or taken.unsafe_buffer_pointer() == array.ctypes.data
        np.testing.assert_array_equal(np.asarray(taken), array)
    assert left == numpy


@X64
@pytest.mark.parametrize(
    ("draw", "kind", "wide"),
    [
        (lambda rem: rem.get_batch(5), Batch, 0),
        (lambda rem: rem.sample(5), Sample, 2),
        (lambda rem: rem.episode(0), Episode, 1),
    ],
    ids=["get_batch", "sample", "episode"],
)
def test_as_arrays_shares_the_memory(draw: Any, kind: type, wide: int, x64: bool) -> None:
    given = draw(filled(frame_stack=2))
    with enable(x64):
        made = cogrs_jax.as_arrays(given)
    assert type(made) is kind
    check_shared(given, made, numpy=0 if x64 else wide)


def test_large_batches_are_not_copied() -> None:
    rem = memory(8, s=np.zeros(1 << 18, np.float32), a=np.int32(0), i=np.int32(0))
    k = np.arange(4, dtype=np.int32)
    states = np.zeros((4, 1 << 18), np.float32)
    rem.add_episode(**build.steps(4, s=states, a=k, i=k), **build.UNIFORM)
    given = rem.get_batch(2)
    pointers = [array.ctypes.data for array in leaves(given)]
    made = cogrs_jax.as_arrays(given)
    assert [taken.unsafe_buffer_pointer() for taken in leaves(made)] == pointers


def test_batch_of_jax_arrays_has_long_names() -> None:
    made = cogrs_jax.as_arrays(filled().get_batch(5))
    assert made.prev.state is made.prev.s


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i2", "u2", "i4", "u4", "f2", "f4", "c8"])
def test_as_arrays_keeps_dtypes(dtype: str) -> None:
    rem = memory(seed=0, s=np.int32(0), a=np.int32(0), i=np.zeros(3, dtype))
    k = np.arange(4, dtype=np.int32)
    rem.add_episode(**build.steps(4, s=k, a=k, i=np.ones((4, 3), dtype)), **build.UNIFORM)
    given = rem.get_batch(2)
    check_shared(given, cogrs_jax.as_arrays(given))


@pytest.mark.parametrize("dtype", ["i8", "u8", "f8", "c16"])
def test_fields_of_64_bits_are_refused_or_kept(dtype: str) -> None:
    rem = memory(s=np.int32(0), a=np.int32(0), i=np.zeros((), dtype))
    k = np.arange(2, dtype=np.int32)
    rem.add_episode(**build.steps(2, s=k, a=k, i=np.full(2, 2**52 + 1, dtype)), **build.UNIFORM)
    given = rem.get_batch(3)
    with enable(False), pytest.raises(TypeError, match=r"prev\.info: .*at most 32 bits") as caught:
        cogrs_jax.as_arrays(given)
    assert str(np.dtype(dtype)) in str(caught.value)
    with enable(True):
        made = cogrs_jax.as_arrays(given)
        assert made.prev.i.tolist() == [2**52 + 1] * 3
    check_shared(given, made)


def test_ids_and_probabilities_stay_numpy_arrays_of_64_bits() -> None:
    rem = filled(priority_exponent=1.0)
    sample = rem.sample(8)
    with enable(False):
        made = cogrs_jax.as_arrays(sample)
        error = made.weight * 3
        weights = importance_weights(made.probability, exponent=1, total=1, count=19)
    assert made.id is sample.id
    assert weights.tolist() == [1.0] * 8
    assert rem.update_priority(made.id, error) == 0
    assert set(rem.episode(0).weight.tolist()) == {0.0, 1.0, 3.0}


@X64
@pytest.mark.parametrize("dtype", ["U3", "S2", "M8[s]", "m8[s]", "V4", "g"], ids=str)
def test_dtype_that_jax_lacks_is_refused_by_field(dtype: Any, x64: bool) -> None:
    rem = memory(s=np.int32(0), a=np.int32(0), i=np.zeros((), dtype))
    k = np.arange(4, dtype=np.int32)
    rem.add_episode(**build.steps(4, s=k, a=k, i=np.zeros(4, dtype)), **build.UNIFORM)
    given = rem.get_batch(2)
    with enable(x64), pytest.raises(TypeError, match=r"prev\.info: expected a dtype") as caught:
        cogrs_jax.as_arrays(given)
    assert str(given.prev.i.dtype) in str(caught.value)


@pytest.mark.parametrize("align", [False, True])
def test_record_is_a_pytree_of_arrays(align: bool) -> None:
    inner = np.dtype([("speed", "f4", (2,)), ("on", "?")], align=align)
    dtype = np.dtype([("on", "?"), ("inner", inner, (3,)), ("count", "i2")], align=align)
    rem = memory(s=np.zeros((), dtype), a=np.int32(0), i=np.int32(0), seed=0)
    k = np.arange(6, dtype=np.int32)
    states = np.zeros(6, dtype)
    states["inner"]["speed"] = np.arange(36).reshape(6, 3, 2)
    states["count"] = k
    rem.add_episode(**build.steps(6, s=states, a=k, i=k), **build.UNIFORM)
    given = rem.get_batch(4)
    with enable(False):
        made = cogrs_jax.as_arrays(given)
        total = jax.jit(lambda batch: jax.tree.map(lambda leaf: leaf.sum(), batch.prev.s))(made)
    assert type(made.prev.s) is dict
    assert made.prev.s["inner"]["speed"].shape == (4, 1, 3, 2)
    np.testing.assert_array_equal(made.prev.s["inner"]["speed"], given.prev.s["inner"]["speed"])
    np.testing.assert_array_equal(made.prev.s["inner"]["on"], given.prev.s["inner"]["on"])
    assert total["count"] == given.prev.s["count"].sum()


@X64
def test_field_of_a_record_that_jax_lacks_is_refused_by_name(x64: bool) -> None:
    dtype = np.dtype([("a", [("name", "U3"), ("x", "f4")])])
    rem = memory(s=np.int32(0), a=np.int32(0), i=np.zeros((), dtype))
    k = np.arange(4, dtype=np.int32)
    rem.add_episode(**build.steps(4, s=k, a=k, i=np.zeros(4, dtype)), **build.UNIFORM)
    with enable(x64), pytest.raises(TypeError, match=r"prev\.info\.a\.name: expected a dtype"):
        cogrs_jax.as_arrays(rem.get_batch(2))


def test_field_that_jax_lacks_can_be_left_out() -> None:
    rem = memory(s=np.int32(0), a=np.int32(0), i=np.zeros((), "U3"))
    k = np.arange(4, dtype=np.int32)
    rem.add_episode(**build.steps(4, s=k, a=k, i=np.full(4, "abc")), **build.UNIFORM)
    given = rem.get_batch(2)
    none = given._replace(prev=given.prev._replace(i=None), next=given.next._replace(i=None))
    assert cogrs_jax.as_arrays(none).prev.i is None
    rem.cache_flags = [True, True, True, True, True, True, False] * 2
    given = rem.get_batch(2)
    assert cogrs_jax.as_arrays(given).prev.i is given.prev.i


def test_unaligned_array_is_copied() -> None:
    given = filled().get_batch(5)
    raw = np.zeros(5 * 4 + 80, np.uint8)
    begin = (-raw.ctypes.data) % 64 + 4
    weight = raw[begin : begin + 20].view(np.float32)
    weight[:] = [1, 2, 3, 4, 5]
    made = cogrs_jax.as_arrays(given._replace(weight=weight))
    assert made.weight.tolist() == [1, 2, 3, 4, 5]


def test_jax_arrays_outlive_batch_and_memory_and_later_draws() -> None:
    rem = filled()
    kept, copies = [], []
    for _ in range(5):
        batch = rem.sample(32)
        copies.append([array.copy() for array in leaves(batch)])
        kept.append(cogrs_jax.as_arrays(batch))
        del batch
    for _ in range(300):
        rem.sample(32)
    del rem
    gc.collect()
    for made, copy in zip(kept, copies, strict=True):
        for taken, array in zip(leaves(made), copy, strict=True):
            np.testing.assert_array_equal(np.asarray(taken), array)


def test_batch_dropped_during_a_computation_is_not_overwritten() -> None:
    rem = memory(64, seed=0, s=np.zeros(50_000, np.float32), a=np.int32(0), i=np.int32(0))
    k = np.arange(20, dtype=np.int32)
    states = np.repeat(np.float32(k)[:, None], 50_000, axis=1)
    rem.add_episode(**build.steps(20, s=states, a=k, i=k), **build.UNIFORM)
    mean = jax.jit(lambda prev: (prev.s.sort(axis=-1).mean(axis=(1, 2)), prev.i + 0))
    # The results are looked at when all is drawn: until then JAX is at work on its own threads.
    results = [mean(cogrs_jax.as_arrays(rem.get_batch(4)).prev) for _ in range(60)]
    for state, info in results:
        np.testing.assert_allclose(state, np.float32(info), rtol=1e-4)


def test_batch_is_a_tree_for_jit_and_grad() -> None:
    made = cogrs_jax.as_arrays(filled().get_batch(8))

    def loss(weights: Any, batch: Any) -> Any:
        return ((batch.prev.s.reshape(8, 6) @ weights) ** 2 * batch.weight).mean()

    gradient = jax.jit(jax.grad(loss))(np.ones(6, np.float32), made)
    assert gradient.shape == (6,)


def test_cogrs_jax_is_imported_on_first_use() -> None:
    code = (
        "import sys, cogrs; cogrs.ReplayMemory; print('jax' in sys.modules);"
        "cogrs.jax.as_arrays; print(sys.modules['jax'] is cogrs.jax.jax)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.split() == ["False", "True"]
