"""Histories of listening collectors: every transition once, across the ends of episodes."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.collector.build import actor, rows, run, running

if TYPE_CHECKING:
    import numpy as np

KEYS = "id seq s a V rv r last_r terminal last_terminal truncated last_truncated"
LISTENED = dict.fromkeys(KEYS.split(), "")


def collect(
    num_games: int, batchsize: int, listener: int, steps: int, count: int
) -> list[dict[str, Any]]:
    """Histories of all games, in order; the answer to a state is a function of it."""
    found: list[dict[str, Any]] = []
    asked, reply = actor(batchsize)
    listened = ({**LISTENED, "_batchsize": listener, "_T": steps}, None)
    both = {"actor": (asked, {**reply, "V": "", "rv": ""}), "optimizer": listened}

    def act(batch: Any, _gpu: Any, reply: Any) -> None:
        state = batch[0]["s"]
        reply[0]["a"][:] = state[:, 2] + 0.1 * state[:, 3] > 0
        reply[0]["V"][:] = state[:, 0]
        reply[0]["rv"][:] = batch[0]["seq"] + 1

    def learn(batch: Any, _gpu: Any, reply: Any) -> None:
        assert reply is None
        arrays = rows(batch)
        count = len(arrays["id"])
        found.extend({key: array[row] for key, array in arrays.items()} for row in range(count))

    with running(both, num_games) as games:
        games.reg_callback("actor", act)
        games.reg_callback("optimizer", learn)
        while len(found) < count:
            run(games)
    return found


@settings(max_examples=25)
@given(st.data())
def test_histories_put_together_are_each_game_s_run(data: st.DataObject) -> None:
    num_games = data.draw(st.integers(1, 5))
    batchsize = data.draw(st.integers(1, num_games))
    listener, steps = data.draw(st.integers(1, 6)), data.draw(st.integers(2, 12))
    last: dict[int, dict[str, Any]] = {}
    for history in collect(num_games, batchsize, listener, steps, 60):
        state = history["s"]
        assert (history["a"] == (state[:, 2] + 0.1 * state[:, 3] > 0)).all()
        assert (history["V"] == state[:, 0]).all()
        assert (history["rv"] == history["seq"] + 1).all()
        first = history["seq"] == 0
        for key in ("r", "terminal", "truncated"):
            assert (history[key][:-1] == history[f"last_{key}"][1:]).all()
            assert history[key][-1] == 0
        ends = history["terminal"] + history["truncated"]
        assert (ends[:-1] == first[1:]).all()
        assert (history["last_r"] == ~first).all()
        game = int(history["id"][0])
        if game in last:
            for key in ("seq", "s", "a"):
                assert (history[key][0] == last[game][key][-1]).all()
        else:
            assert history["seq"][0] == 0
            assert history["last_terminal"][0] == 0
        last[game] = history


def test_single_states_are_delivered_once_each() -> None:
    seen: dict[int, list[int]] = {game: [] for game in range(3)}
    for history in collect(3, 3, 2, 1, 300):
        seen[int(history["id"][0])].append(int(history["seq"][0]))
    for sequence in seen.values():
        for now, after in pairwise(sequence):
            assert after in (0, now + 1)


@pytest.mark.parametrize("steps", [1, 3])
def test_frames_are_stacked_within_an_episode_only(steps: int) -> None:
    states: dict[int, list[np.ndarray]] = {}
    given = {"id": "", "seq": "", "s": "4", "_batchsize": 2, "_T": steps}
    with running({"actor": (given, {"a": ""})}, 2) as games:

        def act(batch: Any, _gpu: Any, reply: Any) -> None:
            newest = batch[-1]
            assert newest["s"].shape == (2, 4, 4)
            for game, seq, stack in zip(newest["id"], newest["seq"], newest["s"], strict=True):
                episode = states.setdefault(int(game), [])
                if seq == 0:
                    episode.clear()
                episode.append(stack[-1].copy())
                known = episode[-4:]
                assert (stack[4 - len(known) :] == known).all()
                assert not stack[: 4 - len(known)].any()

        games.reg_callback("actor", act)
        for _ in range(120):
            run(games)


def test_actor_with_a_history_sees_seq_minus_1_before_the_first_state() -> None:
    given = {"seq": "", "a": "", "rv": "", "_batchsize": 1, "_T": 3}
    seen = []
    with running({"actor": (given, {"rv": "", "a": ""})}, 1) as games:

        def act(batch: Any, _gpu: Any, reply: Any) -> None:
            seen.append([(int(each["seq"][0]), int(each["rv"][0])) for each in batch])
            for each in reply:
                each["rv"][:] = len(seen)

        games.reg_callback("actor", act)
        for _ in range(4):
            run(games)
    assert seen == [
        [(-1, 0), (-1, 0), (0, 0)],
        [(-1, 0), (0, 1), (1, 0)],
        [(0, 1), (1, 2), (2, 0)],
        [(1, 2), (2, 3), (3, 0)],
    ]
