"""The example as a newcomer runs it: a process of its own, its output and its exit code."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest

EXTRAS = ("gymnasium", "jax", "optax", "matplotlib", "rich")
for extra in EXTRAS:
    # Looked up and not imported: their threads and hooks would stay for the tests of other modules.
    if importlib.util.find_spec(extra) is None:
        pytest.skip(f"could not import {extra!r}: no extra 'demo'", allow_module_level=True)

SCRIPT = Path(__file__).parents[2] / "examples" / "replay_local.py"
DEADLINE = 100.0


@pytest.fixture
def start(tmp_path):
    """Start the example; it is ended with the test at the latest."""
    started = []

    def start(*arguments: str, stdout: int = PIPE, **environment: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), "--out", str(tmp_path), *arguments],
            stdout=stdout,
            stderr=PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=DEADLINE)
    assert "Traceback" not in err
    return process.returncode, out, err


def read_metrics(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_example_reaches_its_goal(start, tmp_path):
    code, out, err = finish(start("--goal", "15", "--seed", "1"))
    assert code == 0, err
    assert "Goal reached" in out
    rows = read_metrics(tmp_path)
    assert [row["episode"] for row in rows] == list(range(1, len(rows) + 1))
    last = rows[-1]
    assert last["mean"] == pytest.approx(sum(row["return"] for row in rows[-20:]) / 20)
    assert last["mean"] >= 15
    assert last["loss"] > 0
    # Every episode stores one entry more than it has steps: its final state.
    assert last["replay"] == last["steps"] + last["episode"]
    assert (tmp_path / "learning_curve.png").read_bytes().startswith(b"\x89PNG")


def test_zero_seconds_end_the_run_at_once(start, tmp_path):
    code, out, _ = finish(start("--max-seconds", "0"))
    assert code == 1
    assert "Goal not reached" in out
    assert read_metrics(tmp_path) == []


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        pytest.param(["--env", "Nowhere-v0"], "Nowhere", id="unknown"),
        pytest.param(["--env", "Pendulum-v1"], "discrete actions", id="continuous actions"),
        pytest.param(["--env", "FrozenLake-v1"], "flat Box", id="discrete observation"),
        pytest.param(["--seed", "-1"], "-1", id="seed below 0"),
        pytest.param(["--out", str(SCRIPT)], "exists", id="out is a file"),
    ],
)
def test_wrong_arguments_are_named_and_return_2(start, arguments, reason):
    code, out, err = finish(start(*arguments))
    assert code == 2
    assert out == ""
    assert reason in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("extra", [EXTRAS[0], EXTRAS[-1]])
def test_missing_extra_is_named_with_the_install_command(start, tmp_path, extra):
    (tmp_path / f"{extra}.py").write_text(
        f"raise ModuleNotFoundError('gone', name={extra!r})\n", encoding="utf-8"
    )
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    code, _, err = finish(start(PYTHONPATH=path))
    assert code == 2
    assert err == f'{extra} is not installed: pip install ".[demo]" in the checkout\n'


def test_interrupt_ends_the_example_with_code_130(start, tmp_path):
    process = start("--goal", "1000")
    # The first line of progress says that it is past the start.
    assert process.stdout.readline().startswith("episode")
    process.send_signal(signal.SIGINT)
    code, out, _ = finish(process)
    assert code == 130
    assert "Goal not reached" in out
    assert read_metrics(tmp_path)
    assert (tmp_path / "learning_curve.png").exists()


def test_progress_is_drawn_on_a_terminal(start):
    ours, theirs = os.openpty()
    process = start("--goal", "15", "--seed", "1", stdout=theirs, TERM="xterm")
    os.close(theirs)
    drawn = b""
    # Linux answers with an error, not with an end of file, when the other side is closed.
    with contextlib.suppress(OSError):
        while piece := os.read(ours, 4096):
            drawn += piece
    os.close(ours)
    assert finish(process)[0] == 0
    assert b"\x1b[2K" in drawn, "no line was drawn over another"
    assert b"Goal reached" in drawn
