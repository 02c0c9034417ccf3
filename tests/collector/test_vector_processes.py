"""Processes of a vector: interrupts, forks and the end of the program."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest

pytest.importorskip("gymnasium")

from tests.collector.build import until
from tests.program import program

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes of POSIX")

HEAD = """
import os, signal, sys
import numpy as np
from cogrs.collector import VectorEnv
"""

INTERRUPTED = (
    HEAD
    + """
def interrupt(*_):
    raise KeyboardInterrupt
envs = VectorEnv("tests.collector.sample_environments:Free", 4, length=7, processes=2)
envs.reset(seed=1)
signal.signal(signal.SIGALRM, interrupt)
interrupted = steps = 0
while interrupted < 150:
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0003 + interrupted * 1e-5, 1)
        while True:
            shown, rewards, terminated, truncated, _ = envs.step(np.zeros(4, int))
            steps += 1
            assert (shown[:, 1] == rewards).all(), (shown, rewards)
            assert (terminated == (shown[:, 1] == 6)).all()
    except KeyboardInterrupt:
        signal.setitimer(signal.ITIMER_REAL, 0)
        interrupted += 1
for _ in range(20):
    shown, rewards, *_ = envs.step(np.zeros(4, int))
    assert (shown[:, 1] == rewards).all()
envs.close()
print("goes on")
"""
)


def test_interrupts_at_any_moment_leave_a_vector_with_processes_that_goes_on() -> None:
    with program(INTERRUPTED) as process:
        out, err = process.communicate(timeout=100)
    assert (out, err) == ("goes on\n", "")


FORKED = (
    HEAD
    + """
envs = VectorEnv("tests.collector.sample_environments:Free", 2, processes=2)
envs.reset(seed=1)
child = os.fork()
if child == 0:
    try:
        envs.step(np.zeros(2, int))
    except RuntimeError as error:
        os.write(1, f"refused: {error}\\n".encode())
    envs.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert envs.step(np.zeros(2, int))[1].tolist() == [1, 1]
envs.close()
print("goes on")
"""
)


def test_processes_are_refused_after_a_fork_and_go_on_in_the_parent() -> None:
    with program(FORKED) as process:
        out, err = process.communicate(timeout=100)
    refused, on = out.splitlines()
    assert refused.startswith("refused: ")
    assert (on, err) == ("goes on", "")


ENDED = (
    HEAD
    + """
envs = VectorEnv("tests.collector.vector_environments:Moody", 3, processes=2)
envs.reset(seed=1)
print(*set(envs.call("pid")), flush=True)
WHAT
"""
)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="it reads /proc")
@pytest.mark.parametrize("what", ["pass", "os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_processes_end_with_a_program_that_does_not_close_its_vector(what: str) -> None:
    with program(ENDED.replace("WHAT", what)) as process:
        out, err = process.communicate(timeout=100)
    pids = [int(each) for each in out.split()]
    assert len(pids) == 2
    until(lambda: not any(map(is_running, pids)))
    assert err == ""


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="it reads /proc")
def test_processes_whose_environment_hangs_end_with_an_interrupted_program() -> None:
    with program(ENDED.replace("WHAT", "envs.step(np.array([0, 4, 0]))")) as process:
        assert process.stdout is not None
        pids = [int(each) for each in process.stdout.readline().split()]
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=100)
    assert "KeyboardInterrupt" in err
    until(lambda: not any(map(is_running, pids)))
