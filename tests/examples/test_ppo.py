"""CartPole learned by proximal policy optimization."""

from __future__ import annotations

import importlib.util
import signal

import pytest

from tests.examples.script import example, finish

for package in ("torch", "gymnasium"):
    # Looked up and not imported: their threads and hooks would stay for the tests of other modules.
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"could not import {package!r}", allow_module_level=True)


@pytest.mark.parametrize("env", ["cartpole", "CartPole-v1"])
def test_example_reaches_its_goal(env):
    with example("ppo", "--goal", "30", "--seed", "1", "--env", env) as process:
        code, out, err = finish(process)
    assert code == 0, err
    *_, progress, end = out.splitlines()
    assert end.startswith("Goal reached after ")
    assert float(progress.split()[-1]) >= 30


def test_zero_seconds_end_the_run_at_once():
    with example("ppo", "--max-seconds", "0") as process:
        code, out, _ = finish(process)
    assert code == 1
    assert out.startswith("Goal not reached")


def test_wrong_arguments_are_named_and_return_2():
    with example("ppo", "--seed", "-1") as process:
        code, out, err = finish(process)
    assert (code, out) == (2, "")
    assert "--seed must be >= 0, got -1" in err


def test_interrupt_ends_the_example_with_code_130():
    with example("ppo", "--goal", "1000") as process:
        assert process.stdout is not None
        assert "mean return" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert finish(process)[0] == 130
