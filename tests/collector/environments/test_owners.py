"""Which thread makes, moves and closes the environments of games, and in which order."""

from __future__ import annotations

import contextlib
import itertools
import signal
import threading
import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("gymnasium")
import cogrs
from cogrs.collector import ContextOptions, GameError
from cogrs.collector.games.gymnasium import GameContext
from tests.collector import sample_environments
from tests.collector.build import LIMIT, forever, until
from tests.collector.python_games import count_up, described
from tests.collector.sample_environments import stored

if TYPE_CHECKING:
    from pathlib import Path


def started(
    env: Any,
    batchsize: int,
    num_games: int,
    *,
    early: bool,
    stop_timeout: float = LIMIT,
    **options: Any,
) -> cogrs.GCWrapper:
    """Start games; `early` gives the game context its options at once."""
    co = ContextOptions(num_games=num_games, seed=1, **options)
    given = (co, env) if early else (env,)
    context = GameContext(*given, stop_timeout=stop_timeout)
    games = cogrs.GCWrapper(context, co, described(batchsize, 3, 2))
    games.reg_callback("actor", count_up)
    games.reg_callback("optimizer", lambda *_: None)
    games.Start()
    return games


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("num_threads", [0, 1, 3])
@pytest.mark.parametrize("batchsize", [2, 5])
@pytest.mark.parametrize("timeouts", [[None], [LIMIT], [None, LIMIT, 0.001], [LIMIT, None, 0.001]])
def test_all_calls_of_an_environment_come_from_one_thread(
    timeouts: list[float | None], batchsize: int, num_threads: int, early: bool
) -> None:
    env = stored()
    with started(env, batchsize, 5, early=early, num_threads=num_threads) as games:
        runs = itertools.cycle(timeouts)
        for timeout in itertools.islice(runs, 120):
            games.Run(timeout)
        # Threads that got no processor yet have moved nothing.
        end = time.monotonic() + LIMIT
        while sum(each.calls > 1 for each in env.made) < 5:
            assert time.monotonic() < end
            games.Run(next(runs))
    until(lambda: all(each.closed for each in env.made))
    assert [len(each.threads) for each in env.made] == [1] * len(env.made)
    used = [each for each in env.made if each.calls > 1]
    assert len(used) == 5
    # An environment made too early, for another thread than moves it, was closed at once.
    assert len(env.made) <= 6
    assert len(env.made) == 5 or num_threads == 0
    here = num_threads == 0 and batchsize == 5 and timeouts[0] is None
    owners = {thread for each in used for thread in each.threads}
    assert (owners == {threading.get_ident()}) == here
    assert len(owners) == max(num_threads, 1)


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("num_threads", [1, 2, 3, 6])
def test_environments_are_created_in_order_of_index(num_threads: int, early: bool) -> None:
    env = stored()

    class Numbered(env):  # type: ignore[misc,valid-type]
        def shown(self) -> Any:
            return np.array([self.order, self.steps], float)

    seen: dict[int, int] = {}

    def act(batch: Any, _gpu: Any, reply: Any) -> None:
        seen.update(zip(batch[0]["id"].tolist(), batch[0]["s"][:, 0].tolist(), strict=True))
        count_up(batch, None, reply)

    with started(Numbered, 3, 6, early=early, num_threads=num_threads) as games:
        games.reg_callback("actor", act)
        while len(seen) < 6:
            games.Run(LIMIT)
    assert seen == {game: game for game in range(6)}


def test_waiting_thread_creates_environments_in_order_of_index() -> None:
    env = stored()
    with started(env, 6, 6, early=True) as games:
        for _ in range(20):
            games.Run()
        stepper = games.GC._env_workers[0]._stepper  # type: ignore[attr-defined]
        assert [stepper._envs[game].order for game in range(6)] == list(range(6))


@pytest.mark.parametrize("processes", [1, 3])
def test_worker_processes_create_environments_in_order_of_index(
    processes: int, tmp_path: Path
) -> None:
    co = ContextOptions(num_games=5, seed=1)
    where = "tests.collector.sample_environments:Logged"
    context = GameContext(co, where, processes=processes, log=str(tmp_path / "made"))
    seen: dict[int, int] = {}

    def act(batch: Any, _gpu: Any, reply: Any) -> None:
        seen.update(zip(batch[0]["id"].tolist(), batch[0]["s"][:, 0].tolist(), strict=True))
        count_up(batch, None, reply)

    with cogrs.GCWrapper(context, co, described(2, 3, 2)) as games:
        games.reg_callback("actor", act)
        games.reg_callback("optimizer", lambda *_: None)
        games.Start()
        while len(seen) < 5:
            games.Run(LIMIT)
    assert seen == {game: game for game in range(5)}


@pytest.mark.parametrize("early", [True, False])
def test_environments_may_set_signal_handlers_in_the_main_thread(early: bool) -> None:
    class Alarmed(sample_environments.Counting):
        def __init__(self) -> None:
            super().__init__()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

        def step(self, action: Any) -> Any:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            return super().step(action)

        def close(self) -> None:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    with started(Alarmed, 4, 4, early=early) as games:
        for _ in range(30):
            games.Run()
    with (
        started(Alarmed, 4, 4, early=early) as games,
        pytest.raises(GameError, match="main thread"),
    ):
        forever(lambda: games.Run(LIMIT))


@pytest.mark.parametrize("processes", [0, 2])
@pytest.mark.parametrize("on_error", ["raise", "restart"])
def test_environments_that_fail_in_their_constructor_fail_their_games(
    on_error: str, processes: int, tmp_path: Path
) -> None:
    co = ContextOptions(
        num_games=4, num_threads=2, seed=1, on_error=on_error, max_restarts=2, restart_backoff=0.0
    )
    where = "tests.collector.sample_environments:Rare"
    context = GameContext(co, where, processes=processes, log=str(tmp_path / "made"))
    with cogrs.GCWrapper(context, co, described(2, 3, 2)) as games:
        games.reg_callback("actor", count_up)
        games.reg_callback("optimizer", lambda *_: None)
        games.Start()
        if on_error == "raise":
            with pytest.raises(GameError, match="game 2: OSError: the third"):
                forever(lambda: games.Run(LIMIT))
            return
        seen: set[int] = set()

        def act(batch: Any, _gpu: Any, reply: Any) -> None:
            seen.update(batch[0]["id"].tolist())
            count_up(batch, None, reply)

        games.reg_callback("actor", act)
        while len(seen) < 4:
            games.Run(LIMIT)
        crashes, restarts, _ = games.GC._core.summary()[0][2:]  # type: ignore[union-attr]
    assert (crashes, restarts) == (1, 1)


def test_environment_that_hangs_in_its_constructor_is_named() -> None:
    hangs, released = threading.Event(), threading.Event()
    made: list[Any] = []

    def make() -> Any:
        if len(made) == 2:
            hangs.set()
            released.wait(10 * LIMIT)
        made.append(sample_environments.Counting())
        return made[-1]

    games = started(make, 2, 4, early=True, num_threads=2, stop_timeout=0.2)
    assert hangs.wait(LIMIT)
    with pytest.warns(
        RuntimeWarning, match=r"abandoned: the creation of game 2 \(thread cogrs-env"
    ):
        games.Stop()
    released.set()


def test_stop_by_another_thread_leaves_closing_to_the_owner() -> None:
    env = stored()
    games = started(env, 3, 3, early=True)
    for _ in range(10):
        games.Run()
    stopper = threading.Thread(target=games.Stop)
    stopper.start()
    stopper.join(LIMIT)
    assert not any(each.closed for each in env.made)
    with pytest.raises(RuntimeError, match="stopped"):
        games.Run()
    assert [each.closed for each in env.made] == [True] * 3
    assert [len(each.threads) for each in env.made] == [1] * 3


def test_stop_by_the_owner_closes_environments_that_another_stopped() -> None:
    env = stored()
    games = started(env, 3, 3, early=True)
    for _ in range(10):
        games.Run()
    stopper = threading.Thread(target=games.Stop)
    stopper.start()
    stopper.join(LIMIT)
    games.Stop()
    assert [each.closed for each in env.made] == [True] * 3
    assert [len(each.threads) for each in env.made] == [1] * 3


def test_stop_while_the_owner_waits_closes_environments_there() -> None:
    env = stored()
    games = started(env, 3, 3, early=True)
    runs: list[int] = []

    def run() -> None:
        with contextlib.suppress(RuntimeError):
            while True:
                games.Run()
                runs.append(1)

    runner = threading.Thread(target=run)
    runner.start()
    until(lambda: len(runs) > 20)
    games.Stop()
    runner.join(LIMIT)
    # The first was made here, and so not for the thread that moved the games.
    assert all(each.closed for each in env.made)
    assert [len(each.threads) for each in env.made] == [1] * 4


def test_games_of_an_ended_thread_raise() -> None:
    env = stored()
    games = started(env, 3, 3, early=True)
    runner = threading.Thread(target=games.Run, name="first")
    runner.start()
    runner.join(LIMIT)
    with pytest.raises(RuntimeError, match=r"thread first.*has ended; num_threads=1"):
        forever(games.Run)
    games.Stop()


def serve(games: cogrs.GCWrapper) -> None:
    with contextlib.suppress(RuntimeError):
        forever(games.Run)


def test_games_of_an_absent_thread_warn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cogrs.collector.environments.inline._SLICE", 0.01)
    games = started(sample_environments.Counting, 3, 3, early=True)
    games.Run()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        runner = threading.Thread(target=serve, args=(games,))
        runner.start()
        until(lambda: bool(caught))
        # The other goes on as soon as this one is back.
        for _ in range(20):
            games.Run()
        games.Stop()
        runner.join(LIMIT)
    assert len(caught) == 1
    assert "belong to thread MainThread" in str(caught[0].message)
    assert "num_threads=1" in str(caught[0].message)


def test_timeout_of_a_wait_holds_while_another_thread_steps_the_games() -> None:
    games = started(sample_environments.Counting, 3, 3, early=True)
    games.Run()
    found: list[Any] = []
    runner = threading.Thread(target=lambda: found.append((games.Run(0.05), games.infos.gid)))
    held = games.GC.Wait()
    runner.start()
    runner.join(LIMIT)
    assert not runner.is_alive()
    assert found
    del held
    games.Stop()


def test_context_that_never_started_closes_its_environment() -> None:
    for early in (True, False):
        env = stored()
        context = GameContext(ContextOptions(), env) if early else GameContext(env)
        context.Stop()
        until(lambda env=env: env.made[0].closed)  # type: ignore[misc]
        assert len(env.made[0].threads) == 1


def test_no_thread_is_left_after_stop() -> None:
    def there() -> int:
        return sum(each.name.startswith("cogrs-environments") for each in threading.enumerate())

    until(lambda: there() == 0)
    for num_threads in (0, 3):
        for early in (True, False):
            with started(stored(), 4, 4, early=early, num_threads=num_threads) as games:
                for _ in range(10):
                    games.Run()
            until(lambda: there() == 0)
