"""Writers in processes of their own that are killed, and what their store has to hold then.

What is older than a second has to be there. A busy machine may not run a process for a second, so
that is counted in beats of a thread of the writer's process, which sleeps as its store's does.
"""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, NamedTuple

from cogrs.store import open_store
from tests.program import program

if TYPE_CHECKING:
    from pathlib import Path

    from cogrs.store import TrialRecord

WRITES = """
import asyncio, os, sys, threading, time
from cogrs.store.location import Location
from cogrs.store.writer import open_writer
from tests.store.trials import params, sample, DONE

folder, postgres, name = sys.argv[1:]
from pathlib import Path
writer = asyncio.run(open_writer(Location(Path(folder), postgres)))
print("ready", flush=True)

def beat():
    while True:
        time.sleep(0.05)
        os.write(1, b"beat\\n")

threading.Thread(target=beat, daemon=True).start()
number = 0
running = {}
while True:
    # A few trials end soon, one goes on for long.
    trial = f"{name}-{number:05}"
    log = writer.begin(trial, params(), "")
    last = 1_000_000 if number % 5 == 0 else 3
    running[trial] = [log, 0, last]
    number += 1
    for key, each in list(running.items()):
        log, tick, last = each
        log.sample(sample(tick, last=DONE if tick == last else ""))
        os.write(1, f"{key} {tick} {int(tick == last)}\\n".encode())
        each[1] += 1
        if tick == last:
            log.close()
            del running[key]
    if len(running) > 6:
        time.sleep(0.01)
    time.sleep(0.002)
"""


_SECOND = 20
"""Beats of a second."""


class Told(NamedTuple):
    """What a killed writer told of a sample.

    Fields:
        trial, tick, last: Its trial, its tick, and whether it was the last one.
        beats: How many beats followed before the end.
    """

    trial: str
    tick: int
    last: bool
    beats: int


def killed(folder: Path, seconds: float, postgres: str = "", name: str = "t") -> list[Told]:
    """Run a writer, kill it after some time; return what it told."""
    script = f"import sys; sys.argv[1:] = [{str(folder)!r}, {postgres!r}, {name!r}]\n{WRITES}"
    with program(script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(seconds)
        os.kill(process.pid, signal.SIGKILL)
        lines = process.stdout.read().splitlines()[:-1]
    told, beats = [], 0
    for line in reversed(lines):
        if line == "beat":
            beats += 1
        else:
            trial, tick, last = line.split()
            told.append(Told(trial, int(tick), last == "1", beats))
    return told[::-1]


def check(folder: Path, told: list[Told], postgres: str = "") -> dict[str, TrialRecord]:
    """Compare a store with what a killed writer told; return its trials."""
    old = [each for each in told if each.beats >= _SECOND]
    ticks = {each.trial: each.tick for each in old}
    ended = {each.trial for each in old if each.last}
    where, files = (postgres, folder) if postgres else (folder, None)
    with open_store(where, files=files) as store:
        found = {each.trial_id: each for each in store.trials()}
        for trial, tick in ticks.items():
            assert found[trial].ticks >= tick, trial
            assert not (trial in ended and found[trial].partial), trial
        for trial, each in found.items():
            read = list(store.read(trial)[1])
            assert [one.tick for one in read] == list(range(each.ticks + 1))
            assert each.partial == (not read[-1].end_reason) == (each.end_reason == "")
        assert {each.kind for each in store.verify()} <= {"partial"}
        return found
