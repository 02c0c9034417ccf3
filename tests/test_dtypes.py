"""Every accepted dtype goes every way: to files, over sockets, into logs, to JAX and PyTorch."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import cogrs
from cogrs.arrays import array_of, refuse_loss
from cogrs.collector import RequestBatcher
from cogrs.dtypes import EXTENDED, converts, dtype_of, dtype_text, kind_of, portable
from cogrs.sdk import ArrayCodec
from cogrs.sdk.datalog_jsonl import _from_json, _to_json
from cogrs.sdk.datalog_row import packed, unpacked
from cogrs.workers.parameters import pack_arrays, unpack_arrays
from tests.replay import build, network

if TYPE_CHECKING:
    from pathlib import Path

ml_dtypes = pytest.importorskip("ml_dtypes")
BFLOAT16, INT4 = ml_dtypes.bfloat16, ml_dtypes.int4
ROWS = 6

NUMBERS: list[Any] = [
    *(getattr(ml_dtypes, name) for name in EXTENDED),
    "?",
    "i1",
    "u8",
    ">i4",
    "f2",
    ">f8",
    "g",
    "c8",
    "c16",
]
OTHERS: list[Any] = [
    "U3",
    ">U2",
    "S4",
    "V5",
    "M8[ns]",
    "M8[25us]",
    "m8[D]",
    "M8",
    [("x", BFLOAT16)],
    [("x", BFLOAT16, (2, 2)), ("y", "f4")],
    [("a", "u1"), ("inner", [("b", INT4), (("title", "c"), "M8[s]")], (2,)), ("d", ">f8")],
    np.dtype([("a", "u1"), ("b", "f8"), ("c", ml_dtypes.float8_e5m2)], align=True),
    {"names": ["a", "b"], "formats": [BFLOAT16, "f4"], "offsets": [2, 8], "itemsize": 16},
    [("int4", "f4"), ("höhe", "U2")],
]
REFUSED = ["complex32", "bcomplex32", "float6_e2m3fn", "float6_e3m2fn", "int1", "uint1"]


def text_of(dtype: Any) -> str:
    return np.dtype(dtype).name if kind_of(np.dtype(dtype)) != "V" else str(np.dtype(dtype))


number = pytest.mark.parametrize("dtype", NUMBERS, ids=text_of)
every = pytest.mark.parametrize("dtype", [*NUMBERS, *OTHERS], ids=text_of)


def values(dtype: Any, *shape: int) -> Any:
    """An array of this dtype, of different small numbers."""
    made = np.zeros(shape, dtype)
    fill(made)
    return made


def fill(array: Any) -> None:
    if array.dtype.names is not None:
        for name in array.dtype.names:
            fill(array[name])
    elif array.dtype.kind == "V" and array.dtype.isbuiltin != 2:
        array[...] = b"\1\2"
    else:
        counts = np.arange(array.size).reshape(array.shape) % 2 + 1
        small = counts % 2 if array.dtype.name in ("int2", "uint2") else counts
        if array.dtype.kind == "M":
            small = small.astype(array.dtype.str.replace("<M", "<m"))
        array[...] = small.astype(array.dtype)


def same(one: Any, other: Any) -> None:
    one, other = np.asarray(one), np.asarray(other)
    assert (one.dtype, one.shape) == (other.dtype, other.shape)
    if one.dtype.names is None:
        assert one.tobytes() == other.tobytes()
    for name in one.dtype.names or ():  # but not what lies between the fields
        same(one[name], other[name])


def filled(dtype: Any) -> tuple[cogrs.ReplayMemory, Any]:
    """A memory with a state and an info of this dtype, and what its states are."""
    states = values(dtype, ROWS, 2)
    rem = build.memory(s=np.zeros(2, dtype), i=np.zeros((), dtype), seed=0, cache_size=3)
    infos = states[:, 0]
    build.add_uniform(rem, ROWS, s=states, i=infos)
    return rem, states.astype(states.dtype.newbyteorder("="))


# -- text --


@every
def test_text_of_a_dtype_reads_back(dtype: Any) -> None:
    dtype = np.dtype(dtype)
    text = dtype_text(dtype)
    assert dtype_of(text) == dtype
    assert dtype_text(dtype_of(text)) == text
    if dtype.isbuiltin == 2:
        assert text == dtype.name


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("shape", ["alone", "field", "inner"])
def test_dtype_that_jax_lacks_is_refused_by_field(name: str, shape: str) -> None:
    dtype: Any = getattr(ml_dtypes, name)
    if shape != "alone":
        dtype = [("x", dtype)] if shape == "field" else [("y", [("x", dtype, (2,))])]
    with pytest.raises(TypeError, match=rf"state_buf.*: expected a dtype of .*{name}"):
        build.memory(s=np.zeros(2, dtype))
    with pytest.raises(TypeError, match=rf"key.*: expected a dtype of .*{name}"):
        RequestBatcher({"key": (dtype, ())}, {"a": ("f4", ())}, 1)


@pytest.mark.parametrize("field", ["r", "p", "v", "q"])
def test_fields_of_float32_name_the_dtype_that_came(field: str) -> None:
    with pytest.raises(TypeError, match=r"_buf: expected float32, got bfloat16"):
        build.memory(**{field: np.zeros((), BFLOAT16)})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "O",
        "[('a', 'O')]",
        "[[]]",
        "[('a',)]",
        "T",
        "<f1",
        "[" * 500,
        "float6_e2m3fn",
        "i3",
        "[",
    ],
)
def test_text_that_is_not_a_dtype_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="state: expected a dtype that NumPy knows, got"):
        dtype_of(text, "state")


# -- the memory --


@every
def test_memory_returns_stored_entries(dtype: Any, tmp_path: Path) -> None:
    rem, states = filled(dtype)
    same(rem.episode(0).entries.s, states)
    rem.save(tmp_path / "rem")
    again = cogrs.ReplayMemory.load(tmp_path / "rem")
    assert again.state_buf.dtype == rem.state_buf.dtype == states.dtype
    same(again.episode(0).entries.s, states)
    same(again.episode(0).entries.i, states[:, 0])
    again.add_episode(**build.steps(ROWS, s=states, i=states[:, 0]), **build.UNIFORM)
    same(again.episode(1).entries.s, states)
    batch = again.get_batch(4)
    again.get_batch(4, out=batch)
    for row, at in enumerate(batch.prev.a):
        same(batch.prev.s[row, 0], states[at])
        same(batch.next.i[row], states[at + 1, 0])


@every
def test_writers_take_entries_one_by_one(dtype: Any) -> None:
    rem, states = filled(dtype)
    writer = rem.writer()
    writer.new_episode()
    for at in range(3):
        writer.add_entry(**build.step(at, s=states[at], i=states[at, 0]))
    writer.close_episode(final_state=states[3], final_info=states[3, 0])
    same(rem.episode(1).entries.s, states[:4])
    swapped = states.astype(states.dtype.newbyteorder("S"))
    rem.add_episode(**build.steps(ROWS, s=swapped, i=swapped[:, 0]), **build.UNIFORM)
    same(rem.episode(2).entries.s, states)


@every
def test_information_names_the_dtype(dtype: Any, capsys: Any) -> None:
    rem, _ = filled(dtype)
    rem.print_info()
    shown = capsys.readouterr().out
    if kind_of(np.dtype(dtype)) in "biufc":
        assert f"state_buf: {np.dtype(dtype).name} (2,)" in shown


@pytest.mark.parametrize("shape", ["state", "record"])
def test_memory_is_refused_by_name_where_ml_dtypes_is_missing(shape: str, tmp_path: Path) -> None:
    rem, _ = filled(BFLOAT16 if shape == "state" else [("x", BFLOAT16), ("y", "f4")])
    rem.save(tmp_path / "rem")
    program = (
        "import sys; sys.modules['ml_dtypes'] = None\n"
        "import cogrs\n"
        "from cogrs.sdk import ArrayCodec\n"
        f"try: cogrs.ReplayMemory.load({str(tmp_path / 'rem')!r})\n"
        "except ValueError as error: print(error)\n"
        f"try: ArrayCodec().decode({ArrayCodec().encode(np.zeros(2, BFLOAT16))!r})\n"
        "except ValueError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    memory, array = done.stdout.splitlines()
    assert memory.startswith("state: expected a known dtype, got ")
    assert "bfloat16" in memory
    assert memory.endswith("of ml_dtypes, which is not installed: pip install ml_dtypes")
    assert array.endswith("of ml_dtypes, which is not installed: pip install ml_dtypes")


# -- conversions --


@pytest.mark.parametrize("name", EXTENDED)
def test_numbers_are_converted_or_refused_if_out_of_range(name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name))
    rem = build.memory(s=np.zeros(2, dtype))
    rem.new_episode()
    whole = np.ones(2, "u4" if EXTENDED[name] == "u" else "i8")
    for one in (whole, [1, 1], [True, True], whole.astype(whole.dtype.newbyteorder("S"))):
        rem.add_entry(**build.step(0, s=one))
    taken = rem.num_entry
    floats = EXTENDED[name] == "f"
    for some in (np.ones(2, np.float32), np.ones(2, BFLOAT16), [1.0, 1.0]):
        if floats:
            rem.add_entry(**build.step(0, s=some))
        else:
            with pytest.raises(TypeError, match=rf"state: expected {name} \(2,\), got"):
                rem.add_entry(**build.step(0, s=some))
    many = np.full(2, 1e39) if floats else whole * 1000
    with pytest.raises((TypeError, ValueError), match=r"state: expected .*1"):
        rem.add_entry(**build.step(0, s=many))
    with pytest.raises(TypeError, match="state: expected"):
        rem.add_entry(**build.step(0, s=np.ones(2, np.complex64)))
    with pytest.raises(TypeError, match="state: expected"):
        rem.add_entry(**build.step(0, s=["a", "b"]))
    rem.close_episode(**build.UNIFORM)
    assert rem.episode(0).entries.s.astype(int).tolist() == [[1, 1]] * (taken + 3 * floats)


@pytest.mark.parametrize("name", [name for name, kind in EXTENDED.items() if kind == "f"])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_infinity_and_nan_are_kept_or_refused(name: str, value: float) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name))
    with np.errstate(invalid="ignore"):
        made = np.float32(value).astype(dtype)
    kept = np.float32(made) == value or (np.isnan(value) and np.isnan(np.float32(made)))
    rem = build.memory(s=np.zeros((), dtype))
    rem.new_episode()
    if kept:
        rem.add_entry(**build.step(s=value))
    else:
        with pytest.raises(ValueError, match=f"state: expected values that fit {name}, got"):
            rem.add_entry(**build.step(s=value))


def test_same_kind_rule_agrees_with_numpy_on_its_dtypes() -> None:
    own = [np.dtype(each) for each in NUMBERS if np.dtype(each).isbuiltin != 2]
    for one in own:
        for other in own:
            assert converts(one, other) == np.can_cast(one, other, "same_kind")
    assert converts(np.dtype(BFLOAT16), np.dtype(np.float32))
    assert converts(np.dtype(BFLOAT16), np.dtype(np.complex64))
    assert not converts(np.dtype(np.float32), np.dtype(INT4))
    assert not converts(np.dtype(INT4), np.dtype(np.uint8))
    assert not converts(np.dtype("M8[s]"), np.dtype(BFLOAT16))


def test_loss_beyond_rounding_is_found() -> None:
    given = np.array([6.9, 7.5])
    made = given.astype(ml_dtypes.float4_e2m1fn)
    refuse_loss("x", given[:1], made[:1])
    with pytest.raises(ValueError, match=r"x: expected values that fit float4_e2m1fn, got 7\.5"):
        refuse_loss("x", given, made)


# -- over sockets --


@every
def test_server_and_sampler_return_the_entries_of_a_client(dtype: Any) -> None:
    templates = {"s": np.zeros(2, dtype), "i": np.zeros((), dtype)}
    _, states = filled(dtype)
    with network.pair(1, cache_size=8, **templates) as (server, client):
        assert client.rem.state_buf.dtype == server.rem.state_buf.dtype == states.dtype
        build.add_uniform(client.rem, ROWS, s=states, i=states[:, 0])
        client.push_cache()
        batch = server.get_batch(4, wait=network.SLACK)
        with cogrs.ReplaySampler([server.rep_endpoint]) as sampler:
            batches = [batch, sampler.get_batch(4, wait=network.SLACK)]
    for each in batches:
        for row, at in enumerate(each.prev.a):
            same(each.prev.s[row, 0], states[at])
            same(each.next.i[row], states[at + 1, 0])


# -- payloads, parameters, logs --


@number
def test_parameters_and_payloads_come_back(dtype: Any) -> None:
    given = values(dtype, 3, 2)
    swapped = given.astype(given.dtype.newbyteorder("S"))
    same(unpack_arrays(pack_arrays({"w": given}))["w"], given)
    codec = ArrayCodec()
    same(codec.decode(codec.encode({"x": {"y": given}})).value["x"]["y"], given)
    same(codec.decode(codec.encode(swapped)).value, portable(swapped))


@pytest.mark.parametrize("dtype", OTHERS, ids=text_of)
def test_value_that_is_not_a_number_is_refused_by_name(dtype: Any) -> None:
    with pytest.raises(TypeError, match=r"arrays\['w'\]: expected numbers or booleans, got"):
        pack_arrays({"b": np.zeros(2), "w": np.zeros(2, dtype)})


@every
def test_logs_keep_values(dtype: Any) -> None:
    given = values(dtype, 3, 2)
    kept = packed(given)
    same(unpacked(kept, {}), portable(given))
    row = {"observation": kept, "action": kept, "messages": []}
    back = _from_json(json.loads(json.dumps(_to_json(row))))
    assert back["observation"]._replace(shape=(3, 2)) == kept


def test_log_refuses_a_dtype_that_cannot_be_read_back() -> None:
    with pytest.raises(TypeError, match="value: expected a dtype of fixed size without objects"):
        packed(np.array([object()]))


# -- the collector --


@every
def test_group_carries_keys_of_this_dtype(dtype: Any) -> None:
    given = values(dtype, 2)
    batcher = RequestBatcher({"x": (dtype, (2,))}, {"y": (dtype, (2,))}, 1)

    def echo(inputs: Any, replies: Any) -> None:
        replies["y"][...] = inputs["x"]

    server = threading.Thread(target=batcher.run, args=(echo,))
    server.start()
    try:
        answer = batcher.ask({"x": given}, network.SLACK)
    finally:
        server.join(network.SLACK)
        batcher.close()
    same(answer["y"], given)


# -- other libraries --


@number
def test_jax_has_the_same_numbers(dtype: Any) -> None:
    jax = pytest.importorskip("jax")
    import cogrs.jax as cogrs_jax

    rem, states = filled(dtype)
    rem.cache_flags = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    batch = rem.get_batch(4)
    if states.dtype == np.dtype("g"):
        with pytest.raises(TypeError, match=r"prev.state: expected a dtype"):
            cogrs_jax.as_arrays(batch)
        return
    with jax.enable_x64(True):
        made = cogrs_jax.as_arrays(batch)
        assert isinstance(made.prev.s, jax.Array)
        same(made.prev.s, batch.prev.s)
        same(made.next.i, batch.next.i)


@number
def test_torch_has_the_same_numbers(dtype: Any) -> None:
    torch = pytest.importorskip("torch")
    import cogrs.torch as cogrs_torch

    rem, states = filled(dtype)
    batch = rem.get_batch(4)
    kind = kind_of(states.dtype)
    whole = states.dtype.isbuiltin == 2 and kind != "f"
    if not whole and not hasattr(torch, states.dtype.name):
        with pytest.raises(TypeError, match=r"prev.state: expected a dtype that PyTorch has"):
            cogrs_torch.as_tensors(batch)
        return
    made = cogrs_torch.as_tensors(batch)
    assert made.prev.s.data_ptr() == batch.prev.s.ctypes.data
    expected = batch.prev.s.astype("i8" if whole else states.dtype if kind == "c" else "f8")
    assert made.prev.s.to(torch.complex128 if kind == "c" else torch.float64).tolist() == (
        expected.tolist()
    )
    if not whole:
        same(cogrs_torch.as_arrays(made).prev.s, batch.prev.s)
        build.add_uniform(
            rem,
            ROWS,
            s=torch.from_numpy(states)
            if states.dtype.isbuiltin == 1
            else made.prev.s[:1, 0].expand(ROWS, 2),
            i=states[:, 0],
        )
    tensors = cogrs_torch.buffers(batch)
    out = cogrs_torch.as_arrays(tensors)
    rem.get_batch(4, out=out)
    rem.get_batch(4, out=tensors)
    assert out.prev.s.tobytes() in {tensors.prev.s.contiguous().view(torch.uint8).numpy().tobytes()}


def test_tensors_of_extended_dtypes_are_taken() -> None:
    torch = pytest.importorskip("torch")
    rem = build.memory(s=torch.zeros(2, dtype=torch.bfloat16))
    assert rem.state_buf.dtype == BFLOAT16
    rem.new_episode()
    rem.add_entry(**build.step(s=torch.ones(2, dtype=torch.bfloat16), v=torch.tensor(0.5)))
    rem.add_entry(**build.step(s=torch.ones(2), v=torch.tensor(0.5, dtype=torch.bfloat16)))
    rem.close_episode(**build.UNIFORM)
    assert rem.episode(0).entries.s.tolist() == [[1, 1], [1, 1]]
    assert rem.episode(0).entries.v.tolist() == [0.5, 0.5]
    same(array_of("x", torch.ones(2, dtype=torch.float8_e5m2)), np.ones(2, ml_dtypes.float8_e5m2))
