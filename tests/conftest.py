import gc
import importlib
import logging
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).parent.parent

_COMMON = {
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow],
}
_FAST = {"max_examples": 100, "stateful_step_count": 40, **_COMMON}
settings.register_profile("fast", **_FAST)
# A change is judged by the same examples each time: a rare failure of another part would be laid at
# its door. New examples are found by the other two.
settings.register_profile("ci", derandomize=True, **_FAST)
settings.register_profile("soak", max_examples=1_000, stateful_step_count=100, **_COMMON)

settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

# Shells have background processes ignore SIGINT, and children inherit that; tests that raise the
# signal in this process expect KeyboardInterrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# What is imported and collected stays, so nothing is to be found before it is frozen.
gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session):
    """Import a share of the test modules in each worker before it imports all of them.

    In a fresh clone modules are compiled first, with their assertions rewritten. Workers that
    collect in the same order compile each of them at the same time, which takes a core for a
    minute.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is None:
        return
    places = [Path(argument.partition("::")[0]) for argument in session.config.args]
    files = sorted({file for place in places for file in place.rglob("test_*.py")})
    for file in files[int(worker["workerid"][2:]) :: worker["workercount"]]:
        # The collection reports a module that is skipped, or cannot be imported.
        with suppress(Exception, pytest.skip.Exception):
            name = ".".join(file.absolute().relative_to(ROOT).with_suffix("").parts)
            importlib.import_module(name)


def pytest_collection_modifyitems(items):
    """Put tests of many processes first: at the end a worker would run them alone."""
    first = ("tests/demo/", "tests/cluster/", "tests/examples/")
    items.sort(key=lambda item: not item.nodeid.startswith(first))


def pytest_collection_finish():
    """Keep imported modules and collected tests out of garbage collections.

    With PyTorch and JAX imported, one took a third of a second, and hundreds of tests make one.
    """
    gc.enable()
    gc.collect()
    gc.freeze()


# Not a fixture: setting one up for each of 11,000 tests takes seconds.
@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol():
    """Leave the log of this process as it was: a command that is called here sets it up."""
    root = logging.getLogger()
    level, handlers = root.level, root.handlers[:]
    try:
        return (yield)
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers
