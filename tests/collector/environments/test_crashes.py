"""Games that fail, hang, or whose process dies."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
import warnings
from typing import Any

import numpy as np
import pytest

import cogrs
from cogrs.collector import GameError
from tests.collector.build import LIMIT, actor, forever, run, running, until
from tests.combinations import pairwise
from tests.program import program

pytest.importorskip("gymnasium")
from tests.collector import sample_environments
from tests.collector.python_games import collected, count_up, described, played

FAILING = "tests.collector.sample_environments:Failing"


@pytest.mark.parametrize("processes", [0, 2])
def test_exception_of_an_environment_is_raised_with_game_and_traceback(processes: int) -> None:
    with played(FAILING, described(4, 4, 2), processes=processes) as games:
        games.reg_callback("actor", count_up)
        games.reg_callback("optimizer", lambda *_: None)
        for _ in range(2):
            with pytest.raises(GameError, match=r"game [0-3]: ZeroDivisionError: told to") as info:
                forever(lambda: games.Run(LIMIT))
            text = "".join(traceback.format_exception(info.value))
            assert 'raise ZeroDivisionError("told to")' in text
            assert 0 <= info.value.game < 4
        if not processes:
            assert isinstance(info.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("processes", [0, 2])
@pytest.mark.parametrize("exits", [False, True])
def test_restart_loses_the_episode_s_tail_and_nothing_else(processes: int, exits: bool) -> None:
    if exits and not processes:
        pytest.skip("it would end this process")
    make = {"at": 4, "every": 3, "length": 6, "exits": exits}
    options = {"on_error": "restart", "max_restarts": 1_000, "restart_backoff": 0.0}
    with played(FAILING, described(3, 2, 3), processes=processes, make=make, **options) as games:
        histories = collected(games, count_up, "optimizer", 40 if exits else 150)
        games.PrintSummary()
        crashes, restarts, dropped = games.GC._core.summary()[0][2:]  # type: ignore[union-attr]
    assert crashes == restarts > 3
    assert dropped == 0
    last: dict[int, Any] = {}
    begun = 0
    for history in histories:
        game = int(history["id"][0])
        seeds, steps = history["s"].T
        before, after = seeds[:-1], seeds[1:]
        # Within a history all is one run: an episode that ends in it has come to its last state.
        follows = np.where(steps[:-1] == 5, 0, steps[:-1] + 1)
        assert (steps[1:] == follows).all()
        assert ((before == after) == (steps[1:] > 0)).all()
        assert (history["last_terminal"][1:] == (steps[1:] == 0)).all()
        assert (history["last_r"] == steps).all()
        if game in last and (history["s"][0] == last[game]).all():
            pass
        else:
            begun += 1
            assert steps[0] == 0, "what follows a failure begins with an episode"
            assert history["last_terminal"][0] == history["last_r"][0] == 0
        last[game] = history["s"][-1]
    assert begun > 4


def test_restarts_are_limited_and_delayed() -> None:
    options = {"on_error": "restart", "max_restarts": 3, "restart_backoff": 0.02}
    start = time.monotonic()
    with played(sample_environments.Failing, described(1, 1, 2), 1, **options) as games:
        games.reg_callback("actor", count_up)
        games.reg_callback("optimizer", lambda *_: None)
        with pytest.raises(GameError, match="game 0: ZeroDivisionError"):
            forever(lambda: games.Run(LIMIT))
        assert games.GC._core.summary()[0][2:] == [4, 3, 0]  # type: ignore[union-attr]
    assert time.monotonic() - start > 0.02 + 0.04 + 0.08


@pytest.mark.parametrize("most", [0, 1, 2, 5])
@pytest.mark.parametrize("processes", [0, 1])
def test_game_that_failed_too_often_names_the_number_of_restarts(processes: int, most: int) -> None:
    options: dict[str, Any] = {"on_error": "restart", "max_restarts": most, "restart_backoff": 0.0}
    limit = f"after {most} restart{'s' if most != 1 else ''} .max_restarts={most}"
    with played(FAILING, described(1, 1, 2), 1, processes=processes, **options) as games:
        games.reg_callback("actor", count_up)
        games.reg_callback("optimizer", lambda *_: None)
        with pytest.raises(GameError, match=f"game 0: ZeroDivisionError: told to, {limit}"):
            forever(lambda: games.Run(LIMIT))
    with running({"actor": actor(1)}, 1, **options) as games:
        games.reg_callback("actor", lambda _batch, _gpu, reply: reply[0]["a"].fill(42))
        with pytest.raises(GameError, match=f"game 0: a: expected.*got 42, {limit}"):
            forever(lambda: games.Run(LIMIT))


def test_game_that_may_not_restart_does_not_mention_restarts() -> None:
    for on_error in ("raise", "drop"):
        with played(sample_environments.Failing, described(1, 1, 2), 1, on_error=on_error) as games:
            games.reg_callback("actor", count_up)
            games.reg_callback("optimizer", lambda *_: None)
            with pytest.raises(GameError, match=r"told to$"):
                forever(lambda: games.Run(LIMIT))


@pytest.mark.parametrize("processes", [0, 2])
def test_games_are_dropped_until_none_is_left(
    processes: int, capsys: pytest.CaptureFixture[str]
) -> None:
    make = {"at": 3, "every": 2}
    options = {"on_error": "drop", "processes": processes}
    seen: set[int] = set()
    listened: list[tuple[int, float]] = []
    with played(FAILING, described(4, 3, 1), make=make, **options) as games:

        def act(batch: Any, _gpu: Any, reply: Any) -> None:
            seen.update(batch[0]["id"].tolist())
            count_up(batch, None, reply)

        def learn(batch: Any, *_: Any) -> None:
            listened.extend(zip(batch[0]["id"].tolist(), batch[0]["s"][:, 0], strict=True))

        games.reg_callback("actor", act)
        games.reg_callback("optimizer", learn)
        with pytest.raises(GameError, match=r"all games were dropped.*game \d: ZeroDivisionError"):
            forever(lambda: games.Run(LIMIT))
        games.PrintSummary()
        states = games.GC._core.summary()[0][0]  # type: ignore[union-attr]
    assert seen == {0, 1, 2, 3}
    assert len(listened) == states, "states before the failure are delivered"
    assert "failures of games: 4, 0 restarted, 4 games dropped" in capsys.readouterr().out


def test_built_in_games_have_the_same_policies(capsys: pytest.CaptureFixture[str]) -> None:
    listener = ({"seq": "", "last_terminal": "", "_batchsize": 1, "_T": 3}, None)
    with running({"actor": actor(2), "o": listener}, 2, on_error="drop") as games:
        firsts: list[Any] = []

        def act(batch: Any, _gpu: Any, reply: Any) -> None:
            reply[0]["a"][:] = np.where(batch[0]["id"] + batch[0]["seq"] == 4, 42, 0)

        games.reg_callback("actor", act)
        games.reg_callback("o", lambda batch, *_: firsts.append(batch[0]["seq"].tolist()))
        with pytest.raises(GameError, match=r"all games.*a: expected 0 \(left\) or 1.*got 42"):
            forever(lambda: games.Run(LIMIT))
        games.PrintSummary()
    assert sorted(firsts) == [[0], [0], [2]]
    out = capsys.readouterr().out
    assert "2 games dropped" in out
    assert "1 states lost to failures" in out
    with running({"actor": actor(1)}, 1, on_error="restart", restart_backoff=0.0) as games:
        seen = []

        def fail(batch: Any, _gpu: Any, reply: Any) -> None:
            seen.append(int(batch[0]["seq"][0]))
            reply[0]["a"][:] = np.where(batch[0]["seq"] == 1, 42, 0)

        games.reg_callback("actor", fail)
        with pytest.raises(GameError, match="game 0: a: expected"):
            forever(lambda: games.Run(LIMIT))
    assert seen == [0, 1] * 4


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        ("shape", r"ValueError: s: expected float64 \(2,\), got float64 \(3,\)"),
        ("text", "s: expected float64"),
        ("dtype", "TypeError: s: cannot convert complex128"),
    ],
)
def test_observation_outside_its_space_is_named(shown: str, words: str) -> None:
    with played(sample_environments.Odd, described(1, 1, 1), 1, make={"shown": shown}) as games:
        games.reg_callback("actor", count_up)
        games.reg_callback("optimizer", lambda *_: None)
        with pytest.raises(GameError, match=words):
            forever(lambda: games.Run(LIMIT))


def test_action_outside_its_space_is_named() -> None:
    with played(sample_environments.Counting, described(1, 1, 1), 1) as games:
        games.reg_callback("actor", lambda _b, _g, reply: reply[0].update(a=5))
        games.reg_callback("optimizer", lambda *_: None)
        with pytest.raises(GameError, match=r"a: expected an integer in \[0, 5\), got 5"):
            forever(lambda: games.Run(LIMIT))


def test_environment_that_exits_is_a_failure() -> None:
    def make() -> Any:
        env = sample_environments.Counting()
        env.step = lambda _action: sys.exit(3)  # type: ignore[method-assign,assignment]
        return env

    with played(make, described(1, 1, 1), 1) as games:
        games.reg_callback("actor", count_up)
        games.reg_callback("optimizer", lambda *_: None)
        with pytest.raises(GameError, match="SystemExit: 3"):
            forever(lambda: games.Run(LIMIT))


def test_environment_that_hangs_is_abandoned_at_the_end() -> None:
    sample_environments.Hanging.released.clear()
    games = played(sample_environments.Hanging, described(2, 2, 1), 2, stop_timeout=0.2)
    games.reg_callback("actor", count_up)
    games.reg_callback("optimizer", lambda *_: None)
    while games.Run(0.2) is not None or games.infos.gid >= 0:
        pass
    with pytest.warns(RuntimeWarning, match=r"the step of game \d \(thread cogrs-environments-0"):
        games.Stop()
    named = [each for each in threading.enumerate() if each.name == "cogrs-environments-0"]
    assert [each.daemon for each in named] == [True]
    sample_environments.Hanging.released.set()
    until(lambda: not named[0].is_alive())
    games.Stop()


def test_process_that_hangs_is_ended() -> None:
    env = "tests.collector.sample_environments:Sleeping"
    games = played(env, described(2, 2, 1), 2, processes=2, stop_timeout=0.2)
    workers = [each._process for each in games.GC._resources.steppers]  # type: ignore[attr-defined]
    games.reg_callback("actor", count_up)
    games.reg_callback("optimizer", lambda *_: None)
    while games.Run(0.3) is not None or games.infos.gid >= 0:
        pass
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        games.Stop()
    assert not any(worker.is_alive() for worker in workers)


@pytest.mark.parametrize("idle", [True, False])
def test_process_that_dies_is_reported(idle: bool) -> None:
    descriptions = described(1, 1, 1)
    with played(
        "tests.collector.sample_environments:Counting", descriptions, 2, processes=2
    ) as games:
        games.reg_callback("actor", count_up)
        games.reg_callback("optimizer", lambda *_: None)
        for _ in range(10):
            run(games)
        held = [games.GC.WaitGroup("actor"), games.GC.WaitGroup("actor")] if idle else []
        games.GC._resources.steppers[1]._process.kill()  # type: ignore[attr-defined]
        with pytest.raises(RuntimeError, match=r"worker process 1 of games 1 to 1.*exit code -9"):
            forever(lambda: games.Run(LIMIT))
        del held


PROGRAM = """
import sys
sys.path.insert(0, ".")
import cogrs
from tests.collector import sample_environments
from cogrs.collector.games.gymnasium import GameContext
co = cogrs.ContextOptions(num_games=2)
context = GameContext("tests.collector.sample_environments:WHICH", processes=PROCESSES)
games = cogrs.GCWrapper(context, co, {"actor": ({"_batchsize": 1}, {"a": ""})})
games.Start()
games.Run(20)
print("runs", flush=True)
"""


@pytest.mark.parametrize(
    ("processes", "which", "last"),
    pairwise([0, 1], ["Sleeping", "Counting"], ["", "1 / 0", "while True: games.Run()"]),
)
def test_program_with_hanging_environments_ends(processes: int, which: str, last: str) -> None:
    script = PROGRAM.replace("WHICH", which).replace("PROCESSES", str(processes)) + last
    with program(script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "runs\n"
        if "Run" in last:
            time.sleep(0.2)
            process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert (process.returncode != 0) == bool(last)
    expected = {"": "", "1 / 0": "ZeroDivisionError"}.get(last, "KeyboardInterrupt")
    assert expected in err
    if "Run" in last and not processes and which == "Sleeping":
        assert "is abandoned" in err


# In a process of its own: what other tests have loaded there may have threads, and warn of forks.
FORK = """
import os
child = os.fork()
if child == 0:
    try:
        games.Run(1)
    except RuntimeError as error:
        os.write(1, f"refused: {error}\\n".encode())
    games.Stop()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
games.reg_callback("actor", lambda *_: None)
for _ in range(10):
    games.Run(20)
    assert games.infos.gid == 0
os.write(1, b"parent goes on\\n")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("processes", [0, 1])
def test_fork_does_not_disturb_the_games_of_the_parent(processes: int) -> None:
    script = PROGRAM.replace("WHICH", "Counting").replace("PROCESSES", str(processes)) + FORK
    with program(script) as process:
        out, _ = process.communicate(timeout=60)
    started, child, parent = out.splitlines()
    assert (started, parent) == ("runs", "parent goes on")
    assert child.startswith("refused: ")
    assert "fork" in child
    assert process.returncode == 0


def test_policies_out_of_range_are_named() -> None:
    for name, value, error in [
        ("on_error", "ignore", ValueError),
        ("max_restarts", -1, ValueError),
        ("max_restarts", "x", TypeError),
        ("restart_backoff", float("nan"), ValueError),
        ("restart_backoff", "soon", TypeError),
    ]:
        co = cogrs.ContextOptions(**{name: value})
        with pytest.raises(error, match=name):
            cogrs.GCWrapper(cogrs.GameContext("cartpole"), co, {"actor": actor(1)})


def test_failing_close_is_logged_and_other_games_close(
    caplog: pytest.LogCaptureFixture,
) -> None:
    closed: list[int] = []

    class Stuck(sample_environments.Counting):
        def close(self) -> None:
            closed.append(self.number)
            raise OSError("stuck")

    with played(lambda: Stuck(), described(3, 3, 2), num_games=3) as games:
        games.reg_callback("actor", count_up)
        games.reg_callback("optimizer", lambda *_: None)
        games.Run(LIMIT)
    until(lambda: len(closed) >= 3)
    until(lambda: caplog.text.count("OSError: stuck") >= 3)
    for game in range(3):
        assert f"close() of the environment of game {game} failed" in caplog.text
