"""Sequences over the network: caches of them, batches, samplers, and priorities on the way back."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cogrs import ReplayMemoryClient, ReplayMemoryServer
from cogrs.replay import IdSequenceBatch, NStepIdSequenceBatch, ReplaySampler, SequenceBatch
from tests.replay.sequence_steps import INITIAL, F, episode
from tests.replay.sequence_steps import memory as steps

SHAPE = {"length": 4, "burn_in": 3, "after": 2, "period": 2}
T = 9


def server(n_caches: int = 2, **options: Any) -> ReplayMemoryServer[Any]:
    templates = np.zeros(2, F), np.int64(0), F(0), F(0), F(0), F(0), np.zeros(0, F)
    made: ReplayMemoryServer[Any] = ReplayMemoryServer(
        *templates, 0, "tcp://127.0.0.1:*", n_caches, **{"sequences": SHAPE, "seed": 1} | options
    )
    made.rem.cache_size = 5
    return made.start()


def client(of: ReplayMemoryServer[Any], max_step: int = 200) -> ReplayMemoryClient:
    endpoints = of.pub_endpoint, of.rep_endpoint, of.pull_endpoint
    return ReplayMemoryClient(*endpoints, max_step=max_step, seed=2, timeout=20.0)  # type: ignore[arg-type]


def check(batch: Any, first: dict[int, int]) -> None:
    """Compare the rows of a batch with the episodes of `first`: number of the first step by id."""
    for row, anchor_id in enumerate(batch.anchor_id.tolist()):
        begin = max(each for each in first if each <= anchor_id)
        number = first[begin] + anchor_id - begin
        at = int(np.argmax(batch.learn[row]))
        assert batch.steps.action[row, at] == number
        valid = batch.valid[row]
        numbers = first[begin] + (batch.id[row] - np.uint64(begin)).astype(int)
        assert batch.steps.state[row, :, 0, 0].tolist() == numbers.tolist()
        assert valid[at]
        assert batch.learn[row].sum() == 4


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({}, SequenceBatch),
        ({"ids": True}, IdSequenceBatch),
        ({"ids": True, "nstep": True}, NStepIdSequenceBatch),
    ],
)
def test_batches_of_a_server_have_the_sequences_of_its_clients(
    options: dict[str, Any], kind: type
) -> None:
    with server(**options) as at, client(at) as actor:
        first = {episode(actor.rem, 20, 100 * turn): 100 * turn for turn in range(1, 4)}
        for _ in range(3):
            assert actor.push_cache() == 0
        batch = at.get_batch(6, wait=20.0)
        assert type(batch) is kind
        assert batch.steps.state.shape == (6, T, 1, 2)
        assert batch.recurrent.shape == (6, 0)
        check(batch, first)
        assert (batch.weight > 0).all()
        if options.get("ids"):
            assert (batch.sender == actor.uuid).all()
        if options.get("nstep"):
            assert (batch.nstep_discount[batch.learn] == 1).any()
            assert not batch.nstep_return[~batch.learn].any()
        out = at.get_batch(2, out=at.get_batch(2))
        check(out, first)


def test_sampler_mixes_the_sequences_of_servers() -> None:
    with server(ids=True) as one, server(ids=True) as other, client(one) as a, client(other) as b:
        firsts = {}
        for number, actor in enumerate((a, b)):
            firsts[actor.uuid] = {episode(actor.rem, 30, 1000 * number + 1): 1000 * number + 1}
            for _ in range(3):
                assert actor.push_cache() == 0
        endpoints = [each.rep_endpoint or "" for each in (one, other)]
        with ReplaySampler[IdSequenceBatch](endpoints) as sampler:
            batch = sampler.get_batch(10, wait=20.0)
            assert type(batch) is IdSequenceBatch
            assert batch.steps.reward.shape == (10, T)
            for row, sender in enumerate(batch.sender.tolist()):
                only = type(batch)(*[_row(array, row) for array in batch])
                check(only, firsts[sender])
            assert sampler.update_priority(batch.anchor_id, batch.sender, np.ones((10, 4))) == 0


def _row(array: Any, row: int) -> Any:
    if isinstance(array, tuple):
        return type(array)(*[_row(each, row) for each in array])  # type: ignore[call-arg]
    return array[row : row + 1]


def test_client_takes_over_the_recurrent_state_and_sends_states() -> None:
    with server(recurrent=INITIAL, recurrent_period=3) as at, client(at) as actor:
        assert actor.rem.recurrent is not None
        assert (actor.rem.recurrent.tolist(), actor.rem.recurrent_period) == ([-7.0], 3)
        first = episode(actor.rem, 20, 100)
        assert actor.push_cache() == actor.push_cache() == 0
        batch = at.get_batch(10, wait=20.0)
        assert batch.steps.reward.shape == (10, T + 2)
        for row, anchor_id in enumerate(batch.anchor_id.tolist()):
            begin = max(anchor_id - first - 3, 0) // 3 * 3
            assert batch.recurrent[row, 0] == (-7.0 if begin == 0 else 100 + begin)


def test_priorities_of_sequences_reach_the_anchors_of_their_client() -> None:
    with server(ids=True) as at, client(at) as actor:
        at.rem.sequence_eta = 0.5
        actor.sync_sizes(200)
        assert actor.rem.sequence_eta == 0.5
        episode(actor.rem, 8)
        for _ in range(2):
            actor.push_cache()
        batch = at.get_batch(6, wait=20.0)
        at.wait_subscribers(b"cogrs.priorities.%08x" % actor.uuid)
        errors = np.where(batch.learn, 9.0, 1e9)
        errors[:, 3][batch.learn[:, 3]] = 1.0
        at.update_priority(batch.anchor_id, batch.sender, errors, mask=batch.learn)
        applied = actor.apply_priorities(timeout=20.0)
        assert applied == (6, 0, 0, 0)
        drawn = actor.rem.sample_sequences(300, **SHAPE)  # type: ignore[arg-type]
        given = np.isin(drawn.anchor_id, batch.anchor_id)
        # eta * 9 + (1 - eta) * (9 + 9 + 9 + 1) / 4
        assert np.allclose(drawn.weight[given] ** 2, 0.5 * 9 + 0.5 * 7)


def test_errors_of_steps_as_absolute_weights_are_refused() -> None:
    with server(ids=True) as at, pytest.raises(ValueError, match="absolute: expected False"):
        at.update_priority([1], [1], np.ones((1, 4)), absolute=True)


def test_client_of_another_shape_is_refused_by_layout() -> None:
    other = dict(SHAPE, burn_in=2)
    with server() as at, server(sequences=other) as elsewhere, client(elsewhere) as actor:
        episode(actor.rem, 20)
        mixed = (at.pub_endpoint, elsewhere.rep_endpoint, at.pull_endpoint)
        with ReplayMemoryClient(*mixed, max_step=100, timeout=20.0) as stranger:  # type: ignore[arg-type]
            episode(stranger.rem, 20)
            assert stranger.push_cache() == 0
            deadline = time.monotonic() + 20
            while not at.stats().refused["layout"] and time.monotonic() < deadline:
                time.sleep(0.01)
            assert at.stats().refused["layout"] == 1
            assert at.total_caches == 0


def test_push_cache_without_a_sequence_sends_nothing() -> None:
    with server(sequences=dict(SHAPE, border="drop")) as at, client(at) as actor:
        assert actor.push_cache() == -1
        episode(actor.rem, 5, final=False)
        assert actor.push_cache() == -1
        episode(actor.rem, 20)
        assert actor.push_cache() == 0


@pytest.mark.parametrize(
    ("sequences", "kind", "text"),
    [
        ({}, ValueError, "sequences: expected a length, got none"),
        ({"length": 3, "burnin": 2}, ValueError, "sequences: expected length, .*, got 'burnin'"),
        ({"length": 0}, ValueError, "length: expected an integer >= 1, got 0"),
        ({"length": 3, "border": "none"}, ValueError, "border: expected 'clip', 'shift' or 'drop'"),
        (3, TypeError, "sequences: expected a dict, got int"),
    ],
)
def test_server_refuses_sequences_that_are_not_valid(
    sequences: Any, kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        server(sequences=sequences)


def test_server_refuses_n_step_returns_that_end_behind_its_sequences(tmp_path: Path) -> None:
    path = tmp_path / "memory"
    steps(0, multi_step=3).save(path)
    with pytest.raises(ValueError, match="after: expected at least multi_step=1 with nstep=True"):
        server(sequences={"length": 4}, nstep=True)
    with server(nstep=True) as at, client(at) as actor:
        for memory in (at.rem, actor.rem):
            with pytest.raises(ValueError, match=r"after: .*multi_step=3 with nstep=True, got 2"):
                memory.multi_step = 3
            assert memory.multi_step == 1
            memory.multi_step = 2
        with pytest.raises(ValueError, match=r"after: .*multi_step=3 with nstep=True, got 2"):
            at.rem.restore(path, settings="file")
        at.rem.restore(path, settings="mine")
        assert at.rem.multi_step == 2


def test_mask_for_a_server_of_transitions_is_refused() -> None:
    with (
        server(sequences=None, ids=True) as at,
        pytest.raises(ValueError, match="mask: expected None"),
    ):
        at.update_priority([1], [1], [[1.0]], mask=[[True]])
