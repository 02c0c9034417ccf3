"""Runs of many processes: shards of replay, actors, and a learner, started again where they fail.

    run = cogrs.cluster.launch(plan, name="run")   # or: cogrs cluster up plan.toml
    run.status()                                   # a table: parts, rates, rows stored and lost
    run.wait()

| question | file |
|---|---|
| what a user writes | `plan.py`, `protocols.py`, `import_path.py` |
| where parts are | `directory.py`; over ZeroMQ `directory_{server,client}.py` |
| what all parts do: register, follow the directory, stop | `part.py` |
| what each part does | `shard.py`, `actor.py`, `learner.py`; actors by trials `trial_actor.py` |
| how an actor reaches the shards | `shard_client.py` |
| which actor tells its totals to which shard | `homes.py` |
| what starts parts again, and when not | `supervisor.py`, `restart_rule.py`, `process.py` |
| what lies in a run's folder | `run_folder.py`, `checkpoints.py` |
| what a driver holds, and what it shows | `local.py`, `run.py`, `state.py`, `status.py` |

Processes only share the directory, and the files of the run's folder. The directory remembers
nothing that its parts do not repeat every second, but the counts of those that have ended.
"""

from cogrs.cluster.local import attach, launch
from cogrs.cluster.plan import Plan
from cogrs.cluster.protocols import Learner, Policy, PolicyContext
from cogrs.cluster.run import Run
from cogrs.cluster.state import RunFailedError
from cogrs.cluster.status import PartStatus, RowCounts, RunStatus

__all__ = [
    "Learner",
    "PartStatus",
    "Plan",
    "Policy",
    "PolicyContext",
    "RowCounts",
    "Run",
    "RunFailedError",
    "RunStatus",
    "attach",
    "launch",
]
