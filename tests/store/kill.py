"""Writers in processes of their own that are killed, and what their store has to hold then.

What was told before a write to the journals began that has ended has to be there. How often these
writes come is not judged here: a busy machine may not run a process for a second.
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
import asyncio, os, sys, time
from cogrs.store.location import Location
from cogrs.store.writer import open_writer
from tests.store.trials import params, sample, DONE

folder, postgres, name = sys.argv[1:]
from pathlib import Path
writer = asyncio.run(open_writer(Location(Path(folder), postgres)))
print("ready", flush=True)

def drain(work=writer._drain):
    os.write(1, b"drain\\n")
    work()

def flush(work=writer._flush):
    work()
    os.write(1, b"flushed\\n")

writer._drain, writer._flush = drain, flush
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


class Told(NamedTuple):
    """What a killed writer told of a sample.

    Fields:
        trial, tick, last: Its trial, its tick, and whether it was the last one.
        is_safe: Whether it was written to a journal or a file before the end.
    """

    trial: str
    tick: int
    last: bool
    is_safe: bool


def killed(folder: Path, seconds: float, postgres: str = "", name: str = "t") -> list[Told]:
    """Run a writer, kill it after some time; return what it told."""
    script = f"import sys; sys.argv[1:] = [{str(folder)!r}, {postgres!r}, {name!r}]\n{WRITES}"
    with program(script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(seconds)
        os.kill(process.pid, signal.SIGKILL)
        lines = process.stdout.read().splitlines()[:-1]
    told: list[tuple[str, int, bool]] = []
    drained = safe = 0
    for line in lines:
        if line == "drain":
            drained = len(told)
        elif line == "flushed":
            safe = drained
        else:
            trial, tick, last = line.split()
            told.append((trial, int(tick), last == "1"))
    return [Told(*each, number < safe) for number, each in enumerate(told)]


def check(folder: Path, told: list[Told], postgres: str = "") -> dict[str, TrialRecord]:
    """Compare a store with what a killed writer told; return its trials."""
    old = [each for each in told if each.is_safe]
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
