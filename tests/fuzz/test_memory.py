"""Sizes and checkpoints with any content are refused or make a memory that works."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from cogrs import ReplayMemory
from cogrs.api import replay_pb2
from cogrs.replay.wire import memory_like
from tests.fuzz.harness import corpus, prolonged
from tests.fuzz.strategies import DTYPES, bounded, bytes_like
from tests.replay import build


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
def test_sizes_with_any_content_are_refused_or_make_a_memory(given_sizes: replay_pb2.Sizes) -> None:
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
