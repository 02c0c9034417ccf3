"""The example of several processes as its README runs it, some of which are killed."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from subprocess import PIPE

import pytest

for extra in ("gymnasium", "jax", "optax"):
    # Looked up and not imported: their threads and hooks would stay for the tests of other modules.
    if importlib.util.find_spec(extra) is None:
        pytest.skip(f"could not import {extra!r}: no extra 'demo'", allow_module_level=True)

FOLDER = Path(__file__).parents[2] / "examples" / "distributed"
DEADLINE = 100.0
PORTS = 5


@pytest.fixture
def port():
    """The first of five ports in a row that are free, below those that systems give out."""
    for first in range(20_000 + os.getpid() % 1000 * 10, 32_000, PORTS):
        with ExitStack() as sockets:
            try:
                for number in range(first, first + PORTS):
                    sockets.enter_context(socket.socket()).bind(("127.0.0.1", number))
            except OSError:
                continue
        return first
    pytest.fail("no ports are free")


@pytest.fixture
def start(tmp_path, port):
    """Start a program of the example; it is ended with the test at the latest."""
    started = []

    def start(program: str, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(FOLDER / f"{program}.py"), "--port", str(port), *arguments],
            stdout=PIPE,
            stderr=PIPE,
            text=True,
            cwd=tmp_path,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def first_line(process: subprocess.Popen[str], beginning: str) -> None:
    """Wait for a line that begins so."""
    for line in process.stdout:
        if line.startswith(beginning):
            return
    pytest.fail(f"it ended: {process.communicate(timeout=DEADLINE)[1]}")


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=DEADLINE)
    assert "Traceback" not in err
    return process.returncode, out, err


def interrupt(process: subprocess.Popen[str]) -> None:
    """Ctrl-C ends it, and it says nothing about that."""
    process.send_signal(signal.SIGINT)
    code, _, err = finish(process)
    assert (code, err) == (130, "")


def test_example_started_by_its_learner_reaches_the_goal(start):
    learner = start("learner", "--goal", "20")
    first_line(learner, "listening")
    actor = start("actor", "--seed", "1")
    code, out, err = finish(learner)
    assert code == 0, err
    assert float(out.split()[-1]) >= 20
    interrupt(actor)


def test_example_started_by_its_actors_recovers_from_killed_processes(start, tmp_path):
    goes = ("--proxy", "127.0.0.1")
    actors = [start("actor"), start("actor", "--seed", "1")]
    first_line(actors[0], "still waiting")
    proxy = start("proxy")
    first_line(proxy, "passing on")
    learner = start("learner", *goes, "--goal", "1000")
    first_line(learner, "update")
    for process in (learner, proxy, actors[0]):
        process.kill()
        process.wait()
    kept = (tmp_path / "parameters.bin").read_bytes()
    learner = start("learner", *goes, "--goal", "40")
    actors[0] = start("actor")
    proxy = start("proxy")
    first_line(actors[0], "found the learner")
    code, out, err = finish(learner)
    assert code == 0, err
    assert float(out.split()[-1]) >= 40
    assert (tmp_path / "parameters.bin").read_bytes() != kept
    for process in (*actors, proxy):
        interrupt(process)


@pytest.mark.parametrize("program", ["actor", "learner", "proxy"])
def test_interrupt_before_any_peer_connects_ends_the_program(start, program):
    process = start(program)
    expected = {"actor": "still waiting", "learner": "listening", "proxy": "passing on"}
    first_line(process, expected[program])
    interrupt(process)


@pytest.mark.parametrize("program", ["learner", "proxy"])
def test_port_that_is_taken(start, port, program):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port + 2))
        taken.listen()
        code, out, err = finish(start(program))
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert str(port + 2) in err


def test_file_that_holds_no_parameters(start, tmp_path):
    (tmp_path / "parameters.bin").write_bytes(b"something else")
    code, _, err = finish(start("learner"))
    assert code == 2
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("program", ["actor", "learner", "proxy"])
def test_help_is_printed_by_each_program(start, program):
    code, out, err = finish(start(program, "--help"))
    assert (code, err) == (0, "")
    assert "--port" in out
