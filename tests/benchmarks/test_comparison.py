"""`scripts/comparison.py` names what got worse by more than its noise, and nothing else."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "scripts/comparison.py"))
compare, main = SCRIPT["compare"], SCRIPT["main"]


def figure(*values: float, unit: str = "x", less: bool = False, **more: Any) -> Any:
    made = {"unit": unit, "less": less, "values": list(values), "machine": "m", "busy": False}
    return {**made, **more}


def state(before: Any, after: Any) -> str:
    (change,) = compare({"f": before}, {"f": after})
    return str(change.state)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (figure(10, 10, 10), figure(9, 9, 9), "worse"),
        (figure(10, 10, 10), figure(9.6, 9.6, 9.6), "same"),  # 5 % are noise
        (figure(10, 10, 10), figure(11, 11, 11), "better"),
        (figure(8, 10, 12), figure(7, 9, 11), "same"),  # spans of 2 each
        (figure(8, 10, 12), figure(4, 5, 6), "worse"),
        (figure(10, 10, 10, less=True), figure(11, 11, 11, less=True), "worse"),
        (figure(-100, -100, -100), figure(-120, -120, -120), "worse"),
        (figure(0, 0, 0), figure(-1, -1, -1), "worse"),
        (figure(10, 10), figure(5, 5, 5), "too few values"),
        (figure(1, 1, 1, unit="s"), figure(9, 9, 9, unit="s", machine="n"), "another machine"),
        (figure(1, 1, 1, unit="s"), figure(9, 9, 9, unit="s", busy=True), "busy machine"),
        (figure(1, 1, 1, unit="s"), figure(9, 9, 9, unit="s", less=True), "another figure"),
        (figure(9, 9, 9, unit="s"), figure(1, 1, 1, unit="s"), "worse"),
        # Ratios count everywhere.
        (figure(9, 9, 9), figure(1, 1, 1, machine="n", busy=True), "worse"),
        (figure(9, 9, 9), figure(1, 1, 1, less=True), "another figure"),
    ],
)
def test_state_of_a_figure(before, after, expected):
    assert state(before, after) == expected


def test_figure_that_is_gone_is_named_and_a_new_one_is_not():
    changes = compare({"old": figure(1, 1, 1)}, {"new": figure(1, 1, 1)})
    assert [(change.name, change.state) for change in changes] == [("old", "gone")]


def write(path: Path, **figures: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"figures": figures}))
    return path


def test_command_names_worse_figures_and_exits_with_1(tmp_path, capsys):
    old = write(tmp_path / "old.json", a=figure(10, 10, 10), b=figure(1, 1, 1))
    new = write(tmp_path / "new.json", a=figure(1, 1, 1), b=figure(1, 1, 1))
    assert main([str(old), str(new)]) == 1
    shown = capsys.readouterr().out
    assert "worse   a: 10 -> 1 x" in shown
    assert "1 same, 1 worse" in shown
    assert main([str(old), str(old)]) == 0


def test_newest_version_of_a_folder_is_taken(tmp_path):
    write(tmp_path / "results" / "0.9.0.json", a=figure(99, 99, 99))
    write(tmp_path / "results" / "0.10.0.json", a=figure(1, 1, 1))
    new = write(tmp_path / "new.json", a=figure(1, 1, 1))
    assert main([str(tmp_path / "results"), str(new)]) == 0


@pytest.mark.parametrize("text", ["", "{}", None])
def test_file_that_cannot_be_compared_exits_with_2(tmp_path, capsys, text):
    old = tmp_path / "old.json"
    if text is not None:
        old.write_text(text)
    assert main([str(old), str(write(tmp_path / "new.json", a=figure(1)))]) == 2
    assert "cannot compare" in capsys.readouterr().err
