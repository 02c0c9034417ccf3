"""Ctrl-C, forks, and programs that end."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import cogrs
from cogrs.collector import RequestBatcher
from tests.collector.build import actor, wrapper
from tests.program import program

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

START = """
import sys, os, threading, time
import cogrs
co = cogrs.ContextOptions(num_games=2, seed=0)
games = cogrs.GCWrapper(cogrs.GameContext("cartpole", co), co,
                        {"actor": ({"s": "", "_batchsize": 1}, {"a": ""})})
batcher = cogrs.collector.RequestBatcher({"s": ("float32", ())}, {"a": ("int64", ())}, 4)
games.Start()
"""


def start(script: str) -> AbstractContextManager[subprocess.Popen[str]]:
    return program(START + script)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(
    "wait",
    [
        "games.Run()",
        "games.RunGroup('actor', 100)",
        "batcher.run(print)",
        "batcher.ask({'s': 1})",
        "batcher.ask({'s': 1}, 100)",
        "games.reg_sig_int(); print('again', flush=True); games.Run()",
    ],
)
def test_ctrl_c_ends_a_wait(wait: str) -> None:
    # Both games wait for answers, so that Run has to wait too.
    held = "held = games.GC.Wait(), games.GC.Wait()\nprint('waits', flush=True)\n"
    with start(held + wait) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waits\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert process.returncode != 0


INTERRUPTED = """
import signal
def interrupt(*_):
    raise KeyboardInterrupt
inputs, replies = {"s": ("float32", ())}, {"a": ("int64", ())}
asked = cogrs.collector.RequestBatcher(inputs, replies, 2, timeout=5e-05)
def ask():
    while not done:
        asked.ask({"s": 1})
games.reg_callback("actor", lambda *_: None)
done = False
threads = [threading.Thread(target=ask) for _ in range(3)]
for thread in threads:
    thread.start()
signal.signal(signal.SIGALRM, interrupt)
interrupted = 0
while interrupted < 600:
    try:
        # Again after a second: Python drops what is raised in a callback of its own.
        signal.setitimer(signal.ITIMER_REAL, 0.0003 + interrupted * 1e-7, 1)
        while True:
            games.Run(20)
            asked.run(lambda *_: None, 20)
    except KeyboardInterrupt:
        signal.setitimer(signal.ITIMER_REAL, 0)
        interrupted += 1
for _ in range(100):
    games.Run(20)
    assert games.infos.gid == 0, "the games wait for ever"
    assert asked.run(lambda *_: None, 20), "callers wait for ever"
done = True
while any(thread.is_alive() for thread in threads):
    asked.run(lambda *_: None, 0.01)
print("goes on")
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="signals of POSIX")
def test_interrupts_at_any_moment_leave_no_caller_waiting() -> None:
    with start(INTERRUPTED) as process:
        out, err = process.communicate(timeout=100)
    assert (out, err) == ("goes on\n", "")


FORK = """
call = eval("lambda: " + {call!r})
child = os.fork()
if child == 0:
    try:
        call()
    except RuntimeError as error:
        os.write(1, f"refused: {{error}}\\n".encode())
    import gc
    del games, batcher, call
    gc.collect()
    os._exit(0)
_, status = os.waitpid(child, 0)
assert status == 0
games.reg_callback("actor", lambda *_: None)
for _ in range(20):
    games.Run(20)
os.write(1, b"parent goes on\\n")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize(
    "call",
    ["games.Run()", "games.Start()", "batcher.ask({'s': 1})", "batcher.run(print)"],
)
def test_use_after_a_fork_is_refused_and_the_parent_goes_on(call: str) -> None:
    with start(FORK.format(call=call)) as process:
        out, err = process.communicate(timeout=60)
    assert err == ""
    child, parent = out.splitlines()
    assert child.startswith("refused:")
    assert "fork" in child
    assert parent == "parent goes on"
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("script", "code"),
    [("games.Run(0.01)", 0), ("raise SystemExit(3)", 3), ("del games", 0), ("1 / 0", 1)],
)
def test_program_that_does_not_stop_its_games_exits(script: str, code: int) -> None:
    with start("games.reg_callback('actor', lambda *_: None)\n" + script) as process:
        _, err = process.communicate(timeout=20)
    assert process.returncode == code
    assert (err != "") == (code == 1)


def test_batches_beyond_the_available_memory_raise_memory_error() -> None:
    with pytest.raises(MemoryError, match="cannot allocate"):
        wrapper({"actor": actor(1), "optimizer": ({"s": 2**30, "_batchsize": 2**30}, None)})


@pytest.mark.parametrize("cross", [pickle.dumps, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("make", [lambda: wrapper({"a": actor(1)}).GC._core, lambda: core()])
def test_copies_are_refused(cross: Callable[[Any], Any], make: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match=r"cannot pickle .cogrs._core"):
        cross(make())


def core() -> Any:
    return RequestBatcher({"s": ("float32", ())}, {}, 1)._core


LIMITED = """
import resource
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
def wrapped(given, reply, **options):
    co = cogrs.ContextOptions(**{"num_games": 4, "num_threads": 1, **options})
    return cogrs.GCWrapper(cogrs.GameContext("cartpole", co), co, {"one": (given, reply)})
try:
    CALL
except MemoryError as error:
    print("refused:", error)
"""
LARGE = [
    "wrapped({'_batchsize': 1}, {'pi': 2**30})",
    "wrapped({'_batchsize': 1}, {'pi': 2**38})",
    "wrapped({'_batchsize': 1, 's': 2**38}, None)",
    "wrapped({'_batchsize': 1, 'id': '', '_T': 2**28}, None)",
    "wrapped({'_batchsize': 1, 'id': '', '_T': 2**39}, None)",
    "wrapped({'_batchsize': 1, 'id': ''}, {'a': ''}, num_collectors=2**40)",
    "wrapped({'_batchsize': 1, 'id': ''}, {'a': ''}, num_games=2**24)",
    "cogrs.collector.RequestBatcher({'s': ('u1', (2**40,))}, {}, 1)",
    "cogrs.collector.RequestBatcher({'s': ('u1', ())}, {}, 1, num_buffers=2**40)",
    "cogrs.collector.RequestBatcher({'s': ('u1', ())}, {}, 1, num_buffers=2**24)",
    "cogrs.collector.RequestBatcher({'s': ('u1', ())}, {}, 2**50)",
]


@pytest.mark.skipif(sys.platform != "linux", reason="a limit that Linux keeps to")
@pytest.mark.parametrize("call", LARGE)
def test_allocation_beyond_the_limit_raises_and_ends_no_process(call: str) -> None:
    with start(LIMITED.replace("CALL", call)) as process:
        out, err = process.communicate(timeout=60)
    assert (err, process.returncode) == ("", 0)
    assert out.startswith("refused: ")
    assert "bytes" in out


@pytest.mark.parametrize("name", ["api", "collector", "replay"])
def test_subpackage_is_imported_on_first_use(name: str) -> None:
    code = f"import cogrs; assert {name!r} in dir(cogrs); assert cogrs.{name}.__file__"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_unknown_part_of_the_package_is_an_attribute_error() -> None:
    assert not hasattr(cogrs, "nothing")
    for name in ("orchestrator", "sdk", "workers"):
        there = (Path(cogrs.__path__[0]) / name / "__init__.py").exists()
        assert hasattr(cogrs, name) == there == (name in dir(cogrs))


@pytest.mark.parametrize("cross", [pickle.dumps, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("class_name", ["GCWrapper", "CartPoleContext", "RequestBatcher"])
def test_copy_or_pickle_is_refused_by_the_class_s_name(
    cross: Callable[[Any], Any], class_name: str
) -> None:
    games = wrapper({"a": actor(1)})
    made = {
        "GCWrapper": games,
        "CartPoleContext": games.GC,
        "RequestBatcher": RequestBatcher({"s": ("f4", ())}, {}, 1),
    }
    with pytest.raises(TypeError, match=f"{class_name}.*create another"):
        cross(made[class_name])


CHILD = """
child = os.fork()
if child == 0:
    try:
        with WHAT:
            raise KeyError("of the user")
    except KeyError as error:
        os.write(1, f"child: {error}\\n".encode())
    games.Stop()
    batcher.close()
    os._exit(0)
_, status = os.waitpid(child, 0)
assert status == 0
games.reg_callback("actor", lambda *_: None)
for _ in range(20):
    games.Run(20)
os.write(1, b"parent goes on\\n")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("what", ["games", "batcher"])
def test_leaving_in_a_forked_child_hides_no_exception(what: str) -> None:
    with start(CHILD.replace("WHAT", what)) as process:
        out, err = process.communicate(timeout=60)
    assert (out, err) == ("child: 'of the user'\nparent goes on\n", "")
