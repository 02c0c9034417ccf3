"""Runs that the tests share: they are started once all parts have registered, and ended."""

import contextlib
import os
import signal
import time

from cogrs.cluster import launch
from tests.cluster import programs

LONG = 90.0
"""Seconds after which something that takes a few seconds has failed, on a machine that is busy."""


@contextlib.contextmanager
def running(storage, *, changes=None, **options):
    """A run of a small plan."""
    with launch(programs.plan(storage, **changes or {}), timeout=LONG, **options) as run:
        yield run


def part(run, role, index=0):
    """The status of a part."""
    for each in run.status().parts:
        if (each.role, each.index) == (role, index):
            return each
    raise LookupError(f"there is no {role} {index}")


def kill(run, role, index=0, number=signal.SIGKILL):
    """Send a part a signal; return its generation."""
    found = part(run, role, index)
    os.kill(found.pid, number)
    return found.generation


def eventually(holds, within=LONG):
    """Wait until something holds; for a moment the directory or a part may be away."""
    end = time.monotonic() + within
    while True:
        with contextlib.suppress(TimeoutError, LookupError):
            if found := holds():
                return found
        assert time.monotonic() < end, "it never held"
        time.sleep(0.1)


def goes_on(run):
    """Wait until learner, shards and actors have done more than now, actors in all."""
    before = eventually(run.status)

    def has_gone_on():
        now = run.status()
        return (
            now.rows.drawn > before.rows.drawn + 64
            and now.rows.stored > before.rows.stored
            and now.rows.inserted > before.rows.inserted
        )

    eventually(has_gone_on)


def has_restarted(run, role, index, generation):
    """Return whether a part has registered as a later generation."""
    return part(run, role, index).generation > generation
