"""Batches as tensors of PyTorch."""

import gc
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from cogrs import Batch, Episode, ReplayMemory, Sample, importance_weights
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
def test_as_tensors_shares_the_memory(draw: Any, kind: type) -> None:
    given = draw(filled(frame_stack=2))
    made = cogrs_torch.as_tensors(given)
    assert type(made) is kind
    check_shared(given, made)
    leaves(made)[0].fill_(7)
    assert (leaves(given)[0] == 7).all()


def test_batch_of_tensors_has_long_names() -> None:
    made = cogrs_torch.as_tensors(filled().get_batch(5))
    assert made.prev.state is made.prev.s


@pytest.mark.parametrize(
    "dtype",
    ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"],
)
def test_as_tensors_keeps_dtypes(dtype: str) -> None:
    rem = memory(seed=0, i=np.zeros(3, dtype))
    rem.add_episode(**build.steps(4, i=np.ones((4, 3), dtype)), **build.UNIFORM)
    given = rem.get_batch(2)
    check_shared(given, cogrs_torch.as_tensors(given))


def test_numbers_above_int64_are_kept() -> None:
    rem = memory(i=np.uint64(0))
    rem.add_episode(**build.steps(2, i=np.full(2, 2**64 - 1, np.uint64)), **build.UNIFORM)
    made = cogrs_torch.as_tensors(rem.get_batch(1))
    assert made.prev.i.dtype == torch.uint64
    assert made.prev.i.tolist() == [2**64 - 1]


@pytest.mark.parametrize("dtype", ["U3", "S2", "M8[s]", "m8[s]", "V4", "g"], ids=str)
@pytest.mark.parametrize("make", ["as_tensors", "buffers"])
def test_dtype_that_torch_lacks_is_refused_by_field(make: str, dtype: Any) -> None:
    rem = memory(i=np.zeros((), dtype))
    rem.add_episode(**build.steps(4, i=np.zeros(4, dtype)), **build.UNIFORM)
    given = rem.get_batch(2)
    with pytest.raises(TypeError, match=r"prev\.info: expected a dtype that PyTorch") as caught:
        getattr(cogrs_torch, make)(given)
    assert str(given.prev.i.dtype) in str(caught.value)


def test_field_that_torch_lacks_can_be_left_out() -> None:
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


def test_tensors_outlive_batch_and_memory_and_later_draws() -> None:
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


def test_gradients_flow_through_computations_from_a_batch() -> None:
    made = cogrs_torch.as_tensors(filled().sample(8))
    layer = torch.nn.Linear(6, 1)
    loss = (layer(made.prev.s.flatten(1)) * made.weight[:, None]).square().mean()
    loss.backward()
    assert layer.weight.grad.shape == (1, 6)


def test_update_priority_takes_ids_and_errors_as_tensors() -> None:
    rem = filled(priority_exponent=1.0)
    made = cogrs_torch.as_tensors(rem.sample(8))
    assert rem.update_priority(made.id, torch.full((8,), 3.0)) == 0
    assert set(rem.episode(0).weight.tolist()) == {0.0, 1.0, 3.0}


# -- records --

IMAGE = np.dtype([("pixels", "u1", (2, 2)), ("speed", "f4"), ("on", "?")], align=True)
RECORD = np.dtype([("image", IMAGE, (2,)), ("time", "f8")], align=True)
PACKED = np.dtype([("on", "?"), ("inner", [("speed", "f4"), ("count", "i2")])])


def of_records(dtype: np.dtype[Any], **changes: Any) -> ReplayMemory:
    rem = memory(s=np.zeros((), dtype), seed=0, **changes)
    raw = np.arange(8 * dtype.itemsize, dtype=np.uint8).reshape(8, -1) % 2
    rem.add_episode(**build.steps(8, s=raw.view(dtype)[:, 0]), **build.UNIFORM)
    return rem


def check_fields(made: Any, array: Any, shared: bool | None = None) -> None:
    """The dict has the same numbers as the array of records, and its memory, if that is said."""
    assert type(made) in (dict, cogrs_torch.RecordBuffer)
    assert tuple(made) == array.dtype.names
    for name, each in made.items():
        if isinstance(each, dict):
            check_fields(each, array[name], shared)
            continue
        np.testing.assert_array_equal(each.numpy(), array[name])
        assert each.shape == array[name].shape
        if shared is not None:
            assert np.shares_memory(each.numpy(), array) == shared


def test_record_is_a_dict_of_tensors_over_its_memory() -> None:
    given = of_records(RECORD, frame_stack=2).get_batch(5)
    made = cogrs_torch.as_tensors(given)
    assert type(made.prev.s) is dict
    assert made.prev.s["image"]["pixels"].shape == (5, 2, 2, 2, 2)
    check_fields(made.prev.s, given.prev.s, shared=True)
    check_fields(made.next.s, given.next.s, shared=True)
    made.prev.s["image"]["speed"].fill_(7)
    assert (given.prev.s["image"]["speed"] == 7).all()
    arrays = cogrs_torch.as_arrays(made)
    assert np.shares_memory(arrays.prev.s["image"]["speed"], given.prev.s)


def test_fields_of_a_packed_record_are_copies() -> None:
    given = of_records(PACKED).get_batch(5)
    made = cogrs_torch.as_tensors(given)
    check_fields(made.prev.s, given.prev.s)
    assert np.shares_memory(made.prev.s["on"].numpy(), given.prev.s)
    assert not np.shares_memory(made.prev.s["inner"]["speed"].numpy(), given.prev.s)


@pytest.mark.parametrize("call", ["get_batch", "sample"])
def test_buffers_of_records_are_filled_in_place(call: str) -> None:
    rem = of_records(RECORD)
    draw = getattr(rem, call)
    tensors = cogrs_torch.buffers(draw(5))
    arrays = cogrs_torch.as_arrays(tensors)
    assert arrays.prev.s.dtype == RECORD
    for out in (arrays, tensors):
        arrays.prev.s["time"] = -1
        draw(5, out=out)
        assert (tensors.prev.s["time"] >= 0).all()
        check_fields(tensors.prev.s, arrays.prev.s, shared=True)


def test_buffers_of_a_packed_record_are_refused_by_field() -> None:
    given = of_records(PACKED).get_batch(5)
    with pytest.raises(TypeError, match=r"prev\.state\.inner\.speed: expected .*align=True"):
        cogrs_torch.buffers(given)


def test_field_of_a_record_that_torch_lacks_is_refused_by_name() -> None:
    dtype = np.dtype([("a", [("name", "U3"), ("x", "f4")])])
    rem = memory(i=np.zeros((), dtype))
    rem.add_episode(**build.steps(4, i=np.zeros(4, dtype)), **build.UNIFORM)
    with pytest.raises(TypeError, match=r"prev\.info\.a\.name: expected a dtype that PyTorch has"):
        cogrs_torch.as_tensors(rem.get_batch(2))


# -- members that are not plain tensors --


@pytest.mark.parametrize(
    ("tensor", "what", "call"),
    [
        (torch.ones(6, requires_grad=True), "requires grad", "detach"),
        (torch.ones(6).to_sparse(), "sparse", "to_dense"),
        (torch.ones(6, device="meta"), "on meta", "cpu"),
        (torch.ones(6, dtype=torch.complex64).conj(), "conjugated", "resolve_conj"),
        (
            torch.ones(6, dtype=torch.complex64).conj().imag,
            "neg",
            "resolve_n",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_tensor_that_numpy_cannot_share_is_refused_by_name(
    tensor: Any, what: str, call: str
) -> None:
    match = rf": expected an array on the CPU, got .*{what}.*: call {call}"
    rem = memory()
    build.add_uniform(rem, 6)
    for name, field in build.NAMES:
        rem.new_episode()
        with pytest.raises(TypeError, match=field + match):
            rem.add_entry(**build.step(**{name: tensor}))
        with pytest.raises(TypeError, match=field + match):
            rem.add_entries(**build.steps(6, **{name: tensor}))
        assert rem.num_entry == 6
    calls: list[tuple[str, Any]] = [
        ("init_w", lambda: rem.add_entries(**build.steps(6, init_w=tensor))),
        ("bootstrap_value", lambda: rem.close_episode(bootstrap_value=tensor)),
        ("final_state", lambda: rem.close_episode(final_state=tensor)),
        ("priority", lambda: rem.update_priority(np.arange(6, dtype=np.uint64), tensor)),
        ("delta", lambda: rem.add_reward(0, tensor)),
        ("weight", lambda: importance_weights(tensor, exponent=1, total=1, count=1)),
        ("state_buf", lambda: memory(s=tensor)),
        ("discount_factor", lambda: setattr(rem, "discount_factor", tensor)),
    ]
    for name, refused in calls:
        with pytest.raises(TypeError, match=name + match):
            refused()


def test_list_of_tensors_that_require_grad_is_refused_by_name() -> None:
    rem = memory(s=np.zeros(6, np.float32))
    rem.new_episode()
    values = [torch.tensor(1.0, requires_grad=True)] * 2
    with pytest.raises(TypeError, match=r"state: expected .* requires grad: call detach\(\)"):
        rem.add_entries(**build.steps(2, s=[torch.ones(6, requires_grad=True)] * 2))
    rem.add_entries(**build.steps(2, s=[torch.ones(6)] * 2, v=[each.detach() for each in values]))


def test_as_arrays_refuses_tensors_that_numpy_cannot_share() -> None:
    made = cogrs_torch.as_tensors(filled().get_batch(3))
    wanted = made._replace(weight=made.weight.requires_grad_())
    with pytest.raises(TypeError, match=r"weight: expected .* requires grad: call detach\(\)"):
        cogrs_torch.as_arrays(wanted)


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


def test_arrays_without_a_tensor_stay() -> None:
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


def test_tensor_that_requires_grad_is_refused() -> None:
    rem = filled()
    out = cogrs_torch.buffers(rem.get_batch(5))
    with pytest.raises(TypeError, match=r"out.weight: expected an array.*requires grad"):
        rem.get_batch(5, out=out._replace(weight=out.weight.requires_grad_()))


# -- without PyTorch --


def run(code: str) -> str:
    script = [sys.executable, "-c", code]
    return subprocess.run(script, capture_output=True, text=True, check=True, timeout=120).stdout


def test_cogrs_torch_is_imported_on_first_use() -> None:
    code = (
        "import sys, cogrs; cogrs.ReplayMemory; print('torch' in sys.modules);"
        "cogrs.torch.as_tensors; print(sys.modules['torch'] is cogrs.torch.torch)"
    )
    assert run(code).split() == ["False", "True"]
