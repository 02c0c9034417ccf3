"""Writers in processes of their own that are killed, and what their store has to hold then."""

from __future__ import annotations

import os
import signal
import time

from cogrs.store import open_store
from tests.program import program

WRITES = """
import asyncio, sys, time
from cogrs.store.location import Location
from cogrs.store.writer import open_writer
from tests.store.trials import params, sample, DONE

folder, postgres, name = sys.argv[1:]
from pathlib import Path
writer = asyncio.run(open_writer(Location(Path(folder), postgres)))
print("ready", flush=True)
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
        print(f"{time.time()} {key} {tick} {int(tick == last)}", flush=True)
        each[1] += 1
        if tick == last:
            log.close()
            del running[key]
    if len(running) > 6:
        time.sleep(0.01)
    time.sleep(0.002)
"""


def killed(folder, seconds, postgres="", name="t"):
    """Run a writer, kill it after some time; return what it told, and when it was killed."""
    script = f"import sys; sys.argv[1:] = [{str(folder)!r}, {postgres!r}, {name!r}]\n{WRITES}"
    with program(script) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(seconds)
        at = time.time()
        os.kill(process.pid, signal.SIGKILL)
        out = process.stdout.read()
    told = [line.split() for line in out.splitlines()[:-1]]
    return [(float(when), trial, int(tick), last == "1") for when, trial, tick, last in told], at


def check(folder, told, at, postgres=""):
    """Compare a store with what a killed writer told."""
    old = [each for each in told if each[0] < at - 1.0]
    ticks = {trial: tick for _, trial, tick, _ in old}
    ended = {trial for _, trial, _, last in old if last}
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
