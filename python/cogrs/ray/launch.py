"""Runs on Ray: `launch` starts one, `attach` finds one again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import ray

from cogrs.cluster.local import check_imports, prepared_folder
from cogrs.cluster.plan import Plan
from cogrs.cluster.run_folder import RunFolder
from cogrs.ray.directory import RayDirectory
from cogrs.ray.names import DIRECTORY, NAMESPACE, actor_name
from cogrs.ray.part import files_of
from cogrs.ray.placement import free, place
from cogrs.ray.run import RayRun
from cogrs.validation import check_kind, check_number, check_timeout

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from pathlib import Path

_CPUS: Final = {"learner": 1.0, "shard": 1.0, "actor": 1.0}


def launch(
    plan: Plan,
    *,
    address: str | None = None,
    name: str = "run",
    resume: bool = False,
    cpus: Mapping[str, float] | None = None,
    room_timeout: float = 30.0,
    timeout: float | None = 120.0,
) -> RayRun:
    """Start a run on Ray, and wait until all its parts have registered.

    Args:
        plan: What it consists of. `host` is ignored: each part listens at its node's address.
            Checkpoints go to `storage`, which all nodes should share. Functions that nodes cannot
            import, such as those of a script, are shipped by Ray's own serializer.
        address: Ray's cluster, "auto" for that of this node; None starts one on this machine,
            unless Ray runs in this program already.
        name: As of `cogrs.cluster.launch`.
        resume: Likewise.
        cpus: CPUs that Ray reserves for a "learner", a "shard" and an "actor"; 1 each if not given.
        room_timeout: Seconds to wait until the cluster has room.
        timeout: Seconds to wait for the parts; None waits without a limit.

    Returns:
        The run. It goes on when this program ends, if Ray does, and ends by itself after its
        updates; `stop` ends it.

    Raises:
        TypeError, ValueError, ImportError, FileExistsError, OSError, RunFailedError: As
            `cogrs.cluster.launch`.
        TimeoutError: The cluster has no room, and the text says for which part; or not all parts
            have registered in time. What was started is ended.
        ConnectionError: There is no cluster at `address`.
        RuntimeError: The cluster there has another version of Ray or Python.
    """
    check_kind("plan", plan, Plan, "a Plan")
    check_timeout("timeout", timeout)
    needs = _CPUS | dict(cpus or {})
    for role, amount in needs.items():
        if role not in _CPUS or check_number(f"cpus[{role!r}]", amount) <= 0:
            expected = "numbers > 0 for learner, shard and actor"
            raise ValueError(f"cpus: expected {expected}, got {role!r}: {amount!r}")
    check_imports(plan)
    _connect(address)
    _make_way(name)
    folder = prepared_folder(plan, name, resume=resume)
    place(plan, name, needs, room_timeout)
    try:
        ray.remote(RayDirectory).options(
            name=actor_name(name, DIRECTORY, 0),
            namespace=NAMESPACE,
            lifetime="detached",
            max_restarts=-1,
            max_concurrency=8,  # a slow call holds up nobody
            num_cpus=0,
        ).remote(str(folder.path), files_of(folder), needs, plan.functions())
    except BaseException:
        free(name)
        raise
    run = RayRun(folder)
    try:
        run.wait_until_up(timeout)
    except BaseException:
        run.stop(5.0)
        run.close()
        raise
    return run


def attach(
    name: str = "run", *, storage: str | os.PathLike[str] | Path = "runs", address: str = "auto"
) -> RayRun:
    """Return a run that another program has started.

    Args:
        name: Its name.
        storage: The folder of runs, as of its plan; this machine has to have the run's keys there.
        address: As of `launch`.

    Raises:
        FileNotFoundError: There is no such run.
        ConnectionError, RuntimeError: As of `launch`.
    """
    _connect(address)
    folder = RunFolder(storage, name)
    if _directory(name) is None or not folder.has("plan.json"):
        raise FileNotFoundError(f"name: there is no run {name!r} in {folder.path.parent}")
    return RayRun(folder)


def _connect(address: str | None) -> None:
    if not ray.is_initialized():
        try:
            ray.init(address=address, namespace=NAMESPACE, log_to_driver=False)
        except RuntimeError as error:  # of other versions, for one
            raise RuntimeError(f"address: {' '.join(str(error).split())}") from error


def _directory(name: str) -> Any:
    """Return the directory of a run on this cluster, None if there is no such run."""
    try:
        return ray.get_actor(actor_name(name, DIRECTORY, 0), namespace=NAMESPACE)
    except ValueError:
        return None


def _make_way(name: str) -> None:
    """End the directory of a run that is over; a FileExistsError if it is under way."""
    found = _directory(name)
    if found is None:
        return
    if not ray.get(found.state.remote(), timeout=60).is_over:
        raise FileExistsError(f"name: a run {name!r} is under way: cogrs.ray.attach({name!r})")
    ray.kill(found, no_restart=True)
    end = time.monotonic() + 60
    while _directory(name) is not None and time.monotonic() < end:
        time.sleep(0.05)
