"""Memories with compressed fields: the same samples to the bit, in fewer bytes."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cogrs import ReplayMemory
from tests.replay import golden
from tests.replay.build import add_uniform, memory, step
from tests.replay.game_memory import (
    SHAPE,
    assert_draws_are_the_same,
    assert_same,
    fill,
    frames,
    game_memory,
    game_steps,
)

CODECS = ["lz4", "zstd", "zstd:3", "zstd:19", "delta+lz4", "delta+zstd:1"]
Options = dict[str, Any]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("case", golden.CASES, ids=lambda case: case.name)
def test_compressed_memory_draws_the_recorded_samples(case: golden.Case, codec: str) -> None:
    fields = {"s": "state", "a": "action", "i": "info"}
    templates = case.templates()
    compress = {name: codec for letter, name in fields.items() if templates[letter].nbytes}
    max_step = case.about["params"]["max_step"]
    made = ReplayMemory(*templates.values(), max_step, seed=0, compress=compress)
    made = golden.configure(case, made)
    for expected in golden.play_counted(case, made):
        golden.check_drawable(case, made, expected)


@pytest.mark.parametrize("codec", CODECS)
def test_compressed_memory_gives_the_samples_of_a_plain_one(codec: str, tmp_path: Path) -> None:
    settings = {
        "frame_stack": 4,
        "multi_step": 2,
        "frame_padding": "repeat",
        "discount_factor": 0.9,
    }
    compress = {"state": codec, "info": "lz4"}
    pair = [game_memory(**settings), game_memory(compress=compress, **settings)]
    for turn in range(4):
        for each in pair:
            fill(each, turn)
            each.frame_padding = ["repeat", "zero", "none", "repeat"][turn]
        assert_draws_are_the_same(*pair)
        path = tmp_path / "memory"
        for at, each in enumerate(pair):
            each.save(path)
            pair[at] = ReplayMemory.load(path)
        assert pair[1].compress == pair[1].compress == compress | {"state": codec.replace(":3", "")}
        assert_draws_are_the_same(*pair)


def test_view_of_a_compressed_memory_samples_as_one_of_a_plain_memory() -> None:
    pair = [game_memory(), game_memory(compress={"state": "delta+lz4"})]
    views = []
    for each in pair:
        fill(each, 1)
        views.append(each.view("other", priority_exponent=0.25))
    assert_same(views[1].sample(32), views[0].sample(32))


def test_out_arrays_are_filled_by_a_compressed_memory() -> None:
    pair = [game_memory(frame_stack=2), game_memory(frame_stack=2, compress={"state": "lz4"})]
    batches = []
    for each in pair:
        fill(each, 1)
        out = each.sample(16)
        batches.append(each.sample(16, out=out))
    assert_same(batches[1], batches[0])


def test_fields_that_are_left_out_of_samples_are_left_out_if_compressed() -> None:
    made = game_memory(compress={"state": "lz4"}, fields={"prev": "ar", "next": "s"})
    fill(made, 1)
    batch = made.sample(8)
    assert len(batch.prev.s) == 0
    assert batch.next.s.shape == (8, 1, *SHAPE)


def test_threads_that_share_a_writer_store_whole_entries() -> None:
    made = game_memory(4000, compress={"state": "delta+lz4"})
    given = frames(1000)
    made.new_episode()

    def add(first: int) -> None:
        for at in range(first, 1000, 4):
            made.add_entry(**step(at, s=given[at], i=np.zeros(30, np.int16)))

    threads = [threading.Thread(target=add, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made.close_episode(do_update_value=False, do_update_weight=False)
    episode = made.episode(0).entries
    assert sorted(episode.a) == list(range(1000))
    assert np.array_equal(episode.s, given[episode.a])


def test_memory_made_from_spaces_compresses() -> None:
    spaces = pytest.importorskip("gymnasium.spaces")
    box = spaces.Dict({"image": spaces.Box(0, 255, SHAPE, np.uint8), "speed": spaces.Box(-1, 1)})
    made = ReplayMemory.from_spaces(box, spaces.Discrete(3), 50, compress={"state": "zstd"})
    image = frames(1)[0]
    for _ in range(5):
        made.new_episode()
        for at in range(9):
            state = {"image": image, "speed": np.float32([at / 9])}
            made.add_entry(state=state, action=1, reward=0, prob=1, value=0, info=[], weight=1)
        made.close_episode()
    drawn = made.sample(4).prev.s
    assert np.array_equal(drawn["image"], np.broadcast_to(image, (4, 1, *SHAPE)))
    assert made.stats().compression["state"].values == 45


def test_bytes_of_a_compressed_memory_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    made = game_memory(compress={"state": "lz4"}, max_bytes=1 << 20)
    empty = made.nbytes
    assert made.stats().compression["state"].ratio == 0.0
    made.add_episode(**game_steps(30, 0))
    field = made.stats().compression["state"]
    assert (field.codec, field.values, field.raw_bytes) == ("lz4", 30, 30 * 480)
    assert field.bytes < field.raw_bytes / 3
    assert field.ratio == field.raw_bytes / field.bytes
    assert made.nbytes < empty
    assert (made.compress, made.max_bytes) == ({"state": "lz4"}, 1 << 20)
    made.print_info()
    text = capsys.readouterr().out
    assert f"state: lz4, 30 values of {30 * 480} bytes in {field.bytes}, ratio" in text
    assert "max_bytes: 1048576" in text
    plain = memory()
    assert (plain.compress, plain.max_bytes, plain.stats().compression) == ({}, None, {})


def test_oldest_episode_is_evicted_when_max_bytes_are_full() -> None:
    made = game_memory(compress={"state": "lz4"}, max_bytes=20_000)
    noise = np.random.default_rng(0).integers(0, 256, (20, *SHAPE), np.uint8)
    for _ in range(9):
        made.add_episode(**game_steps(20, 0) | {"s": noise})
        assert made.stats().compression["state"].bytes <= 20_000
    assert (made.num_episode(), made.num_entry) == (2, 40)
    with pytest.raises(RuntimeError, match="max_bytes"):
        made.add_episode(**game_steps(60, 0) | {"s": np.tile(noise, (3, 1, 1))})
    assert made.num_episode() == 2


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"compress": "lz4"}, "compress: expected a mapping from names of fields to codecs"),
        ({"compress": {3: "lz4"}}, "compress: expected names of fields"),
        ({"compress": {"state": 3}}, r"compress\[\"state\"\]: expected 'lz4', 'zstd'"),
        ({"max_bytes": 9}, "max_bytes: expected None without compress"),
        ({"compress": {"state": "lz4"}, "max_bytes": 1.5}, "max_bytes: expected an integer"),
    ],
)
def test_compression_of_a_wrong_type_is_a_type_error(options: Options, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        game_memory(**options)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"compress": {"state": "gzip"}}, r"compress\[\"state\"\]: expected 'lz4'.*got 'gzip'"),
        ({"compress": {"state": "zstd:20"}}, "got 'zstd:20'"),
        ({"compress": {"image": "lz4"}}, "compress: expected 'state', 'action' or 'info', got"),
        ({"compress": {"reward": "lz4"}}, "compress: expected 'state', 'action' or 'info', got"),
        ({"compress": {"state": "lz4"}, "max_bytes": 0}, "max_bytes"),
        ({"compress": {"state": "lz4"}, "max_bytes": 480}, "max_bytes: expected at least 488"),
    ],
)
def test_compression_out_of_range_is_a_value_error(options: Options, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        game_memory(**options)


def test_field_without_bytes_cannot_be_compressed() -> None:
    with pytest.raises(ValueError, match="compress: expected fields of 1 to"):
        memory_without_info({"info": "lz4"})


def memory_without_info(compress: dict[str, str]) -> ReplayMemory:
    scalar = np.float32(0)
    return ReplayMemory(*[scalar] * 6, np.zeros(0), 10, compress=compress)


def test_file_of_a_memory_with_another_compression_is_not_restored(tmp_path: Path) -> None:
    path = tmp_path / "memory"
    made = game_memory(compress={"state": "lz4"})
    made.add_episode(**game_steps(9, 0))
    made.save(path)
    for other in ({}, {"compress": {"state": "zstd"}}, {"compress": {"info": "lz4"}}):
        with pytest.raises(
            ValueError, match="path: expected a file of a memory with the same compr"
        ):
            game_memory(**other).restore(path)
    again = game_memory(compress={"state": "lz4"})
    again.restore(path)
    assert_same(again.episode(0).entries, made.episode(0).entries)


def test_memory_without_room_for_max_bytes_is_a_memory_error() -> None:
    with pytest.raises(MemoryError, match="available"):
        game_memory(compress={"state": "lz4"}, max_bytes=1 << 60)


def test_memory_that_holds_more_uncompressed_than_there_is_can_be_created() -> None:
    made = game_memory(10**9 // 480 * 100, compress={"state": "lz4"}, allow_overcommit=True)
    assert made.max_step * made.entry_size > 100e9
    add = game_steps(5, 0)
    made.add_episode(**add)
    assert np.array_equal(made.episode(0).entries.s, add["s"])


def test_small_values_can_be_compressed() -> None:
    made = ReplayMemory(*[np.float32(0)] * 6, np.int64(0), 20, compress={"state": "delta+lz4"})
    add_uniform(made, 9)
    assert made.episode(0).entries.s.tolist() == list(range(9))
