"""Objects that cannot be used in a forked child, or pickled, and say so."""

import copy
import os
import pickle
import subprocess
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from tests.replay import build, network
from tests.replay.build import memory

# Run in a process of its own: the test runner may have threads, which a fork does not survive.
FORKED = """
import os
import sys

import numpy as np
from cogrs import ReplayMemory

number = np.float32(0)
rem = ReplayMemory(0, 0, number, number, number, number, 0, 8)
writer = rem.writer()
rem.new_episode()
rem.add_entry(1, 1, 1, 1, 1, 1, 1.0)
rem.add_entry(2, 2, 2, 2, 2, 2, 1.0)
rem.close_episode(1.0, False, False)
call = eval("lambda: " + sys.argv[1])

child = os.fork()
if child == 0:
    try:
        call()
    except RuntimeError as error:
        os.write(1, f"refused: {error}\\n".encode())
    os._exit(0)
os.waitpid(child, 0)

batch = rem.get_batch(4)
writer.new_episode()
writer.add_entry(3, 3, 3, 3, 3, 3, 1.0)
writer.close_episode()
os.write(1, f"parent: {batch.prev.s.ravel().tolist()} {rem.num_episode()}\\n".encode())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize(
    "call",
    [
        "rem.get_batch(1)",
        "rem.sample(1)",
        "rem.new_episode()",
        "rem.add_entry(1, 1, 1, 1, 1, 1, 1.0)",
        "rem.episode(0)",
        "rem.num_episode()",
        "rem.weight_sum",
        "rem.writer()",
        "rem.clear()",
        "writer.new_episode()",
    ],
)
def test_use_after_a_fork_is_refused_and_the_parent_goes_on(call: str) -> None:
    script = [sys.executable, "-c", FORKED, call]
    done = subprocess.run(script, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    child, parent = done.stdout.splitlines()
    assert child.startswith("refused:")
    assert "fork" in child
    assert parent == "parent: [1, 1, 1, 1] 2"
    assert done.returncode == 0


@pytest.mark.parametrize("cross", [pickle.dumps, copy.copy, copy.deepcopy])
def test_copies_are_refused_with_the_supported_way_in_the_error(
    cross: Callable[[Any], Any],
) -> None:
    rem = memory()
    with pytest.raises(TypeError, match=r"(?s)ReplayMemory.*save.*load"):
        cross(rem)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_is_refused_in_every_protocol(protocol: int) -> None:
    with pytest.raises(TypeError):
        pickle.dumps(memory(), protocol)


@pytest.mark.parametrize("cross", [pickle.dumps, copy.copy, copy.deepcopy])
def test_copies_of_writers_are_refused(cross: Callable[[Any], Any]) -> None:
    writer = memory().writer()
    with pytest.raises(TypeError, match="ReplayWriter"):
        cross(writer)


def test_weak_references_end_with_the_referenced_object() -> None:
    rem = memory()
    writer = rem.writer()
    to_rem, to_writer = weakref.ref(rem), weakref.ref(writer)
    assert (to_rem(), to_writer()) == (rem, writer)
    del rem, writer
    assert (to_rem(), to_writer()) == (None, None)


def test_samples_can_be_pickled() -> None:
    rem = memory()
    build.add_uniform(rem, 3)
    sample = rem.sample(2)
    again = pickle.loads(pickle.dumps(sample))
    assert again.prev.s.tolist() == sample.prev.s.tolist()
    assert type(again) is type(sample)


STARVED = """
import resource
import numpy as np
import cogrs

f, rows = np.float32(0), 1_000_000
memory = cogrs.ReplayMemory(f, f, f, f, f, f, f, 2 * rows)
columns = [np.zeros(rows, f.dtype)] * 6
memory.add_episode(*columns, 1.0, 1.0, False, False)
memory.new_episode()
memory.add_entries(*columns, 1.0)
ids, ones = memory.episode(0).id, np.ones(rows)
large = [np.zeros(4 * rows, f.dtype)] * 6
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 10_000_000,) * 2)
for call in (
    lambda: memory.get_batch(rows),
    lambda: memory.sample(rows),
    lambda: memory.close_episode(),
    lambda: memory.add_reward(int(ids[5]), 1.0),
    lambda: memory.update_priority(ids, ones),
    lambda: memory.update_priority(range(10 * rows), 1.0),
    lambda: memory.add_entries(*large, 1.0),
    lambda: cogrs.importance_weights(ones, exponent=1, total=1, count=1),
):
    try:
        call()
    except MemoryError:
        print("refused")
memory.get_batch(10)
print("goes on", memory.num_episode())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits and /proc of Linux")
def test_failed_allocation_is_a_memory_error_and_the_memory_keeps_working() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STARVED], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines() == ["refused"] * 8 + ["goes on 1"]


# Lists are converted by Python code; arrays of the right kind are not.
DAEMONS = """
import sys, threading
import numpy as np
from cogrs import ReplayMemory, importance_weights

number = np.float32(0)
rem = ReplayMemory(np.zeros(3), 0, number, number, number, number, 0, 64)
begun = threading.Barrier(5)

def write():
    writer = rem.writer()
    begun.wait()
    while True:
        writer.new_episode()
        for k in range(8):
            eval(sys.argv[1])
        writer.close_episode(1.0, False, False)

for _ in range(4):
    threading.Thread(target=write, daemon=True).start()
begun.wait()
print("main is done", flush=True)
"""


@pytest.mark.parametrize(
    "call",
    [
        "writer.add_entry([1, 2, 3], 1, 1, 1, 1, 1, 1.0)",
        "writer.add_entry(np.zeros(3), 1, 1, 1, 1, 1, 1.0)",
        "importance_weights([1.0, 2.0], exponent=0.5, total=3.0, count=2)",
        "ReplayMemory(np.zeros(3), 0, number, number, number, number, 0, 4)",
    ],
)
def test_daemon_threads_let_the_interpreter_go(call: str) -> None:
    script = [sys.executable, "-c", DAEMONS, call]
    for _ in range(3):
        ended = subprocess.run(script, capture_output=True, text=True, check=False, timeout=60)
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "main is done\n", "")


# Ctrl-C may come in any line of Python, so in those of an import. What binds us to NumPy imports
# some of it at its first use, and panics when that fails.
FIRST_USE = """
import builtins
import numpy as np
from cogrs.replay import ReplayMemory, convert

imports = builtins.__import__

def interrupt(name, *rest):
    if name.startswith("numpy."):
        raise KeyboardInterrupt
    return imports(name, *rest)

number = np.float32(0)
builtins.__import__ = interrupt
rem = ReplayMemory(0, 0, number, number, number, number, 0, 8)
builtins.__import__ = imports
print(rem.max_step)
"""


def test_numpy_is_bound_with_the_module_and_not_at_the_first_use() -> None:
    done = network.run(FIRST_USE)
    assert (done.stdout, done.stderr) == ("8\n", "")
