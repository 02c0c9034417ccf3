"""Options of the demo, and those of each of its processes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of a run; the fields are those of the command line.

    Attributes:
        env: Id of a Gymnasium environment with discrete actions.
        trials: Number of concurrent trials.
        workers: Number of actor processes.
        resume: Folder of a run to continue; None starts a new one.
        seed: Random seed of the processes; their timing differs from run to run.
        out: Folder for the folders of runs.
        max_seconds: Maximum seconds of learning.
        goal: Mean return over the last `window` trials at which the run ends.
        window: Trials in that mean.
    """

    env: str = "CartPole-v1"
    trials: int = 16
    workers: int = 1
    resume: Path | None = None
    seed: int = 0
    out: Path = Path("runs")
    max_seconds: float = 300.0
    goal: float = 195.0
    window: int = 20


@dataclass(frozen=True, kw_only=True)
class ProcessConfig:
    """Options of a child process.

    Attributes:
        env: Id of the environment.
        seed: Random seed.
        state_size: Numbers in an observation.
        num_action: Number of actions.
        trials: Number of concurrent trials.
        endpoints: The learner's, for actors: publish, request, push.
        worker: Number of this actor process.
        trials_before: Trials that an earlier run has played, for their seeds.
        folder: Folder of the run, for checkpoints.
        resume: Folder with checkpoints to continue from, or "".
    """

    env: str
    seed: int
    state_size: int
    num_action: int
    trials: int
    endpoints: tuple[str, ...] = ()
    worker: int = 0
    trials_before: int = 0
    folder: str = ""
    resume: str = ""

    def to_json(self) -> str:
        """Return the options as a command-line argument."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ProcessConfig:
        """Read what `to_json` returned."""
        fields = json.loads(text)
        return cls(**{**fields, "endpoints": tuple(fields["endpoints"])})
