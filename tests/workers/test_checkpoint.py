"""Checkpoints of a learner, and episodes that come back from a file."""

from __future__ import annotations

import numpy as np
import pytest

from cogrs import ReplayMemory
from cogrs.workers import LearnerWorker, restore_episodes
from tests.replay import build, network
from tests.workers.test_datalog import memory


def learner(server, kept):
    return LearnerWorker(
        server,
        lambda batch: {"loss": 0.0},
        lambda: bytes(kept["parameters"]),
        state=lambda: bytes(kept["parameters"]) + b"moments",
    )


def test_a_learner_goes_on_where_it_was(tmp_path):
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
def test_what_is_no_checkpoint_changes_nothing(content, tmp_path):
    path = tmp_path / "learner"
    path.write_bytes(content)
    with network.full_pair() as (server, _):
        worker = learner(server, {"parameters": b"old"})
        with pytest.raises(ValueError, match="expected"):
            worker.load(path, lambda state: pytest.fail("restored"))
        assert worker.updates == 0


def test_episodes_come_back_as_they_were(tmp_path):
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
