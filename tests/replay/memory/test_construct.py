"""Templates, sizes and names of a new memory."""

import array
import re
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cogrs import ReplayMemory
from tests.replay import build
from tests.replay.build import memory
from tests.replay.model import BUFFERS, FIELDS


def resident_bytes() -> int:
    statm = Path("/proc/self/statm")
    if not statm.exists():
        pytest.skip("this system does not say how much memory a process uses")
    return int(statm.read_text().split()[1]) * resource.getpagesize()


# -- templates --


@pytest.mark.parametrize("field", ["s", "a", "i"])
@pytest.mark.parametrize(
    "template",
    [
        np.ones((2, 3), np.uint8),
        np.ones((), np.float64),
        np.ones((0,), np.float32),
        np.ones((3, 0, 2), np.int16),
        np.zeros((2,), [("x", "f4"), ("y", "i8", (2,))]),
        np.ones((2,), "U7"),
        np.ones((), "S3"),
        np.zeros((2,), "M8[us]"),
        np.ones((4,), np.bool_),
        np.asfortranarray(np.ones((2, 3))),
        np.ones((8,))[::2],
    ],
    ids=lambda template: f"{template.dtype} {template.shape}",
)
def test_template_gives_its_dtype_and_shape_only(field: str, template: np.ndarray) -> None:
    rem = memory(**{field: template})
    got = getattr(rem, f"{BUFFERS[FIELDS.index(field)]}_buf")
    assert (got.dtype, got.shape) == (template.dtype, template.shape)
    np.testing.assert_array_equal(got, np.zeros_like(template))


@pytest.mark.parametrize(
    ("template", "dtype", "shape"),
    [
        (array.array("f", [1, 2, 3]), np.float32, (3,)),
        (memoryview(b"abcd"), np.uint8, (4,)),
        (np.float32(1), np.float32, ()),
        ([[1.0, 2.0]], np.float64, (1, 2)),
        (1, np.int64, ()),
    ],
)
def test_templates_of_other_types_are_converted_to_arrays(
    template: Any, dtype: type, shape: tuple[int, ...]
) -> None:
    got = memory(s=template).state_buf
    assert (got.dtype, got.shape) == (dtype, shape)


def test_template_of_the_other_byte_order_is_stored_in_the_native_one() -> None:
    rem = memory(s=np.zeros(3, ">f4"))
    rem.add_episode(**build.steps(2, s=np.ones((2, 3))), **build.UNIFORM)
    assert rem.state_buf.dtype == np.float32
    assert rem.get_batch(1).prev.s.dtype == np.float32


def test_writing_to_a_template_changes_nothing() -> None:
    rem = memory(s=np.zeros(3))
    rem.state_buf[...] = 7
    np.testing.assert_array_equal(rem.state_buf, np.zeros(3))


def test_size_zero_fields_are_stored_and_sampled() -> None:
    rem = memory(s=np.zeros((0,)), a=np.zeros((2, 0), np.int8))
    rem.add_episode(
        **build.steps(4, s=np.zeros((4, 0)), a=np.zeros((4, 2, 0), np.int8)), **build.UNIFORM
    )
    batch = rem.get_batch(3)
    assert batch.prev.s.shape == (3, 1, 0)
    assert batch.prev.a.shape == (3, 2, 0)


@pytest.mark.parametrize(
    "template",
    [
        np.array(None),
        np.zeros(2, object),
        np.zeros((), [("x", object)]),
        pytest.param(object(), id="object()"),
        [1, None],
    ],
    ids=repr,
)
def test_templates_without_a_fixed_size_are_type_errors(template: Any) -> None:
    with pytest.raises(TypeError, match="state"):
        memory(s=template)


PAIR = np.dtype({"names": ["a", "b"], "formats": ["i2", "i2"]})
OVERLAPPING = {"names": ["a", "b"], "formats": ["i4", "i4"], "offsets": [0, 2]}


@pytest.mark.parametrize(
    "dtype", [OVERLAPPING, [("c", OVERLAPPING)], np.zeros(1, PAIR)[["b", "a"]].dtype], ids=str
)
def test_fields_that_do_not_follow_one_another_are_a_type_error(dtype: Any) -> None:
    with pytest.raises(
        TypeError, match=r"^state_buf: expected fields that lie one after the other"
    ):
        memory(s=np.zeros(2, dtype))


@pytest.mark.filterwarnings("error")
def test_metadata_of_dtypes_is_left_out() -> None:
    plain = np.dtype([("x", "f4")])
    noted = np.dtype([("x", np.dtype("f4", metadata={"unit": "m"}))])
    assert memory(s=np.zeros(2, noted)).state_buf.dtype == plain


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="NumPy 1 has no StringDType")
def test_variable_length_text_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="state"):
        memory(s=np.zeros(2, np.dtypes.StringDType()))


@pytest.mark.parametrize(("field", "name"), list(zip("rpvq", BUFFERS[2:6], strict=True)))
@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int32, "U1"])
def test_numbers_must_be_float32(field: str, name: str, dtype: Any) -> None:
    with pytest.raises(TypeError, match=name):
        memory(**{field: np.zeros((), dtype)})


@pytest.mark.parametrize(
    ("shapes", "name"),
    [
        ({"r": (2, 2), "v": (2, 2), "q": (2, 2)}, "reward"),
        ({"p": (1,)}, "prob"),
        ({"v": (1,)}, "value"),
        ({"q": (1,)}, "qvest"),
        ({"r": (2,), "v": (3,), "q": (2,)}, "value"),
        ({"r": (2,), "v": (2,), "q": (3,)}, "qvest"),
        ({"r": (2,), "v": (), "q": (2,)}, "value"),
    ],
)
def test_shapes_that_do_not_fit_together(shapes: dict[str, tuple[int, ...]], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        memory(**{field: np.zeros(shape, np.float32) for field, shape in shapes.items()})


@pytest.mark.parametrize("empty", ["v", "q", "vq"])
def test_value_and_qvest_may_have_size_zero(empty: str) -> None:
    full, none = np.zeros(2, np.float32), np.zeros(0, np.float32)
    shapes = {field: none if field in empty else full for field in "vq"}
    rem = memory(r=full, **shapes)
    given = {"r": np.ones((4, 2)), "v": np.zeros((4, *shapes["v"].shape))}
    with pytest.raises(RuntimeError):
        rem.add_episode(**build.steps(4, **given))
    with pytest.raises(RuntimeError):
        rem.add_episode(**build.steps(4, **given), do_update_weight=False)
    rem.add_episode(**build.steps(4, **given), **build.UNIFORM)
    assert rem.episode(0).weight.tolist() == [1, 1, 1, 0]
    assert rem.get_batch(2).prev.v.shape == (2, *shapes["v"].shape)


def test_entry_size_is_the_plain_sum() -> None:
    rem = memory(s=np.zeros(3, np.uint8), a=np.zeros((), np.int16), i=np.zeros((2, 2), "U3"))
    assert rem.entry_size == 3 + 2 + 4 * 4 + 4 * 12


# -- size --


@pytest.mark.parametrize("max_step", [1, 2, 3, 7, 100])
def test_max_step_is_any_number(max_step: int) -> None:
    rem = memory(max_step)
    build.add_uniform(rem, max_step)
    assert (rem.max_step, rem.num_entry, len(rem)) == (max_step, max_step, max_step)


def test_memory_of_zero_entries_refuses_entries() -> None:
    rem = memory(0)
    rem.new_episode()
    with pytest.raises(RuntimeError):
        rem.add_entry(**build.step())
    rem.close_episode()
    assert (rem.num_episode(), rem.num_entry) == (1, 0)


@pytest.mark.parametrize("max_step", [-1, -(2**70)])
def test_negative_max_step_is_a_value_error(max_step: int) -> None:
    with pytest.raises(ValueError, match="max_step"):
        memory(max_step)


@pytest.mark.parametrize("max_step", [1.5, "8", None, True, False])
def test_max_step_of_another_type_is_a_type_error(max_step: Any) -> None:
    with pytest.raises(TypeError, match=r"^max_step: expected an integer, got"):
        memory(max_step)


@pytest.mark.parametrize("name", ["uuid", "seed"])
def test_bools_are_refused_as_numbers(name: str) -> None:
    with pytest.raises(TypeError, match=f"^{name}: expected an integer, got bool"):
        ReplayMemory(*build.TEMPLATES.values(), 4, **{name: True})


def test_more_than_the_machine_has_is_refused_with_both_figures() -> None:
    with pytest.raises(MemoryError) as caught:
        memory(10**12, s=np.zeros(1000))
    assert len(re.findall(r"\d[\d.,_]*", str(caught.value))) >= 2


@pytest.mark.parametrize("max_step", [2**62, 2**64 - 1, 2**70])
def test_sizes_beyond_all_machines_are_refused(max_step: int) -> None:
    with pytest.raises((MemoryError, ValueError)):
        ReplayMemory(*build.TEMPLATES.values(), max_step, allow_overcommit=True)


def test_million_frames_take_little_more_memory_than_the_frames(
    capsys: pytest.CaptureFixture[str],
) -> None:
    before = resident_bytes()
    frame = np.zeros((84, 84), np.uint8)
    templates = {**build.TEMPLATES, "s": frame, "i": np.zeros(0)}
    rem = ReplayMemory(*templates.values(), 1_000_000, allow_overcommit=True)
    rem.frame_stack = 4
    assert rem.entry_size == 84 * 84 + 8 + 4 * 4
    assert rem.entry_size * 1_000_000 <= rem.nbytes <= (rem.entry_size + 200) * 1_000_000
    assert resident_bytes() - before < 100_000_000
    rem.print_info()
    numbers = re.findall(r"\d+", capsys.readouterr().out.replace(",", "").replace("_", ""))
    assert {str(rem.entry_size), str(rem.nbytes)} <= set(numbers)


# -- names --


def test_uuid_is_drawn_or_given() -> None:
    drawn = {memory().uuid for _ in range(8)}
    assert len(drawn) > 1
    assert all(0 <= uuid < 2**32 for uuid in drawn)
    given = ReplayMemory(*build.TEMPLATES.values(), 4, uuid=0xFFFFFFFF)
    assert given.uuid == 0xFFFFFFFF


@pytest.mark.parametrize("uuid", [-1, 2**32])
def test_uuid_has_32_bits(uuid: int) -> None:
    with pytest.raises(ValueError, match="uuid"):
        ReplayMemory(*build.TEMPLATES.values(), 4, uuid=uuid)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_seed_has_64_bits(seed: int) -> None:
    with pytest.raises(ValueError, match="seed"):
        memory(seed=seed)


def test_repr_of_a_memory_has_its_size() -> None:
    text = repr(memory(1234))
    assert "ReplayMemory" in text
    assert "1234" in text


def test_print_info_prints_sizes_and_settings(capsys: pytest.CaptureFixture[str]) -> None:
    rem = memory(123, frame_stack=4)
    rem.print_info()
    text = capsys.readouterr().out
    numbers = set(re.findall(r"\d+", text.replace(",", "").replace("_", "")))
    assert {"123", "4", str(rem.entry_size), str(rem.nbytes)} <= numbers


def test_publishing_needs_a_server() -> None:
    with pytest.raises(RuntimeError, match="server"):
        memory().pub_bytes("topic", b"message")


@pytest.mark.parametrize("dtype", ["S0", "U0"])
def test_dtype_without_size_is_a_type_error(dtype):
    template = np.zeros(3, [("x", dtype)])["x"]
    with pytest.raises(TypeError, match="state_buf: expected a dtype of fixed size"):
        memory(s=template)


def test_more_dimensions_than_a_batch_can_have_are_refused():
    with pytest.raises(ValueError, match="state_buf: expected at most 30 dimensions, got 31"):
        memory(s=np.zeros((1,) * 31))
