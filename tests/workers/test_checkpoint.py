"""Checkpoints of a learner, and episodes that come back from a file."""

from __future__ import annotations

import numpy as np
import pytest

from cogrs import ReplayMemory
from cogrs.replay import wire
from cogrs.workers import LearnerWorker, restore_episodes
from cogrs.workers.parameters import pack_arrays
from tests.replay import build, network
from tests.workers.world import memory


def learner(server, kept):
    return LearnerWorker(
        server,
        lambda batch: {"loss": 0.0},
        lambda: bytes(kept["parameters"]),
        state=lambda: bytes(kept["parameters"]) + b"moments",
    )


def test_learner_continues_from_its_checkpoint(tmp_path):
    path = tmp_path / "learner"
    with network.full_pair() as (server, client):
        worker = learner(server, {"parameters": b"old"})
        worker.updates = 7
        worker.save(path)
        worker.save(path)
        assert [each.name for each in tmp_path.iterdir()] == ["learner"]
        kept = {"parameters": b"new"}
        again = learner(server, kept)

        def restore(state):
            assert state == b"oldmoments"
            kept["parameters"] = b"old"

        again.load(path, restore)
        assert again.updates == 7
        assert client.sub_bytes("parameters", last=True, timeout=network.SLACK) == b"old"


@pytest.mark.parametrize("content", [b"", b"nothing", b"\0" * 8])
def test_load_of_a_file_that_is_not_a_checkpoint_changes_nothing(content, tmp_path):
    path = tmp_path / "learner"
    path.write_bytes(content)
    with network.full_pair() as (server, _):
        worker = learner(server, {"parameters": b"old"})
        with pytest.raises(ValueError, match="expected"):
            worker.load(path, lambda state: pytest.fail("restored"))
        assert worker.updates == 0


def test_episodes_are_restored_unchanged(tmp_path):
    rng = np.random.default_rng(0)
    before = memory()
    for k in range(20):
        size = int(rng.integers(1, 9))
        info = np.zeros(size, before.info_buf.dtype)
        info["trial"], info["tick"] = k, np.arange(size)
        fields = [rng.random((size, 3)), rng.integers(4, size=size), *rng.random((3, size))]
        before.add_episode(
            *fields,
            info,
            1.0,
            bootstrap_value=0.5 if k % 2 else None,
            final_state=rng.random(3),
            final_info=info[0],
        )
    before.new_episode()
    before.save(tmp_path / "replay")
    after = memory()
    assert restore_episodes(after, tmp_path / "replay") == 20
    assert after.num_episode() == 20
    for index in range(20):
        ours, theirs = after.episode(index), before.episode(index)
        assert (ours.truncated, ours.has_final_state) == (theirs.truncated, True)
        np.testing.assert_allclose(ours.weight, theirs.weight, rtol=1e-6)
        for mine, other in zip(ours.entries, theirs.entries, strict=True):
            np.testing.assert_array_equal(mine, other)
    small = network.made(2).rem
    with pytest.raises(ValueError, match="expected"):
        restore_episodes(small, tmp_path / "replay")


def test_episodes_without_a_final_state_are_refused(tmp_path):
    before = ReplayMemory(*build.TEMPLATES.values(), max_step=64, seed=0)
    build.add_uniform(before, 5)
    before.save(tmp_path / "replay")
    after = ReplayMemory(*build.TEMPLATES.values(), max_step=64, seed=0)
    with pytest.raises(ValueError, match="episode 0: expected a final state"):
        restore_episodes(after, tmp_path / "replay")


def filled(*sizes, last=None):
    """A memory with episodes of these sizes; the last one is closed in another way."""
    made = memory()
    for k, size in enumerate(sizes):
        info = np.zeros(size, made.info_buf.dtype)
        info["trial"], info["tick"] = k, np.arange(size)
        states = np.full((size, *made.state_buf.shape), k, made.state_buf.dtype)
        end = {"final_state": states[0]}
        if last is not None and k == len(sizes) - 1:
            end = last(made, states)
        ones = np.ones(size, np.float32)
        made.add_episode(states, np.zeros(size, int), ones, ones, ones * 0, info, 1.0, **end)
    return made


def holding(rem):
    return [build.described(rem.episode(k)) for k in range(rem.num_episode())]


@pytest.mark.parametrize(
    ("last", "changes", "error", "match"),
    [
        (lambda *_: {}, {}, ValueError, "episode 2: expected a final state"),
        (
            lambda _, states: {"bootstrap_value": 3e38, "final_state": states[0]},
            {"discount_factor": 100.0},
            ValueError,
            "episode 2: .*finite float32 numbers",
        ),
        (
            None,
            {"max_step": 3},
            ValueError,
            "episode 2: expected at most max_step=3 entries, got 4",
        ),
    ],
)
def test_episodes_come_back_all_or_none(last, changes, error, match, tmp_path):
    filled(2, 1, 3, last=last).save(tmp_path / "rem")
    into = memory()
    if "max_step" in changes:
        into = ReplayMemory(
            *(getattr(into, f"{name}_buf") for name in wire.FIELDS), changes["max_step"]
        )
    else:
        for name, value in changes.items():
            setattr(into, name, value)
        into.mix_lambda = 1.0
    zero = np.zeros(1, into.info_buf.dtype)
    state = np.zeros((1, *into.state_buf.shape), into.state_buf.dtype)
    one = np.ones(1, np.float32)
    into.add_episode(state, [0], one, one, one * 0, zero, 1.0)
    before = holding(into)
    with pytest.raises(error, match=match):
        restore_episodes(into, tmp_path / "rem")
    assert holding(into) == before


def test_error_without_room_names_open_episodes_and_added_entries(tmp_path):
    filled(2, 1, 5).save(tmp_path / "rem")
    into = memory()
    into = ReplayMemory(*(getattr(into, f"{name}_buf") for name in wire.FIELDS), 8)
    writer = into.writer()
    writer.new_episode()
    for _ in range(4):
        writer.add_entry(
            np.zeros_like(into.state_buf), 0, 0, 1, 0, np.zeros_like(into.info_buf), 1.0
        )
    with pytest.raises(RuntimeError, match=r"2 of 3 episodes were added, then: no room for 6"):
        restore_episodes(into, tmp_path / "rem")
    assert (into.num_episode(), into.num_entry) == (1, 2 + 4)
    writer.close_episode()
    assert restore_episodes(into, tmp_path / "rem") == 3


@pytest.mark.parametrize("updates", [np.zeros(2, np.int64), np.float64(3), np.int64(-1)])
def test_checkpoint_with_another_count_restores_nothing(updates, tmp_path):
    path = tmp_path / "learner"
    path.write_bytes(pack_arrays({"updates": updates, "state": np.zeros(3, np.uint8)}))
    with network.full_pair() as (server, _):
        worker = learner(server, {"parameters": b"old"})
        with pytest.raises(ValueError, match="expected a count of updates"):
            worker.load(path, lambda state: pytest.fail("restored"))
        assert worker.updates == 0
