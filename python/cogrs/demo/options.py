"""What `cogrs demo` is told."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of a run; the fields are those of the command line.

    Attributes:
        env: Id of a Gymnasium environment with discrete actions.
        workers: Processes that act.
        resume: Folder of a run that is to go on; None begins anew.
        trials: Trials that run at the same time.
        seed: Seed of what processes draw; their timing differs from run to run.
        out: Folder for the learning curve and the metrics.
        max_seconds: The run ends after so many seconds of learning.
        goal: Mean return over the last `window` trials that ends the run.
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
    """What a child process is told.

    Attributes:
        env: Id of the environment.
        seed: Seed of this process.
        state_size: Numbers in an observation.
        num_action: Actions.
        trials: Trials that run at the same time.
        endpoints: The learner's, for actors: publish, request, push.
        worker: Which of the processes of its kind this is.
        trials_before: Trials that were played before, for their seeds.
        folder: Folder of the run, where checkpoints go.
        resume: Folder with the checkpoints to go on from; "" begins anew.
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
        """Return it as an argument of a command line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ProcessConfig:
        """Read it."""
        fields = json.loads(text)
        return cls(**{**fields, "endpoints": tuple(fields["endpoints"])})
