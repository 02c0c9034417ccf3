"""Runs of proofs: what is resumed, what a failure leaves, and short tries of cheap settings."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from benchmarks.learning import __main__ as command
from benchmarks.learning import catalogue, rows
from benchmarks.learning.process import perform
from benchmarks.learning.proof import Outcome, Proof, at_least
from benchmarks.learning.run import POINTS, Run

needs_torch = pytest.mark.skipif(
    find_spec("stable_baselines3") is None, reason="Stable-Baselines3 is not installed"
)


def fails(run: Run) -> Outcome:
    raise OSError("no space left")


def learns(run: Run) -> Outcome:
    steps = run.budget(1_000)
    for step in range(0, steps, 10):
        run.episode(step + 10, step)
    return Outcome(steps, run.score(), {"rate": 3.0})


PROOF = Proof(
    title="a proof",
    source="nowhere",
    settings={"good": learns, "other": learns},
    seeds=(1, 2),
    judge=lambda rows: [at_least("score", min(rows.scores("good")), 0)],
)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """Runs that were made: in this process, of one proof, and nothing else is written."""
    keys: list[Any] = []

    def make_run(key: Any, args: Any) -> None:
        keys.append(key)
        rows.append(args.table, perform(*key, args.limit))

    monkeypatch.setattr(catalogue, "load", lambda name: PROOF)
    monkeypatch.setattr(command, "make_run", make_run)
    monkeypatch.setattr(command, "keep_figures", lambda *_: None)
    return keys


def run(tmp_path: Path, *options: str) -> int:
    return command.main(["--only", "ppo", "--table", str(tmp_path / "table.jsonl"), *options])


def test_settings_take_turns_seed_by_seed(made, tmp_path):
    assert run(tmp_path) == 0
    assert made == [("ppo", name, seed) for seed in (1, 2) for name in ("good", "other")]


def test_finished_runs_are_not_made_again(made, tmp_path, capsys):
    run(tmp_path, "--seeds", "2")
    assert run(tmp_path) == 0
    assert made == [("ppo", name, seed) for seed in (2, 1) for name in ("good", "other")]
    assert run(tmp_path) == 0
    assert len(made) == 4
    assert "4 runs, 4 of them finished" in capsys.readouterr().out


def test_interrupted_command_goes_on_with_the_missing_runs(made, tmp_path, monkeypatch, capsys):
    whole = command.make_run

    def interrupted(key: Any, args: Any) -> None:
        if len(made) == 2:
            raise KeyboardInterrupt
        whole(key, args)

    monkeypatch.setattr(command, "make_run", interrupted)
    assert run(tmp_path) == 130
    assert "goes on with the runs that are missing" in capsys.readouterr().out
    monkeypatch.setattr(command, "make_run", whole)
    assert run(tmp_path) == 0
    assert len(made) == len(set(made)) == 4


def test_failed_run_is_shown_and_made_again(made, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(PROOF.settings, "good", fails)  # type: ignore[arg-type]
    assert run(tmp_path, "--seeds", "1") == 1
    shown = capsys.readouterr().out
    assert "seed 1 of good: OSError: no space left" in shown
    assert "ppo: FAILED" in shown
    monkeypatch.undo()
    assert rows.finished(rows.read(tmp_path / "table.jsonl")) == {("ppo", "other", 1)}


def test_short_try_proves_nothing(made, tmp_path, capsys):
    assert run(tmp_path, "--limit", "20") == 1
    assert "ppo: NOT RUN" in capsys.readouterr().out


def test_report_makes_no_runs(made, tmp_path, capsys):
    assert run(tmp_path, "--report") == 1
    assert made == []
    assert "| good | not run |" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "1,", "a", "-1"])
def test_seeds_that_are_not_numbers_are_refused(text, capsys):
    with pytest.raises(SystemExit) as ended:
        command.main(["--seeds", text])
    assert ended.value.code == 2
    assert "--seeds: expected integers >= 0" in capsys.readouterr().err


def test_proof_whose_package_is_missing_is_left_out(monkeypatch, capsys):
    lacking = Proof(PROOF.title, "", PROOF.settings, (1,), PROOF.judge, needs=("no_such_package",))
    monkeypatch.setattr(catalogue, "load", lambda name: lacking)
    assert command.load(["sequences"]) == {}
    assert "sequences is left out: no_such_package is not installed" in capsys.readouterr().out


def test_process_that_ends_by_itself_gets_a_row(tmp_path):
    args = command.parse(["--table", str(tmp_path / "table.jsonl")])
    # An unknown name ends the process before anything is imported for a proof.
    command.make_run(("no such proof", "good", 1), args)
    (row,) = rows.read(args.table)
    assert row["error"] == "the process ended with exit code 2"
    assert rows.finished([row]) == set()


def test_curve_has_the_mean_of_each_part_and_ends_where_the_run_does():
    made = Run("name", 1)
    made.budget(1_000)
    for step in range(1, 1_001):
        made.episode(step, step)
    curve = made.curve()
    assert len(curve) == POINTS
    assert curve[0] == (20, 10.5)
    assert curve[-1][0] == 1_000
    assert made.score() == 950.5


def test_names_of_the_catalogue_are_modules_with_a_proof():
    folder = Path(catalogue.__file__).parent
    assert all((folder / f"{name}.py").exists() for name in catalogue.NAMES)
    assert len(set(catalogue.NAMES)) == len(catalogue.NAMES) >= 10


@needs_torch
@pytest.mark.parametrize(
    ("proof", "setting", "steps"),
    [
        ("ppo", "VectorEnv", 512),
        ("ppo", "SyncVectorEnv", 512),
        ("dqn", "cogrs", 300),
        ("zoo_ppo", "SB3 with cogrs.sb3", 256),
        ("zoo_dqn", "SB3 with cogrs.sb3", 300),
    ],
)
def test_setting_with_pytorch_takes_its_steps(proof, setting, steps):
    row = perform(proof, setting, 1, limit=steps)
    assert row["error"] is None
    assert row["steps"] >= steps
    assert row["score"] > 5
    assert row["curve"]


@pytest.mark.parametrize(
    ("proof", "setting"),
    [("trials", "collector"), ("late_reward", "5 ticks late")],
)
def test_setting_of_the_demo_takes_its_steps(proof, setting):
    pytest.importorskip("jax")
    row = perform(proof, setting, 1, limit=200)
    assert row["error"] is None
    assert 200 <= row["steps"] < 900
    assert row["score"] > 5
