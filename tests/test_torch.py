"""Batches as tensors of PyTorch."""

import gc
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from cogrs import Batch, Episode, ReplayMemory, Sample
from tests.replay import build
from tests.replay.build import memory

torch = pytest.importorskip("torch")
cogrs_torch = pytest.importorskip("cogrs.torch")


def filled(**changes: Any) -> ReplayMemory:
    rem = memory(64, seed=0, s=np.zeros((2, 3), np.float32), **changes)
    states = np.arange(20 * 6, dtype=np.float32).reshape(20, 2, 3)
    rem.add_episode(**build.steps(20, s=states), **build.UNIFORM)
    return rem


def leaves(batch: Any) -> list[Any]:
    """All arrays or tensors of a batch."""
    return [
        leaf
        for member in batch
        for leaf in (leaves(member) if isinstance(member, tuple) else [member])
    ]


def check_shared(given: Any, made: Any) -> None:
    assert type(made) is type(given)
    for array, tensor in zip(leaves(given), leaves(made), strict=True):
        if not isinstance(array, np.ndarray):
            assert tensor is array
            continue
        assert tuple(tensor.shape) == array.shape
        assert tensor.numpy().dtype == array.dtype
        assert tensor.data_ptr() == array.ctypes.data or array.size == 0
        np.testing.assert_array_equal(tensor.numpy(), array)


@pytest.mark.parametrize(
    ("draw", "kind"),
    [
        (lambda rem: rem.get_batch(5), Batch),
        (lambda rem: rem.sample(5), Sample),
        (lambda rem: rem.episode(0), Episode),
    ],
    ids=["get_batch", "sample", "episode"],
)
def test_tensors_share_the_memory(draw: Any, kind: type) -> None:
    given = draw(filled(frame_stack=2))
    made = cogrs_torch.as_tensors(given)
    assert type(made) is kind
    check_shared(given, made)
    leaves(made)[0].fill_(7)
    assert (leaves(given)[0] == 7).all()


def test_long_names_are_there() -> None:
    made = cogrs_torch.as_tensors(filled().get_batch(5))
    assert made.prev.state is made.prev.s


@pytest.mark.parametrize(
    "dtype",
    ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"],
)
def test_dtypes_stay(dtype: str) -> None:
    rem = memory(seed=0, i=np.zeros(3, dtype))
    rem.add_episode(**build.steps(4, i=np.ones((4, 3), dtype)), **build.UNIFORM)
    given = rem.get_batch(2)
    check_shared(given, cogrs_torch.as_tensors(given))


def test_numbers_above_int64_stay() -> None:
    rem = memory(i=np.uint64(0))
    rem.add_episode(**build.steps(2, i=np.full(2, 2**64 - 1, np.uint64)), **build.UNIFORM)
    made = cogrs_torch.as_tensors(rem.get_batch(1))
    assert made.prev.i.dtype == torch.uint64
    assert made.prev.i.tolist() == [2**64 - 1]


@pytest.mark.parametrize("dtype", [[("x", "f4")], "U3", "S2", "M8[s]", "m8[s]", "V4", "g"], ids=str)
@pytest.mark.parametrize("make", ["as_tensors", "buffers"])
def test_dtype_that_torch_has_not_is_named_with_its_field(make: str, dtype: Any) -> None:
    rem = memory(i=np.zeros((), dtype))
    rem.add_episode(**build.steps(4, i=np.zeros(4, dtype)), **build.UNIFORM)
    given = rem.get_batch(2)
    with pytest.raises(TypeError, match=r"prev\.info: expected a dtype that PyTorch") as caught:
        getattr(cogrs_torch, make)(given)
    assert str(given.prev.i.dtype) in str(caught.value)


def test_field_that_torch_has_not_can_be_left_out() -> None:
    rem = memory(i=np.zeros((), "U3"))
    rem.add_episode(**build.steps(4, i=np.full(4, "abc")), **build.UNIFORM)
    given = rem.get_batch(2)
    none = given._replace(prev=given.prev._replace(i=None), next=given.next._replace(i=None))
    assert cogrs_torch.as_tensors(none).prev.i is None
    rem.cache_flags = [True, True, True, True, True, True, False] * 2
    given = rem.get_batch(2)
    for made in (cogrs_torch.as_tensors(given), cogrs_torch.buffers(given)):
        assert made.prev.i is given.prev.i
        assert made.prev.i.shape == (0,)


def test_tensors_outlive_batch_and_memory_and_what_is_drawn_after_them() -> None:
    rem = filled()
    kept, copies = [], []
    for _ in range(5):
        batch = rem.sample(32)
        copies.append([array.copy() for array in leaves(batch)])
        kept.append(cogrs_torch.as_tensors(batch))
        del batch
    for _ in range(300):
        rem.sample(32)
    del rem
    gc.collect()
    for made, copy in zip(kept, copies, strict=True):
        for tensor, array in zip(leaves(made), copy, strict=True):
            np.testing.assert_array_equal(tensor.numpy(), array)


def test_gradients_flow_through_what_is_computed_from_a_batch() -> None:
    made = cogrs_torch.as_tensors(filled().sample(8))
    layer = torch.nn.Linear(6, 1)
    loss = (layer(made.prev.s.flatten(1)) * made.weight[:, None]).square().mean()
    loss.backward()
    assert layer.weight.grad.shape == (1, 6)


def test_ids_and_errors_go_back_as_tensors() -> None:
    rem = filled(priority_exponent=1.0)
    made = cogrs_torch.as_tensors(rem.sample(8))
    assert rem.update_priority(made.id, torch.full((8,), 3.0)) == 0
    assert set(rem.episode(0).weight.tolist()) == {0.0, 1.0, 3.0}


# -- buffers --


@pytest.mark.parametrize("call", ["get_batch", "sample"])
def test_buffers_have_shapes_and_dtypes_of_the_batch(call: str) -> None:
    given = getattr(filled(frame_stack=3), call)(5)
    made = cogrs_torch.buffers(given)
    assert type(made) is type(given)
    tensors = leaves(made)
    for array, tensor in zip(leaves(given), tensors, strict=True):
        assert (tuple(tensor.shape), tensor.numpy().dtype) == (array.shape, array.dtype)
        assert tensor.is_contiguous()
        assert tensor.is_pinned() == torch.cuda.is_available()
    arrays = [*leaves(given), *(tensor.numpy() for tensor in tensors)]
    pairs = [(a, b) for at, a in enumerate(arrays) for b in arrays[:at]]
    assert not any(np.shares_memory(a, b) for a, b in pairs)


@pytest.mark.parametrize("call", ["get_batch", "sample"])
def test_buffers_are_filled_in_place(call: str) -> None:
    rem = filled(frame_stack=3)
    draw = getattr(rem, call)
    out = cogrs_torch.buffers(draw(5))
    tensors = leaves(out)
    for tensor in tensors:
        tensor.fill_(0)
    assert draw(5, out=out) is out
    assert all(given is tensor for given, tensor in zip(leaves(out), tensors, strict=True))
    assert (out.weight > 0).all()
    assert (out.prev.s[:, 2] == out.prev.s[:, 1] + 6).all()
    assert (out.next.s[:, 2] == out.prev.s[:, 2] + 6).all()


def test_arrays_of_buffers_are_filled_in_place() -> None:
    rem = filled()
    tensors = cogrs_torch.buffers(rem.sample(5))
    arrays = cogrs_torch.as_arrays(tensors)
    assert type(arrays) is Sample
    check_shared(arrays, tensors)
    for array in leaves(arrays):
        array[...] = 0
    rem.sample(5, out=arrays)
    assert (tensors.weight > 0).all()
    check_shared(arrays, tensors)


def test_arrays_stay_that_tensors_cannot_stand_for() -> None:
    rem = memory(i=np.zeros((), "U3"), cache_flags=[True] * 6 + [False] + [True] * 6 + [False])
    rem.add_episode(**build.steps(8, i=np.full(8, "abc")), **build.UNIFORM)
    tensors = cogrs_torch.buffers(rem.get_batch(5))
    arrays = cogrs_torch.as_arrays(tensors)
    assert arrays.prev.i is tensors.prev.i
    assert (rem.get_batch(5, out=arrays).next.a == arrays.prev.a + 1).all()


def test_buffers_without_elements_are_filled() -> None:
    rem = memory(i=np.zeros(0, np.float32), cache_flags=[False] + [True] * 13)
    rem.add_episode(**build.steps(8, i=np.zeros((8, 0))), **build.UNIFORM)
    out = cogrs_torch.buffers(rem.get_batch(5))
    assert (rem.get_batch(5, out=out).next.a == out.prev.a + 1).all()


def test_tensor_that_wants_gradients_is_refused() -> None:
    rem = filled()
    out = cogrs_torch.buffers(rem.get_batch(5))
    with pytest.raises(TypeError, match=r"out.weight: expected an array.*requires grad"):
        rem.get_batch(5, out=out._replace(weight=out.weight.requires_grad_()))


# -- without PyTorch --


def run(code: str) -> str:
    script = [sys.executable, "-c", code]
    return subprocess.run(script, capture_output=True, text=True, check=True, timeout=120).stdout


def test_it_is_a_part_of_the_package_that_is_imported_when_used() -> None:
    code = (
        "import sys, cogrs; cogrs.ReplayMemory; print('torch' in sys.modules);"
        "cogrs.torch.as_tensors; print(sys.modules['torch'] is cogrs.torch.torch)"
    )
    assert run(code).split() == ["False", "True"]
