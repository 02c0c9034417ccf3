"""Two players, each with a collector of its own, in games that a third listens to."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import cogrs
from tests.collector.build import rows, run

KEYS = ("id", "seq", "s", "action_mask", "player")
LAST = ("last_r", "last_terminal", "last_truncated")


def describe(batchsize: int) -> dict[str, Any]:
    shown = dict.fromkeys((*KEYS, *LAST), "")
    described: dict[str, Any] = {
        name: ({**shown, "_name": name, "_batchsize": batchsize}, {"a": "1"})
        for name in ("white", "black")
    }
    learned = dict.fromkeys((*KEYS, *LAST, "a", "r", "terminal", "truncated"), "")
    for name in ("white", "black"):
        described[f"learn {name}"] = ({**learned, "_name": name, "_batchsize": 2, "_T": 2}, None)
    return {**described, "all": ({**learned, "_batchsize": 1, "_T": 2}, None)}


class Match:
    """Random play of legal columns, and everything that was shown."""

    def __init__(self, num_games: int, batchsize: int, episodes: int, **options: Any) -> None:
        self.asked: list[dict[str, Any]] = []
        self.heard: dict[str, list[dict[str, Any]]] = {}
        self.rng = np.random.default_rng(3)
        co = cogrs.ContextOptions(num_games=num_games, seed=1, **options)
        context = cogrs.GameContext("connect_four", co)
        ended: Counter[int] = Counter()
        with cogrs.GCWrapper(context, co, describe(batchsize)) as games:
            for name in ("white", "black"):
                games.reg_callback(name, self.act)
            for name in ("learn white", "learn black", "all"):
                games.reg_callback(name, lambda batch, *_, name=name: self.hear(name, batch))
            games.Start()
            while len(ended) < num_games or min(ended.values()) < episodes:
                run(games)
                assert games.infos is not None
                if games.infos.name == "all":
                    last = self.heard["all"][-1]
                    ended[int(last["id"][-1])] += int(last["terminal"][0])

    def act(self, batch: Any, _gpu: Any, reply: Any) -> None:
        legal = batch[0]["action_mask"]
        reply[0]["a"] = (legal * (1 + self.rng.random(legal.shape))).argmax(axis=1)
        for row in range(len(legal)):
            self.asked.append({key: array[row].copy() for key, array in batch[0].items()})

    def hear(self, name: str, batch: Any) -> None:
        together = rows(batch)
        for row in range(len(together["id"])):
            history = {key: array[row] for key, array in together.items()}
            self.heard.setdefault(name, []).append(history)


@pytest.fixture(scope="module")
def match() -> Match:
    return Match(num_games=4, batchsize=2, episodes=12)


def test_each_side_is_asked_in_its_turn_alone(match: Match) -> None:
    for row in match.asked:
        assert row["player"] == row["seq"] % 2
        own, other = row["s"].reshape(2, -1).sum(axis=1)
        assert (own, other) == (row["seq"] // 2, (row["seq"] + 1) // 2)


def test_collector_without_a_name_sees_all_states_and_the_mover_s_reward(match: Match) -> None:
    choices = pytest.importorskip("gymnasium.spaces").Discrete(7)
    for history in match.heard["all"]:
        first, second = history["seq"]
        if history["terminal"][0]:
            assert second == 0
            assert not history["action_mask"][0].any()
            assert history["r"][0] == 0
            continue
        assert second == first + 1
        column = history["a"][0]
        assert history["action_mask"][0][column] == 1
        # The mask is one that `Space.sample` takes.
        assert history["action_mask"][0][choices.sample(mask=history["action_mask"][0])] == 1
        before, after = history["s"]
        # The board turns round for the other player, with one disc more.
        dropped = after[1].astype(int) - before[0]
        np.testing.assert_array_equal(after[0], before[1])
        assert dropped.sum() == dropped[:, column].sum() == 1
        assert history["r"][0] in ((0, 1) if not history["action_mask"][1].any() else (0,))


def test_win_of_one_side_is_the_loss_of_the_other(match: Match) -> None:
    paid: dict[tuple[str, int], list[float]] = {}
    for name in ("white", "black"):
        for history in match.heard[f"learn {name}"]:
            player = 0 if name == "white" else 1
            assert (history["player"] == player).all()
            game = int(history["id"][0])
            if history["terminal"][0]:
                # What it is the end of: an own move, or the state in which the other had won.
                assert history["seq"][1] == player
                total = history["r"][0] + (history["last_r"][0] if seen_end(history) else 0)
                paid.setdefault((name, game), []).append(float(total))
    wins = Counter[float]()
    for game in range(4):
        white, black = paid["white", game], paid["black", game]
        for one, other in zip(white, black, strict=False):
            assert one == -other
            wins[one] += 1
    assert wins[1.0] >= 5
    assert wins[-1.0] >= 5


def seen_end(history: dict[str, Any]) -> bool:
    """Whether the older state is the last of its episode, in which no column is legal."""
    return not history["action_mask"][0].any()


@pytest.mark.parametrize("threads", [1, 4])
def test_games_of_which_some_wait_for_one_side_go_on(threads: int) -> None:
    match = Match(num_games=5, batchsize=5, episodes=3, num_threads=threads)
    assert {int(row["id"]) for row in match.asked} == set(range(5))


def test_full_column_ends_the_run() -> None:
    co = cogrs.ContextOptions(num_games=1, seed=0)
    context = cogrs.GameContext("connect_four", co)
    descriptions: Any = {"both": ({"action_mask": "", "_batchsize": 1}, {"a": ""})}
    with cogrs.GCWrapper(context, co, descriptions) as games:
        games.reg_callback("both", lambda *_: None)
        games.Start()
        for _ in range(7):
            run(games)
        with pytest.raises(RuntimeError, match="game 0: a: expected a column that is not full"):
            games.Run(20)


def test_unknown_side_is_refused_with_the_known_ones() -> None:
    co = cogrs.ContextOptions()
    descriptions: Any = {"red": ({"s": "", "_name": "red", "_batchsize": 1}, {"a": ""})}
    with pytest.raises(ValueError, match=r"'red': _name: expected one of \['white', 'black'\]"):
        cogrs.GCWrapper(cogrs.GameContext("connect_four", co), co, descriptions)
