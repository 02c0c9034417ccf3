"""The table of runs and the record of figures: what is kept, read again and judged."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from benchmarks import record
from benchmarks.learning import table
from benchmarks.learning.proof import Outcome, Proof, at_least, at_most
from benchmarks.learning.rows import Row, Rows, append, finished, read

if TYPE_CHECKING:
    from pathlib import Path


def row(setting: str, seed: int, score: float = 1.0, **more: Any) -> Row:
    made = {"proof": "p", "setting": setting, "seed": seed, "steps": 10, "score": score}
    made |= {"figures": {}, "curve": [], "wall_s": 2.0, "cpu_s": 1.0, "short": False, "error": None}
    return {**made, **more}


PROOF = Proof(
    title="ours reaches 5",
    source="nowhere",
    settings={"ours": lambda run: Outcome(1, 1.0), "theirs": lambda run: Outcome(1, 1.0)},
    seeds=(1, 2),
    judge=lambda rows: [at_least("least", min(rows.scores("ours")), 5)],
)
ALL = [("ours", 1), ("ours", 2), ("theirs", 1), ("theirs", 2)]


def test_appended_rows_are_read_again_unchanged(tmp_path: Path):
    path = tmp_path / "folder" / "table.jsonl"
    rows = [row("ours", 1), row("theirs", 1, curve=[[3, 1.5]])]
    for each in rows:
        append(path, each)
    assert read(path) == rows
    assert read(tmp_path / "missing.jsonl") == []


def test_repeated_run_replaces_the_row_before(tmp_path: Path):
    path = tmp_path / "table.jsonl"
    for score in (1.0, 2.0):
        append(path, row("ours", 1, score))
    assert [each["score"] for each in read(path)] == [2.0]


def test_last_line_that_was_cut_short_is_left_out(tmp_path: Path):
    path = tmp_path / "table.jsonl"
    append(path, row("ours", 1))
    with path.open("a") as file:
        file.write('{"proof": "p", "sett')
    assert len(read(path)) == 1


def test_line_that_is_not_a_row_is_refused_with_its_number(tmp_path: Path):
    path = tmp_path / "table.jsonl"
    append(path, row("ours", 1))
    with path.open("a") as file:
        file.write("[1, 2]\n")
    with pytest.raises(ValueError, match="line 2: expected a row"):
        read(path)


def test_short_tries_and_failed_runs_are_not_finished():
    rows = [row("ours", 1), row("ours", 2, short=True), row("theirs", 1, error="OSError: full")]
    assert finished(rows) == {("p", "ours", 1)}


def test_ratios_compare_runs_with_the_same_seed():
    rows = [row("ours", 2, wall_s=1.0), row("ours", 1, wall_s=6.0), row("theirs", 1, wall_s=3.0)]
    assert Rows(rows).ratios("wall_s", "ours", "theirs") == [2.0]


def test_scores_are_in_the_order_of_seeds():
    rows = Rows([row("ours", 2, 20.0), row("ours", 1, 10.0)])
    assert rows.scores("ours") == [10.0, 20.0]


@pytest.mark.parametrize(
    ("rows", "state"),
    [
        ([row(*key, 5.0) for key in ALL], "passed"),
        ([row(*key, 4.9) for key in ALL], "failed"),
        ([row(*key, 5.0) for key in ALL[1:]], "incomplete"),
        ([*(row(*key, 5.0) for key in ALL[1:]), row("ours", 1, error="OSError: full")], "failed"),
        ([row(*key, 9.0, short=True) for key in ALL], "not run"),
    ],
)
def test_verdict_needs_all_runs_without_errors_and_all_checks(rows, state):
    assert table.verdict("p", PROOF, rows)[0] == state


def test_checks_show_the_bound_and_the_figure():
    assert at_least("rate", 4.0, 5, "x") == ("rate >= 5x", "4x", False)
    assert at_most("time", 1.1, 1.1, "x") == ("time <= 1.1x", "1.1x", True)


def test_markdown_has_a_line_for_each_setting_with_all_seeds():
    lines = table.markdown("p", PROOF, [row("ours", 1, 3.0), row("ours", 2, 500.0)])
    assert len(lines) == 4
    assert "| ours | 1, 2 | 10 | 3, 500 |" in lines[2]
    assert "| theirs | not run |" in lines[3]


def test_one_seed_has_no_spread_and_no_interval():
    line = table.markdown("p", PROOF, [row("ours", 1, 3.0)])[2]
    assert "| ours | 1 | 10 | 3 | 3 | - | 3 | - |" in line


def test_figures_are_kept_beside_figures_of_other_benchmarks(tmp_path: Path):
    record.keep([record.Figure("a/rate", "rows/s", [1.0, 2.0])], tmp_path)
    path = record.keep([record.Figure("b/time", "s", [3.0], less=True)], tmp_path)
    record.keep([record.Figure("a/rate", "rows/s", [4.0])], tmp_path)
    figures = record.read(path)
    assert {name: figures[name]["values"] for name in figures} == {"a/rate": [4.0], "b/time": [3.0]}
    assert figures["b/time"]["less"] is True
    assert figures["a/rate"]["versions"]["cogrs"] == path.stem
    assert json.loads(path.read_text())  # and nothing beside it
    assert list(tmp_path.iterdir()) == [path]


def test_figure_without_values_is_refused_and_the_file_stays(tmp_path: Path):
    path = record.keep([record.Figure("a", "s", [1.0])], tmp_path)
    before = path.read_text()
    with pytest.raises(ValueError, match="figures: b has no values"):
        record.keep([record.Figure("b", "s", [])], tmp_path)
    assert path.read_text() == before
