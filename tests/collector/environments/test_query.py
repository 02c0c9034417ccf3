"""Queries that a game makes during a move."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import numpy as np
import pytest

import cogrs
from tests.collector.build import LIMIT, actor, forever, run, wrapper

pytest.importorskip("gymnasium")
from tests.collector import sample_environments
from tests.collector.python_games import KEYS, check, collected, described, played


def think(batch: Any, _gpu: Any, reply: Any) -> None:
    """The action says which query it was, or counts the game's own states."""
    shown = batch[0]["s"]
    queried = batch[0]["tid"] > 0
    reply[0]["V"][:] = shown[:, 0] % 1000 + shown[:, 1]
    reply[0]["a"][:] = np.where(queried, batch[0]["tid"], batch[0]["seq"] % 5)
    # A query is a state of its own, after which nothing comes.
    assert (shown[:, 1] >= 10).tolist() == queried.tolist()
    assert not batch[0]["seq"][queried].any()


@pytest.mark.parametrize("batchsize", [1, 2, 3, 5, 12])
@pytest.mark.parametrize("threads", [1, 4])
def test_query_gets_its_own_replies_and_is_absent_from_histories(
    batchsize: int, threads: int
) -> None:
    descriptions = described(batchsize, 2, 3, f"{KEYS} tid")
    descriptions["actor"][0]["tid"] = ""
    descriptions["actor"][1]["V"] = ""
    more = {"num_threads": threads, "max_num_threads": 2}
    with played(sample_environments.Searching, descriptions, 4, **more) as games:
        histories = collected(games, think, "optimizer", 20)
    check(histories, 5, False)
    assert not any(history["tid"].any() for history in histories)


class Wrong(sample_environments.Counting):
    """Makes queries that do not exist."""

    def bind_query(self, query: Any) -> None:
        self.query = query

    def step(self, action: Any) -> Any:
        for tid in (0, 3):
            with pytest.raises(
                ValueError, match=r"tid: expected an integer in .1, max_num_threads"
            ):
                self.query(tid, np.zeros(2))
        with pytest.raises(ValueError, match="s: expected float64"):
            self.query(1, np.zeros(3))
        return super().step(action)


def test_wrong_query_is_refused() -> None:
    asked = ({"s": "", "tid": "", "_batchsize": 1}, {"a": ""})
    with played(Wrong, {"actor": asked}, 1, max_num_threads=2) as games:
        games.reg_callback("actor", lambda *_: None)
        for _ in range(10):
            run(games)
    with played(Wrong, {"actor": asked}, 1) as games:
        games.reg_callback("actor", lambda *_: None)
        with pytest.raises(cogrs.collector.GameError, match="has no attribute 'query'"):
            forever(lambda: games.Run(LIMIT))
    with pytest.raises(ValueError, match=r"max_num_threads: expected 0 for games that do not"):
        wrapper({"actor": actor(2)}, max_num_threads=3)
    with pytest.raises(ValueError, match="max_num_threads: expected 0 for games in other proc"):
        played("CartPole-v1", {"actor": asked}, 1, processes=1, max_num_threads=1)


class Leaving(sample_environments.Counting):
    """Asks in `reset`, and fails now and then while a thread of its own has no answer yet."""

    def bind_query(self, query: Any) -> None:
        self.query = query

    def reset(self, **options: Any) -> Any:
        assert self.query(2, np.array([0, 10], float))["a"] == 2
        return super().reset(**options)

    def step(self, action: Any) -> Any:
        def ask() -> None:
            # The one before may have no answer yet, nor the last at the end of the run.
            with contextlib.suppress(RuntimeError):
                self.query(1, np.array([0, 10], float))

        threading.Thread(target=ask, daemon=True).start()
        if self.steps == 3:
            raise ValueError("told to")
        return super().step(action)


@pytest.mark.parametrize("batchsize", [1, 4])
def test_game_that_fails_with_a_query_under_way_goes_on(batchsize: int) -> None:
    descriptions = described(batchsize, 1, 2, KEYS)
    descriptions["actor"][0]["tid"] = ""
    descriptions["actor"][1]["V"] = ""
    more = {"on_error": "restart", "max_restarts": 1000, "restart_backoff": 0}
    with played(Leaving, descriptions, 2, max_num_threads=2, **more) as games:
        histories = collected(games, think, "optimizer", 30)
    for history in histories:
        assert history["seq"][1] == history["seq"][0] + 1 < 4
    assert sum(history["seq"][0] == 0 for history in histories) >= 6


def test_stop_wakes_threads_that_wait_for_a_query() -> None:
    errors: list[Exception] = []

    class Asking(sample_environments.Counting):
        def bind_query(self, query: Any) -> None:
            self.query = query

        def step(self, action: Any) -> Any:
            try:
                self.query(1, np.zeros(2))
            except RuntimeError as error:
                errors.append(error)
                raise
            return super().step(action)

    asked = ({"s": "", "tid": "", "_batchsize": 1}, {"a": ""})
    games = played(Asking, {"actor": asked}, 1, max_num_threads=1)
    games.reg_callback("actor", lambda *_: None)
    run(games)
    held = games.GC.Wait(LIMIT * 1e6)
    assert games.GC.batch(held)[0][0]["tid"].tolist() == [1]
    games.Stop()
    assert "stopped" in str(errors[0])
