"""The files of a run's checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cogrs.demo.child_process import RefusedError
from cogrs.workers.checkpoint import write_file

if TYPE_CHECKING:
    from cogrs.demo.options import ProcessConfig

EVERY = 30.0
"""Seconds between two checkpoints; one more is written at the end."""

_RUN = "run.json"
_SAME = ("env", "state_size", "num_action")
"""What a run has to have in common with the one that it continues."""


def learner_file(folder: str) -> Path:
    """Return the learner's checkpoint."""
    return Path(folder) / "learner.checkpoint"


def replay_file(folder: str, worker: int) -> Path:
    """Return the replay memory of an actor process."""
    return Path(folder) / f"replay-{worker}.checkpoint"


def write_run(folder: Path, config: ProcessConfig, trials: int, steps: int) -> None:
    """Write the parent's part of the checkpoint."""
    same = {name: getattr(config, name) for name in _SAME}
    known = {**same, "trials": config.trials_before + trials, "steps": steps}
    write_file(folder / _RUN, json.dumps(known).encode())


def read_run(folder: Path, config: ProcessConfig) -> dict[str, Any]:
    """Return trials and steps of the run in a folder; RefusedError if it does not fit."""
    try:
        known: dict[str, Any] = json.loads((folder / _RUN).read_text(encoding="utf-8"))
        found = {name: known[name] for name in _SAME}
        counts = {name: int(known[name]) for name in ("trials", "steps")}
    except (OSError, KeyError, TypeError, ValueError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise RefusedError(
            f"--resume: expected the folder of a run, got {folder}: {reason}"
        ) from None
    if not learner_file(str(folder)).is_file():
        raise RefusedError(f"--resume: {folder} has no checkpoint of a learner")
    for name, value in found.items():
        expected = getattr(config, name)
        if value != expected:
            raise RefusedError(f"--resume: {name}: expected {expected}, {folder} has {value}")
    return counts
