"""Runs of games in Python for tests: described, started, collected and checked."""

from __future__ import annotations

from typing import Any

import numpy as np

import cogrs
from cogrs.collector.games.gymnasium import ContextOptions, GameContext
from tests.collector.build import rows, run

KEYS = "id seq s a r last_r terminal last_terminal truncated last_truncated"


def played(
    env: Any, descriptions: dict[str, Any], num_games: int = 4, **more: Any
) -> cogrs.GCWrapper:
    """Start games."""
    names = ("processes", "stop_timeout", "start_timeout", "make")
    kwargs = {name: more.pop(name) for name in names if name in more}
    kwargs |= kwargs.pop("make", {})
    co = ContextOptions(num_games=num_games, **{"seed": 1, **more})
    games = cogrs.GCWrapper(GameContext(env, **kwargs), co, descriptions)
    games.Start()
    return games


def collected(
    games: cogrs.GCWrapper, act: Any, name: str, count: int, *, forever: bool = False
) -> list[dict[str, Any]]:
    """Return the first histories of a listener, each as a dict of arrays over time.

    `forever` is for waits without a timeout, which make moves themselves.
    """
    found: list[dict[str, Any]] = []

    def learn(batch: Any, _gpu: Any, _reply: Any) -> None:
        arrays = rows(batch)
        count = len(next(iter(arrays.values())))
        found.extend({key: array[row] for key, array in arrays.items()} for row in range(count))

    games.reg_callback("actor", act)
    games.reg_callback(name, learn)
    while len(found) < count:
        if forever:
            games.Run()
        else:
            run(games)
    return found


def described(batchsize: int, listener: int, steps: int, keys: str = KEYS) -> dict[str, Any]:
    all_keys = dict.fromkeys(keys.split(), "")
    return {
        "actor": ({"s": "", "seq": "", "id": "", "_batchsize": batchsize}, {"a": ""}),
        "optimizer": ({**all_keys, "_batchsize": listener, "_T": steps}, None),
    }


def check(histories: list[dict[str, Any]], length: int, cut: bool) -> None:
    """Assert that histories of `Counting` make up each game's run, every transition once."""
    last: dict[int, dict[str, Any]] = {}
    for history in histories:
        steps = history["s"][:, 1]
        assert (steps == history["seq"]).all()
        assert (history["a"] == history["seq"] % 5).all()
        assert (history["last_r"] == history["seq"]).all()
        ends = history["truncated" if cut else "terminal"]
        assert not history["terminal" if cut else "truncated"].any()
        assert (ends[:-1] == (steps[:-1] == length - 1)).all()
        for key in ("r", "terminal", "truncated"):
            assert (history[key][:-1] == history[f"last_{key}"][1:]).all()
            assert history[key][-1] == 0
        follows = np.where(steps[:-1] == length - 1, 0, steps[:-1] + 1)
        assert (steps[1:] == follows).all()
        game = int(history["id"][0])
        if game in last:
            assert (history["s"][0] == last[game]["s"][-1]).all()
        else:
            assert history["seq"][0] == 0
        last[game] = history


def count_up(batch: Any, _gpu: Any, reply: Any) -> None:
    reply[-1]["a"][:] = batch[-1]["seq"] % 5
