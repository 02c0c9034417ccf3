"""`cogrs data export --to minari`: output, exit codes, and what is left after an error."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from cogrs import cli
from cogrs.commands import run
from cogrs.store import open_store
from tests.datasets.trials import played, write

if TYPE_CHECKING:
    from pathlib import Path

minari = pytest.importorskip("minari")
pytest.importorskip("h5py")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "datasets"
    folder.mkdir()
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(folder))
    return folder


@pytest.fixture
def stored(tmp_path: Path) -> str:
    """The folder of a store with a trial of 2, 3 and 4 actions, the last of which failed."""
    folder, logs = tmp_path / "trials", tmp_path / "logs"
    logs.mkdir()
    with open_store(folder, create=True) as store:
        write(store, logs, "two", played(2, terminated=True))
        write(store, logs, "three", played(3))
        write(store, logs, "four", played(4, end_reason="actor 'player' at grpc://x:1: it broke"))
    return str(folder)


def export(*arguments: str) -> int:
    return cli.main(["data", "export", "--to", "minari", *arguments])


def test_trials_are_exported_and_told(
    root: Path, stored: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export("ns/all-v0", "--store", stored, "--env", "CartPole-v1") == 0
    told, total = capsys.readouterr().out.splitlines()
    assert told == f"ns/all-v0  2 episodes, 5 steps  {root / 'ns/all-v0'}"
    assert total == "2 trials to ns/all-v0"
    dataset = minari.load_dataset("ns/all-v0")
    assert dataset.total_steps == 5
    assert dataset.env_spec.id == "CartPole-v1"


def test_failed_and_chosen_trials_are_exported(root: Path, stored: str) -> None:
    assert export("all-v0", "--store", stored, "--failed") == 0
    assert minari.load_dataset("all-v0").total_steps == 9
    assert export("one-v0", "--store", stored, "--trial", "three") == 0
    assert minari.load_dataset("one-v0").total_steps == 3
    assert export("long-v0", "--store", stored, "--min-return", "3") == 0
    assert minari.load_dataset("long-v0").total_steps == 3


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["wrong"], "dataset_id: expected NAME-vN or NAMESPACE/NAME-vN"),
        (["x-v0", "--env", "Nowhere-v0"], "Nowhere"),
        (["x-v0", "--user", "nobody"], "source: expected at least one episode with an action"),
        (["x-v0", "--trial", "tow"], "trial_id: "),
    ],
    ids=range(4),
)
def test_wrong_arguments_leave_nothing(
    root: Path, stored: str, capsys: pytest.CaptureFixture[str], arguments: list[str], text: str
) -> None:
    assert export(*arguments, "--store", stored) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert text in line
    assert list(root.iterdir()) == []


def test_signal_in_between_leaves_nothing(root: Path, stored: str) -> None:
    class Stopped:
        code = 130

        def is_set(self) -> bool:
            return True

    command = ["data", "export", "--to", "minari", "x-v0", "--store", stored]
    assert run(command, Stopped()) == 130  # type: ignore[arg-type]
    assert list(root.iterdir()) == []


def test_missing_extra_is_named(root: Path, stored: str) -> None:
    program = (
        "import sys; sys.modules['minari'] = None\n"
        "from cogrs.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    command = ["data", "export", "--to", "minari", "x-v0", "--store", stored]
    done = subprocess.run(
        [sys.executable, "-c", program, *command], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 1
    assert "pip install 'cogrs[minari]'" in done.stderr
    assert "Traceback" not in done.stderr
