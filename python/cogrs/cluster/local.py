"""Runs on one machine, without Ray: each part is a process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cogrs.cluster.import_path import check_path_only, imported
from cogrs.cluster.plan import Plan
from cogrs.cluster.process import start_process
from cogrs.cluster.run import Run
from cogrs.cluster.run_folder import RunFolder
from cogrs.validation import check_flag, check_kind, check_timeout

if TYPE_CHECKING:
    import os
    import subprocess
    from pathlib import Path

_detached: list[subprocess.Popen[bytes]] = []
"""Supervisors that outlive their `Run`: kept, since Python warns of processes that it drops."""


def launch(
    plan: Plan,
    *,
    name: str = "run",
    resume: bool = False,
    detached: bool = False,
    timeout: float | None = 60.0,
) -> Run:
    """Start a run, and wait until all its parts have registered.

    Args:
        plan: What it consists of.
        name: Its name, which is also that of its folder in `plan.storage`.
        resume: Whether to go on with the checkpoints of a run of this name that is over.
        detached: Whether the run goes on when this program ends; `attach` finds it again.
        timeout: Seconds to wait for the parts; None waits without a limit.

    Returns:
        The run.

    Raises:
        TypeError, ValueError: An argument has the wrong type or value.
        ImportError: A function of the plan cannot be imported; the text has the traceback.
        FileExistsError: There is a run of this name, and `resume` is False; or it is under way.
        RunFailedError: A part has failed again and again; the text has its traceback.
        TimeoutError: Not all parts have registered in time; those that have are ended.
        OSError: `storage` cannot be written.
    """
    check_kind("plan", plan, Plan, "a Plan")
    check_flag("resume", resume)
    check_flag("detached", detached)
    check_timeout("timeout", timeout)
    for function, given in plan.functions().items():
        check_path_only(function, given)
    check_imports(plan)
    folder = prepared_folder(plan, name, resume=resume)
    with open(folder.log("supervisor", 0), "ab") as log:
        arguments = (int(detached),)
        process = start_process(
            folder, "cogrs.cluster.supervisor", arguments, log, detached=detached
        )
    if detached:
        _detached.append(process)
    run = Run(folder, process)
    try:
        run.wait_until_up(timeout)
    except BaseException:
        run.stop(5.0)
        run.close()
        raise
    return run


def attach(name: str = "run", *, storage: str | os.PathLike[str] | Path = "runs") -> Run:
    """Return a run that another program has started on this machine.

    Args:
        name: Its name.
        storage: The folder of runs, as of its plan.

    Raises:
        ValueError: The name is not valid.
        FileNotFoundError: There is no such run.
    """
    folder = RunFolder(storage, name)
    if not folder.has("plan.json"):
        raise FileNotFoundError(f"name: there is no run {name!r} in {folder.path.parent}")
    return Run(folder)


def prepared_folder(plan: Plan, name: str, *, resume: bool) -> RunFolder:
    """Return the folder of a run that is to start; errors as of `launch`."""
    folder = RunFolder(plan.storage, name)
    if folder.is_running():
        hint = f"use cogrs.cluster.attach({name!r}), or another name"
        raise FileExistsError(f"name: a run {name!r} is under way in {folder.path.parent}: {hint}")
    if folder.has("plan.json") and not resume:
        hint = "resume=True goes on with its checkpoints; or use another name"
        raise FileExistsError(f"name: there was a run at {folder.path}: {hint}")
    try:
        folder.create(plan)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(error.errno, f"storage: cannot write to it: {reason}", plan.storage) from None
    return folder


def check_imports(plan: Plan) -> None:
    """Import the functions of a plan; errors as of `launch`."""
    for each in ("policy", "learner", "make_env"):
        path = getattr(plan, each)
        if not isinstance(path, str) or ":" in path:
            imported(each, path)
