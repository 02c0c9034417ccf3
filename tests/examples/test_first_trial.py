"""The first trial, in one process and in three; the one of the docs is short."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("gymnasium")

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, str(ROOT / "examples" / "first_trial.py")]
LIMIT = 60


def played(*arguments: str) -> str:
    done = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=LIMIT, check=True
    )
    return done.stdout


def test_first_trial_runs_in_one_process():
    assert re.fullmatch(r"played [0-9a-f-]{36}\n", played())


def test_first_trial_runs_in_three_processes():
    parts = [
        subprocess.Popen([*COMMAND, role, "0"], stdout=subprocess.PIPE, text=True)
        for role in ("environment", "agent")
    ]
    try:
        endpoints = [part.stdout.readline().strip() for part in parts]
        assert all(each.startswith("grpc://127.0.0.1:") for each in endpoints)
        assert re.fullmatch(r"played [0-9a-f-]{36}\n", played("trial", *endpoints))
    finally:
        for part in parts:
            part.kill()
            part.communicate()


def test_first_trial_of_the_docs_is_short():
    text = (ROOT / "docs" / "trials.md").read_text(encoding="utf-8")
    first = re.search(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[1]
    assert len([line for line in first.splitlines() if line.strip()]) < 25
