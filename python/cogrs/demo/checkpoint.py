"""Where the parts of a run keep what they need to go on."""

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


def learner_file(folder: str) -> Path:
    """Return the learner's checkpoint."""
    return Path(folder) / "learner.checkpoint"


def replay_file(folder: str, worker: int) -> Path:
    """Return the replay memory of an actor process."""
    return Path(folder) / f"replay-{worker}.checkpoint"


def write_run(folder: Path, config: ProcessConfig, trials: int, steps: int) -> None:
    """Write what the parent knows."""
    known = {
        "env": config.env,
        "state_size": config.state_size,
        "num_action": config.num_action,
        "trials": config.trials_before + trials,
        "steps": steps,
    }
    write_file(folder / _RUN, json.dumps(known).encode())


def read_run(folder: Path, config: ProcessConfig) -> dict[str, Any]:
    """Read what the parent knew.

    Raises:
        RefusedError: There is none, or it is of another environment.
    """
    try:
        known: dict[str, Any] = json.loads((folder / _RUN).read_text(encoding="utf-8"))
        found = {name: known[name] for name in ("env", "state_size", "num_action")}
        counts = {name: int(known[name]) for name in ("trials", "steps")}
    except (OSError, KeyError, TypeError, ValueError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise RefusedError(
            f"--resume: expected the folder of a run, got {folder}: {reason}"
        ) from None
    if not learner_file(str(folder)).is_file():
        raise RefusedError(f"--resume: {folder} has no checkpoint of a learner")
    for name, value in found.items():
        if value != getattr(config, name):
            expected = getattr(config, name)
            raise RefusedError(f"--resume: {name}: expected {expected}, {folder} has {value}")
    return counts
