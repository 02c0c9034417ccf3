"""Files and requests of anybody: refused by documented errors, or they make what works."""

from __future__ import annotations

import copy
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import hypothesis.strategies as st
import numpy as np
import pytest
import zmq
from hypothesis import example, given

import cogrs
from cogrs import ReplayMemory, sdk
from cogrs.api import orchestrator_pb2, payload_pb2, replay_pb2
from cogrs.dtypes import dtype_of
from cogrs.orchestrator.service.config import read_config
from cogrs.replay.config import start_server
from cogrs.replay.serving.server_state import ServerState
from cogrs.replay.wire import VERSION, memory_like
from cogrs.sdk import ArrayCodec
from cogrs.yaml_document import parse_yaml
from tests.fuzzing import corpus, prolonged
from tests.logs import HEAD, ROW, read_samples, write_log
from tests.replay import build

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LARGEST = [0, 1, -1, 2**31, 2**32 - 1, 2**62, 2**63, 2**64, 10**400]
DTYPES = [
    "<f4",
    "|u1",
    "|b1",
    "<i8",
    "<f99",
    "|S2000000000",
    "<U9",
    "|O",
    "bfloat16",
    "",
    "[(",
    "x.Y",
]


def values() -> st.SearchStrategy[Any]:
    """What JSON and YAML have."""
    leaves = st.one_of(
        st.none(),
        st.booleans(),
        st.sampled_from(LARGEST),
        st.floats(),
        st.text(max_size=8),
        st.sampled_from([*DTYPES, "a", "client", "local://x", "cogrs.payload.Array", "grpc"]),
    )
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
        max_leaves=8,
    )


def places(sound: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return where the parts of a value are, its own place first."""
    items: Any = ()
    if isinstance(sound, dict):
        items = sound.items()
    elif isinstance(sound, list):
        items = enumerate(sound)
    return [above, *(each for key, part in items for each in places(part, (*above, key)))]


def changed(sound: Any) -> st.SearchStrategy[Any]:
    """A value like a sound one, some parts of which are something else, or missing."""
    found = places(sound)
    change = st.tuples(st.sampled_from(found), st.integers(0, 3), values())

    def apply(changes: list[tuple[tuple[Any, ...], int, Any]]) -> Any:
        made = copy.deepcopy(sound)
        for place, kind, value in changes:
            if not place:
                if kind == 0:
                    return value
                continue
            owner = made
            try:
                for key in place[:-1]:
                    owner = owner[key]
                if kind == 0:
                    del owner[place[-1]]
                else:
                    owner[place[-1]] = value
            except (IndexError, KeyError, TypeError):
                continue  # what was there has been replaced
        return made

    return st.lists(change, max_size=3).map(apply)


def bytes_like(sound: bytes) -> st.SearchStrategy[bytes]:
    """Bytes like sound ones, some of which are others, missing or there twice."""
    spot = st.tuples(
        st.integers(0, max(len(sound) - 1, 0)), st.integers(0, 3), st.binary(max_size=9)
    )

    def change(spots: list[tuple[int, int, bytes]]) -> bytes:
        made = sound
        for at, kind, more in spots:
            cut = (0, 1, len(more), 40)[kind]
            made = made[:at] + more + made[at + cut :]
        return made

    return st.lists(spot, max_size=6).map(change)


def bounded(call: Callable[[], Any], *allowed: type[Exception]) -> Any:
    """Return what a call makes; it may be refused, by a short error of a documented type."""
    try:
        return call()
    except allowed as error:
        text = str(error)
    assert len(text) < 5000
    return None


# -- configurations ----------------------------------------------------------------------------

CONFIG: dict[str, Any] = {
    "import": {"proto": ["a.proto"], "descriptor_set": "x"},
    "trial": {"config_type": "a.B", "pre_hooks": ["a:1"], "accept_params": True},
    "datalog": {"type": "grpc", "url": "a:1", "fields": {"exclude": ["rewards"]}},
    "actor_classes": [{"id": "c", "config_type": "a.B", "action": {"space": "a.B"}}],
    "actor_options": [{"name": "a", "default_action": "aGk=", "response_timeout": 1.0}],
    "trial_params": {
        "trial_config": {"content": "aGk="},
        "environment": {"endpoint": "a:1", "config": {"x": 1}},
        "actors": [{"name": "a", "actor_class": "c", "endpoint": "client"}],
        "max_steps": 5,
        "max_inactivity": 3,
    },
}


@prolonged
@given(changed(CONFIG))
def test_config_of_anything_is_refused_or_read(content: Any) -> None:
    if isinstance(content, dict):
        bounded(lambda: read_config(content), ValueError, OSError)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cogment.yaml"
        path.write_text(json.dumps(content))
        bounded(lambda: read_config(path), ValueError, OSError)


WORDS = [
    "a",
    ": ",
    "- ",
    "&a ",
    "*a",
    "[",
    "]",
    "{",
    "}",
    ",",
    "\n",
    "  ",
    "<<",
    "!!int ",
    "!!bool ",
]
WORDS += [
    "!!timestamp ",
    "!!binary ",
    "!!set ",
    "!!omap ",
    "!!str ",
    "!!float ",
    "1",
    "0x",
    "~",
    "? ",
]
WORDS += [
    "|",
    ">",
    "'",
    '"',
    "\\",
    "#",
    "%",
    "---",
    "...",
    "2001-01-01",
    "é",
    "\0",
    "!",
    "=",
    ".inf",
]


@prolonged
@given(st.lists(st.sampled_from(WORDS), max_size=30).map("".join))
def test_yaml_of_any_words_is_refused_or_read(text: str) -> None:
    bounded(lambda: parse_yaml(text), ValueError)


@pytest.mark.parametrize("path", corpus("yaml"), ids=lambda path: path.name)
def test_yaml_of_the_corpus_is_refused(path: Path) -> None:
    with pytest.raises(ValueError, match=r"\.yaml: "):
        read_config(path)


SERVER = """
n_caches = 1
max_step = 4
{changes}
[templates]
state = {{ dtype = "{dtype}", shape = {shape} }}
action = {{ dtype = "int64", shape = [] }}
reward = {{ dtype = "float32", shape = [1] }}
prob = {{ dtype = "float32" }}
value = {{ dtype = "float32", shape = [1] }}
qvest = {{ dtype = "float32", shape = [1] }}
info = {{ dtype = "int64" }}
"""


@prolonged
@given(st.sampled_from(DTYPES), st.lists(st.sampled_from(LARGEST[:8]), max_size=3), st.data())
def test_server_of_any_file_is_refused_or_starts(dtype: str, shape: list[int], data: Any) -> None:
    name = data.draw(st.sampled_from(["seed", "uuid", "hwm", "pub_hwm", "x", "logfile", "allow"]))
    value = data.draw(values().filter(lambda each: each is not None))
    text = SERVER.format(dtype=dtype, shape=shape, changes=f"{name} = {json.dumps(value)}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "server.toml"
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        server = bounded(lambda: start_server(path), ValueError, OSError, RuntimeError, MemoryError)
        if server is not None:
            server.close()


@pytest.mark.parametrize("path", corpus("toml"), ids=lambda path: path.name)
def test_server_of_the_corpus_is_refused(path: Path) -> None:
    with pytest.raises(ValueError, match=r"\.toml: "):
        start_server(path)


# -- data logs ---------------------------------------------------------------------------------


def read_lines(*lines: bytes, **options: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write_log(Path(folder), *lines, **options)
        bounded(lambda: read_samples(path), ValueError)


@prolonged
@given(changed(HEAD), st.lists(changed(ROW), max_size=3))
def test_log_of_any_rows_is_refused_or_read(head: Any, rows: list[Any]) -> None:
    read_lines(*(json.dumps(each).encode() for each in rows), head=json.dumps(head).encode())


@prolonged
@given(bytes_like(json.dumps(ROW).encode()))
def test_log_of_any_bytes_is_refused_or_read(line: bytes) -> None:
    read_lines(line)


@pytest.mark.parametrize("path", corpus("jsonl"), ids=lambda path: path.name)
def test_log_of_the_corpus_is_refused(path: Path) -> None:
    with pytest.raises(ValueError, match=r"\.jsonl"):
        read_samples(path)


def whole_parquet() -> bytes:
    from cogrs.api.common_pb2 import TrialParams

    with tempfile.TemporaryDirectory() as folder:
        sink = sdk.ParquetSink(folder)
        sink.start(sdk.LoggedTrial("t", (sdk.Actor("a", "c"),), TrialParams()))
        for tick in range(3):
            seen = {"a": sdk.Observation(tick, np.arange(5))}
            sink.sample(sdk.Sample(tick, seen, {"a": b"x"}, {}, {}, "", ""))
        sink.end()
        return (Path(folder) / "t.parquet").read_bytes()


@pytest.fixture(scope="module")
def parquet() -> bytes:
    pytest.importorskip("pyarrow")
    return whole_parquet()


@prolonged
@given(data=st.data())
def test_parquet_of_any_bytes_is_refused_or_read(parquet: bytes, data: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.parquet"
        path.write_bytes(data.draw(bytes_like(parquet)))
        bounded(lambda: read_samples(path), ValueError, OSError, MemoryError)


# -- dtypes, arrays and memories -----------------------------------------------------------------

PARTS = [
    *DTYPES,
    *"[](),'\"{}01",
    "-1",
    "('a','<f4')",
    "[('b','|V0')]",
    "(2,3)",
    "b'x'",
    "\0",
    "9" * 50,
]


@prolonged
@given(st.lists(st.sampled_from(PARTS), max_size=12).map("".join))
@example("[{}]")
def test_dtype_of_any_text_is_refused_or_made(text: str) -> None:
    for each in (text, f"[{text}]"):
        bounded(lambda: dtype_of(each), ValueError)  # noqa: B023


@prolonged
@given(bytes_like(ArrayCodec().encode({"a": np.arange(6).reshape(2, 3), "b": {"c": 1.5}})))
def test_array_message_of_any_bytes_is_refused_or_decoded(content: bytes) -> None:
    bounded(lambda: ArrayCodec().decode(content), ValueError)


def sizes() -> st.SearchStrategy[replay_pb2.Sizes]:
    shape = st.lists(
        st.sampled_from([0, 1, 2, 3, 2**27, 2**32, 2**62, 2**63, 2**64 - 1]), max_size=3
    )
    odd = st.builds(replay_pb2.Template, dtype=st.sampled_from(DTYPES), shape=shape)
    plain = replay_pb2.Template(dtype="<f4")
    template = st.integers(0, 9).flatmap(lambda number: odd if number == 0 else st.just(plain))
    numbers = st.lists(st.floats(), max_size=3)
    settings = st.builds(
        replay_pb2.Settings,
        priority_exponent=st.floats(),
        frame_stack=st.sampled_from([0, 1, 2, 2**32, 2**63]),
        multi_step=st.sampled_from([0, 1, 2, 2**32, 2**63]),
        cache_size=st.sampled_from([0, 1, 32, 2**63]),
        discount_factor=numbers,
        reward_coeff=numbers,
        cache_flags=st.lists(st.booleans(), max_size=15),
        new_priority=st.sampled_from(["", "max", "1", "nan", "x" * 1000]),
        frame_padding=st.sampled_from(["", "none", "zero", "y"]),
    )
    return st.builds(
        replay_pb2.Sizes,
        templates=st.lists(template, min_size=6, max_size=7),
        settings=settings,
        max_frame=st.sampled_from([0, 1, 2**63]),
    )


@prolonged
@given(sizes())
def test_sizes_of_anything_are_refused_or_make_a_memory(given_sizes: replay_pb2.Sizes) -> None:
    made = bounded(lambda: memory_like(given_sizes, 4, 1, 1), RuntimeError, MemoryError)
    if made is not None:
        made.new_episode()
        made.abort_episode()


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    memory = build.memory(16, seed=1)
    memory.add_episode(**build.steps(5), **build.UNIFORM)
    path = tmp_path_factory.mktemp("checkpoint") / "memory"
    memory.save(path)
    return path.read_bytes()


@prolonged
@given(data=st.data())
def test_checkpoint_of_any_bytes_is_refused_or_loaded(checkpoint: bytes, data: Any) -> None:
    import zlib

    length = int.from_bytes(checkpoint[12:20], "little")
    header = data.draw(bytes_like(checkpoint[20 : 20 + length]))
    whole = checkpoint[:12] + len(header).to_bytes(8, "little") + header
    whole += zlib.crc32(header).to_bytes(4, "little") + checkpoint[24 + length :]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory"
        path.write_bytes(whole)
        refusals = (ValueError, TypeError, OSError, MemoryError)
        memory = bounded(lambda: ReplayMemory.load(path), *refusals)
        if memory is not None:
            bounded(lambda: memory.sample(2), RuntimeError, MemoryError, ValueError)


@pytest.mark.parametrize("path", corpus("checkpoint"), ids=lambda path: path.name)
def test_checkpoint_of_the_corpus_is_refused_or_loaded(path: Path) -> None:
    memory = bounded(lambda: ReplayMemory.load(path), ValueError, OSError, MemoryError)
    assert (memory is not None) == (path.name == "whole")


# -- requests ------------------------------------------------------------------------------------


def headers() -> st.SearchStrategy[bytes]:
    counter = replay_pb2.Counter(episodes=1, steps=2)
    priorities = replay_pb2.Priorities()
    bodies: list[dict[str, Any]] = [
        {"sizes_request": replay_pb2.SizesRequest()},
        {"counter": counter},
        {"samples_request": replay_pb2.SamplesRequest(rows=1)},
        {"priorities": priorities},
        {"publish": replay_pb2.Publish()},
        {"cache": replay_pb2.Cache()},
        {"log": replay_pb2.Log(text="x")},
    ]
    sound = [replay_pb2.Header(version=VERSION, sender=1, **body) for body in bodies]
    return st.sampled_from([each.SerializeToString() for each in sound]).flatmap(bytes_like)


@prolonged
@given(headers(), st.lists(st.binary(max_size=40), max_size=3))
def test_replay_message_of_anything_is_refused_or_answered(
    header: bytes, rest: list[bytes]
) -> None:
    state = ServerState(build.memory(), 1, None, None)
    frames = [zmq.Frame(each) for each in (header, *rest)]
    answer = state.answer(frames)
    assert replay_pb2.Header.FromString(answer[0]).version == VERSION
    state.take(frames)


UNARY = {
    "/cogment.TrialLifecycle/StartTrial": orchestrator_pb2.TrialStartRequest(user_id="u"),
    "/cogment.TrialLifecycle/TerminateTrial": orchestrator_pb2.TerminateTrialRequest(),
    "/cogment.TrialLifecycle/GetTrialInfo": orchestrator_pb2.TrialInfoRequest(),
    "/cogment.ClientActor/JoinTrial": orchestrator_pb2.TrialJoinRequest(trial_id="t"),
    "/cogment.ClientActor/SendReward": orchestrator_pb2.TrialRewardRequest(),
    "/cogment.ClientActor/SendMessage": orchestrator_pb2.TrialMessageRequest(),
    "/cogment.ClientActor/Heartbeat": orchestrator_pb2.TrialHeartbeatRequest(),
}
INTERNAL = (
    # What an exception in the server, a server that is gone, and one that hangs look like.
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
)


@pytest.fixture(scope="module")
def channel() -> Iterator[grpc.Channel]:
    with (
        cogrs.serve_orchestrator({"trial": {"accept_params": True}}, port=0) as running,
        grpc.insecure_channel(f"localhost:{running.port}") as made,
    ):
        yield made


@prolonged
@given(data=st.data())
def test_trial_request_of_anything_is_refused_or_answered(channel: grpc.Channel, data: Any) -> None:
    path = data.draw(st.sampled_from(sorted(UNARY)))
    content = data.draw(bytes_like(UNARY[path].SerializeToString() or b"\x0a\x01a"))
    name = st.sampled_from(["", "a", "env", "x" * 300, "00000000-0000-4000-8000-000000000000"])
    metadata = [("trial-id", data.draw(name)), ("actor-name", data.draw(name))]
    try:
        channel.unary_unary(path)(content, metadata=metadata, timeout=60)
        code = grpc.StatusCode.OK
    except grpc.RpcError as error:
        code = error.code()
    assert code not in INTERNAL


def test_shape_of_a_million_dimensions_is_refused_at_once() -> None:
    shape = [2**63] * 1_000_000
    with pytest.raises(ValueError, match="dimensions, got 1000000"):
        ArrayCodec().decode(payload_pb2.Array(dtype="<f4", shape=shape).SerializeToString())
    plain = replay_pb2.Template(dtype="<f4")
    odd = replay_pb2.Template(dtype="<f4", shape=shape)
    with pytest.raises(RuntimeError, match="at most 30 dimensions"):
        memory_like(replay_pb2.Sizes(templates=[odd, *[plain] * 6]), 4, 1, 1)


def test_errors_about_large_payloads_are_short() -> None:
    text = "x" * 1_000_000
    entry = payload_pb2.Array.Entry(name=text, array=payload_pb2.Array(dtype=text))
    for array in (
        payload_pb2.Array(dtype=text),
        payload_pb2.Array(entries=[entry]),
        payload_pb2.Array(entries=[payload_pb2.Array.Entry(name=text, array=_EMPTY)] * 2),
    ):
        with pytest.raises(ValueError, match="expected") as caught:
            ArrayCodec().decode(array.SerializeToString())
        assert len(str(caught.value)) < 1000


_EMPTY = payload_pb2.Array(dtype="<f4", shape=[0])
