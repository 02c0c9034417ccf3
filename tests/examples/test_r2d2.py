"""A T-maze learned from sequences with recurrent states."""

from __future__ import annotations

import importlib.util
import re
import signal

import pytest

from tests.examples.script import example, finish

for extra in ("gymnasium", "jax", "optax", "matplotlib"):
    # Looked up and not imported: their threads and hooks would stay for the tests of other modules.
    if importlib.util.find_spec(extra) is None:
        pytest.skip(f"could not import {extra!r}: no extra 'demo'", allow_module_level=True)


def test_example_remembers_the_cue_of_a_short_corridor():
    with example("r2d2", "--length", "3", "--seed", "1", "--goal", "0.5") as process:
        code, out, err = finish(process)
    assert code == 0, err
    title, *_, progress, end = out.splitlines()
    assert title == "r2d2, a corridor of 3 cells, seed 1"
    # Without memory the mean return of many episodes is 0.
    assert float(progress.split()[-1]) >= 0.5
    assert end.startswith("Goal reached after ")


def test_variants_are_trained_in_turn_and_drawn_in_one_plot(tmp_path):
    curves = tmp_path / "curves.png"
    variants = ["zero-state", "feedforward"]
    options = ["--max-steps", "6000", "--plot", str(curves), "--variants", *variants]
    with example("r2d2", "--length", "3", *options) as process:
        code, out, err = finish(process)
    assert code == 1, err
    assert re.findall(r"^[\w-]+(?=, a corridor)", out, re.MULTILINE) == variants
    assert len(re.findall("^Goal not reached", out, re.MULTILINE)) == 2
    assert curves.read_bytes().startswith(b"\x89PNG")


def test_zero_seconds_end_the_run_at_once():
    with example("r2d2", "--max-seconds", "0") as process:
        code, out, _ = finish(process)
    assert code == 1
    assert out.splitlines()[-1].startswith("Goal not reached")


@pytest.mark.parametrize("option", ["--seed", "--variants"])
def test_wrong_arguments_are_named_and_return_2(option):
    with example("r2d2", option, "-1") as process:
        code, out, err = finish(process)
    assert (code, out) == (2, "")
    assert option in err.splitlines()[-1]


def test_interrupt_ends_the_example_with_code_130():
    with example("r2d2", "--goal", "2") as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("r2d2")
        assert "mean return" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert finish(process)[0] == 130
