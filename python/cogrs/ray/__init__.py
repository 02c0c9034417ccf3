"""Runs of many processes on Ray, which places parts on the nodes of a cluster and restarts them.

    run = cogrs.ray.launch(plan, address="auto")

Ray places parts, and restarts the directory and the supervisor, which restarts the others.
Experience, parameters and the directory go by ZeroMQ, as in `cogrs.cluster`, whose parts these are;
nothing goes through Ray's object store.

| question | file |
|---|---|
| how a run is started and found again | `launch.py` |
| what a driver holds | `run.py` |
| what has the directory, and restarts parts | `directory.py`, `child.py` |
| what runs in a part's actor | `part.py` |
| which node has room for which part | `placement.py` |
"""

from cogrs.optional_dependency import import_optional

import_optional("ray", "runs on Ray need it", "'cogrs[ray]'")

from cogrs.ray.launch import attach, launch  # noqa: E402
from cogrs.ray.run import RayRun  # noqa: E402

__all__ = ["RayRun", "attach", "launch"]
