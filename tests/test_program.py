"""Tests of Ctrl-C mean the same wherever they are run, and leave no process behind."""

import signal

import pytest

from tests.program import program
from tests.replay import network

WAITS = "import signal\nprint('waits', flush=True)\nsignal.pause()"


@pytest.fixture
def deaf():
    """Ignore SIGINT, as what a shell runs in the background does."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("deaf")
def test_program_gets_sigint_though_its_parent_ignores_sigint():
    with program(WAITS) as process:
        assert process.stdout.readline() == "waits\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert err.rstrip().endswith("KeyboardInterrupt")


@pytest.mark.usefixtures("deaf")
def test_child_of_a_program_gets_sigint_too():
    process = network.launch(WAITS)
    with network.ended([process]):
        network.said(process, "waits")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert err.rstrip().endswith("KeyboardInterrupt")


def test_program_ends_with_its_test():
    with pytest.raises(ZeroDivisionError), program(WAITS) as process:
        _ = 1 / 0
    assert process.returncode == -signal.SIGKILL
