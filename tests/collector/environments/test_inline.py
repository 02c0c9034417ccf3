"""Environments that are moved by the thread that waits for their batch."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gymnasium")
from tests.collector import sample_environments
from tests.collector.build import LIMIT, forever, until
from tests.collector.python_games import collected, count_up, described, played
from tests.program import program


class Watched(sample_environments.Counting):
    """Notes the threads that move it, and calls a function in each step."""

    movers: set[int]
    each_step: Any

    def __init__(self, movers: set[int], each_step: Any = None) -> None:
        super().__init__()
        self.movers = movers
        self.each_step = each_step

    def step(self, action: Any) -> Any:
        self.movers.add(threading.get_ident())
        result = super().step(action)
        if self.each_step is not None:
            self.each_step(self)
        return result


def watched(
    descriptions: dict[str, Any], each_step: Any = None, num_games: int = 4, **options: Any
) -> tuple[Any, set[int]]:
    movers: set[int] = set()
    games = played(lambda: Watched(movers, each_step), descriptions, num_games, **options)
    games.reg_callback("actor", count_up)
    games.reg_callback("optimizer", lambda *_: None)
    return games, movers


@pytest.mark.parametrize(
    ("batchsize", "timeout", "options", "here"),
    [
        (4, None, {}, True),
        (4, None, {"num_threads": 1}, False),
        (4, LIMIT, {}, False),
        (2, None, {}, False),
    ],
)
def test_thread_that_waits_moves_games_that_all_wait_for_one_batch(
    batchsize: int, timeout: float | None, options: Any, here: bool
) -> None:
    games, movers = watched(described(batchsize, 4, 2), **options)
    with games:
        for _ in range(100):
            games.Run(timeout)
        # Moves of the env worker's own thread in the beginning.
        movers.clear()
        for _ in range(100):
            games.Run(timeout)
    assert movers
    assert (threading.get_ident() in movers) == here
    assert not here or len(movers) == 1


def test_slow_environments_stay_with_the_thread_that_waits() -> None:
    games, movers = watched(described(2, 2, 1), lambda _: time.sleep(0.003), 2)
    with games:
        for _ in range(24):
            games.Run()
    assert movers == {threading.get_ident()}


def test_threads_that_wait_take_turns() -> None:
    """Each is woken for the moves that another has left."""
    games, _ = watched(described(3, 2, 3), num_games=3)
    seen = {"actor": 0, "optimizer": 0}

    def serve(name: str) -> None:
        with contextlib.suppress(RuntimeError):
            while True:
                games.RunGroup(name)
                seen[name] += 1

    threads = [threading.Thread(target=serve, args=(name,)) for name in (*seen, *seen)]
    with games:
        for thread in threads:
            thread.start()
        until(lambda: min(seen.values()) > 200)
    for thread in threads:
        thread.join(LIMIT)
        assert not thread.is_alive()


def test_interrupt_breaks_off_one_move_and_leaves_other_games() -> None:
    randomness = np.random.default_rng(0)
    broken = []

    def interrupt(env: Watched) -> None:
        if env.steps == 2 and randomness.random() < 0.1:
            broken.append(env.seed)
            signal.raise_signal(signal.SIGINT)

    games, _ = watched(described(4, 4, 3), interrupt)
    histories: list[dict[str, Any]] = []
    interrupts = 0
    with games:
        while len(histories) < 400:
            try:
                histories += collected(games, count_up, "optimizer", 4, forever=True)
            except KeyboardInterrupt:
                interrupts += 1
        crashes, _, dropped = games.GC._core.summary()[0][2:]
    assert interrupts > 5
    assert (crashes, dropped) == (0, 0)
    last: dict[int, Any] = {}
    fresh = 0
    for history in histories:
        game, (seeds, steps) = int(history["id"][0]), history["s"].T
        assert (steps[1:] == np.where(steps[:-1] == 4, 0, steps[:-1] + 1)).all()
        assert ((seeds[1:] == seeds[:-1]) == (steps[1:] > 0)).all()
        assert (history["a"] == steps % 5).all()
        if game not in last or (history["s"][0] != last[game]).any():
            fresh += 1
            assert steps[0] == 0
        last[game] = history["s"][-1]
    assert fresh <= 4 + len(broken)


def test_stop_during_a_step_ends_the_run_after_that_step() -> None:
    inside, released = threading.Event(), threading.Event()
    here = threading.get_ident()

    def hang(env: Watched) -> None:
        if env.number >= first + 1 and threading.get_ident() == here and not released.is_set():
            inside.set()
            assert released.wait(LIMIT)

    first = next(sample_environments.MADE)
    games, movers = watched(described(2, 2, 1), hang, 2, stop_timeout=0.2)
    counts: list[Any] = []

    def stop() -> None:
        assert inside.wait(LIMIT)
        with pytest.warns(RuntimeWarning, match=r"the step of game \d \(thread MainThread\)"):
            games.Stop()
        counts.append(len(movers))
        released.set()

    stopper = threading.Thread(target=stop)
    stopper.start()
    with pytest.raises(RuntimeError, match="stopped"):
        forever(games.Run)
    stopper.join(LIMIT)
    assert counts, "Stop came back while the step had not"
    names = [each for each in threading.enumerate() if each.name == "cogrs-environments-0"]
    until(lambda: not any(each.is_alive() for each in names))


def test_stop_from_inside_a_move_ends_the_run() -> None:
    here = threading.get_ident()

    def stop(_env: Watched) -> None:
        if threading.get_ident() == here:
            games.Stop()

    games, _ = watched(described(2, 2, 1), stop, 2)
    with pytest.raises(RuntimeError, match="stopped"):
        forever(games.Run)


def test_run_inside_a_move_is_refused() -> None:
    here = threading.get_ident()

    def wait(_env: Watched) -> None:
        if threading.get_ident() == here:
            games.Run()

    games, _ = watched(described(2, 2, 1), wait, 2)
    with games, pytest.raises(RuntimeError, match="during its own move"):
        forever(games.Run)


INTERRUPTED = """
import signal
from collections import defaultdict
import cogrs
from tests.collector.sample_environments import Counting
def interrupt(*_):
    raise KeyboardInterrupt
co = cogrs.ContextOptions(num_games=8, seed=1)
shown = {"s": "", "seq": "", "id": "", "last_terminal": ""}
games = cogrs.GCWrapper(cogrs.GameContext("gymnasium", co, Counting), co, {
    "actor": ({**shown, "_batchsize": 8}, {"a": ""}),
    "all": ({**shown, "last_r": "", "_batchsize": 1}, None)})
kept = defaultdict(list)
here = []
def keep(batch, _gpu, _reply):
    row = batch[0]
    game, seq, paid = (int(row[key][0]) for key in ("id", "seq", "last_r"))
    here[:] = [(game, seq, *map(int, row["s"][0]), paid)]
games.reg_callback("actor", lambda *_: None)
games.reg_callback("all", keep)
games.Start()
signal.signal(signal.SIGALRM, interrupt)
interrupted = rows = 0
def step():
    global rows
    games.Run()
    if here:
        (game, seq, seed, steps, paid), = here
        here.clear()
        assert seq == steps == paid, (seq, steps, paid)
        kept[game].append((seed, steps))
        rows += 1
while interrupted < 500:
    try:
        # Again after a second: Python drops what is raised in a callback of its own.
        signal.setitimer(signal.ITIMER_REAL, 0.0004 + interrupted * 1e-6, 1)
        while True:
            step()
    except KeyboardInterrupt:
        signal.setitimer(signal.ITIMER_REAL, 0)
        interrupted += 1
end = rows + 400
while rows < end:
    step()
games.Stop()
assert len(kept) == 8
for game, states in kept.items():
    for (seed, steps), (next_seed, next_steps) in zip(states, states[1:]):
        # A state may be missing here where the interrupt came into keep() or after it.
        if next_seed == seed:
            assert next_steps > steps, (game, steps, next_steps)
print("goes on")
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="signals of POSIX")
def test_interrupts_at_any_moment_step_no_game_twice() -> None:
    with program(INTERRUPTED) as process:
        out, err = process.communicate(timeout=100)
    assert (out, err) == ("goes on\n", "")
