"""Runs of all kinds, started and stopped one after the other. `make soak` takes 1,000."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import cogrs
from cogrs.collector import GameError
from tests.collector.build import LIMIT, actor, until


def slow_step(number: int) -> None:
    if number % 7 == 3:
        time.sleep(0.001)


@given(
    num_games=st.integers(1, 40),
    share=st.integers(1, 40),
    listener=st.integers(1, 20),
    steps=st.integers(1, 5),
    num_threads=st.integers(1, 4),
    answerers=st.integers(1, 3),
    on_error=st.sampled_from(["raise", "restart", "drop"]),
    wrong=st.sampled_from([0, 0, 50, 7]),
    raising=st.sampled_from([0, 0, 5]),
    slow=st.booleans(),
    batches=st.integers(0, 60),
)
def test_run_with_any_mix_of_events_ends(  # noqa: C901
    num_games: int,
    share: int,
    listener: int,
    steps: int,
    num_threads: int,
    answerers: int,
    on_error: str,
    wrong: int,
    raising: int,
    slow: bool,
    batches: int,
) -> None:
    """Wrong actions fail games, callbacks raise and sleep, and any thread stops the run."""
    co = cogrs.ContextOptions(
        num_games=num_games,
        num_threads=num_threads,
        seed=1,
        on_error=on_error,
        max_restarts=3,
        restart_backoff=0.0,
    )
    described = {
        "actor": actor(min(share, num_games)),
        "optimizer": ({"s": "", "seq": "", "_batchsize": listener, "_T": steps}, None),
    }
    games = cogrs.GCWrapper(cogrs.GameContext("cartpole", co), co, described)
    lock = threading.Lock()
    calls, ends = [0], []

    def act(batch: Any, _gpu: Any, reply: Any) -> None:
        with lock:
            calls[0] += 1
            number = calls[0]
        if raising and number % raising == 0:
            raise KeyError("a callback's own")
        if slow:
            slow_step(number)
        reply[0]["a"] = batch[0]["seq"] % 2
        if wrong and number % wrong == 0:
            reply[0]["a"][-1] = 9

    def answer() -> None:
        try:
            while True:
                with contextlib.suppress(KeyError):
                    games.Run(LIMIT)
                    assert games.infos.gid >= 0, "nothing came"
        except GameError:
            ends.append("failed")
        except RuntimeError as error:
            assert "stopped" in str(error)  # noqa: PT017
            ends.append("stopped")

    games.reg_callback("actor", act)
    games.reg_callback("optimizer", lambda *_: None)
    threads = [threading.Thread(target=answer) for _ in range(answerers)]
    before = set(threading.enumerate())
    games.Start()
    for thread in threads:
        thread.start()
    until(lambda: calls[0] >= batches or len(ends) == answerers)
    games.Stop()
    for thread in threads:
        thread.join(LIMIT)
        assert not thread.is_alive()
    assert len(ends) == answerers
    assert wrong or "failed" not in ends
    assert not set(threading.enumerate()) - before
