"""`cogrs cluster`: runs of many processes, on this machine or on Ray."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from cogrs.commands.parser import DONE, FAILED, LOOK, Parser, fail, integer, number, seconds
from cogrs.escape import escaped

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from cogrs.cluster import Run
    from cogrs.ray import RayRun
    from cogrs.stop_signal import StopSignal

_EXIT_CODES = "Exit codes: 0 done, 1 the run has failed, 2 it could not be started or found"


def add_cluster(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add `cogrs cluster`."""
    cluster = commands.add_parser(
        "cluster",
        help="run shards of replay, actors and a learner that a file describes",
        description="Start runs of many processes on this machine, look at them and end them.",
    )
    verbs = cluster.add_subparsers(metavar="VERB", dest="verb", required=True)
    up = verbs.add_parser(
        "up",
        help="start a run, and stay until it ends",
        description="Start the run that a TOML file describes, and stay until it ends. Ctrl-C ends "
        "it, with checkpoints; a second one leaves at once.",
        epilog=f"{_EXIT_CODES}, 130 ended by Ctrl-C.",
    )
    up.add_argument("plan", type=Path, metavar="FILE", help="TOML file; see docs/cluster.md")
    up.add_argument("--name", default="run", help="name of the run (default: run)")
    up.add_argument(
        "--resume", action="store_true", help="go on with the checkpoints of a run of this name"
    )
    up.add_argument(
        "--detach", action="store_true", help="leave once all parts run; the run goes on"
    )
    _add_ray(up)
    up.add_argument(
        "--cpus",
        type=number,
        default=1.0,
        metavar="N",
        help="CPUs that Ray reserves for each part (default: 1)",
    )
    up.set_defaults(run=_up)
    for name, text, call in (
        ("attach", "stay until a run ends; Ctrl-C leaves it alone", _attach),
        ("status", "show the parts of a run, and what became of rows", _status),
        ("scale", "change the number of actors", _scale),
        ("stop", "end a run, with checkpoints", _stop),
        ("logs", "print what a part has printed", _logs),
    ):
        verb = verbs.add_parser(name, help=text, description=text, epilog=f"{_EXIT_CODES}.")
        verb.add_argument("name", nargs="?", default="run", help="name of the run (default: run)")
        verb.add_argument(
            "--storage",
            type=Path,
            default=Path("runs"),
            metavar="DIR",
            help="folder of runs, as in the plan (default: runs)",
        )
        _add_ray(verb)
        verb.set_defaults(run=_with_run(name, call))
        if name == "status":
            verb.add_argument("--json", action="store_true", help="print JSON")
        if name == "scale":
            verb.add_argument(
                "--actors", required=True, type=lambda text: integer(text, 1, 1 << 31), metavar="N"
            )
        if name == "stop":
            verb.add_argument(
                "--grace",
                type=seconds,
                default=30.0,
                metavar="SECONDS",
                help="kill parts that take longer (default: 30)",
            )
        if name == "logs":
            verb.add_argument(
                "--part",
                default="supervisor",
                help="shard, actor, learner, directory or supervisor (default: supervisor)",
            )
            verb.add_argument("--index", type=lambda text: integer(text, 0, 1 << 31), default=0)


def _add_ray(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--ray",
        metavar="ADDRESS",
        help="on Ray's cluster at HOST:PORT, or auto for that of this node, instead of on this "
        "machine alone",
    )


def _launched(given: argparse.Namespace) -> Run | RayRun:
    from cogrs.cluster import Plan, launch

    plan = Plan.from_toml(given.plan)
    options = {"name": given.name, "resume": given.resume}
    if given.ray is None:
        return launch(plan, **options, detached=given.detach)
    from cogrs import ray

    cpus = dict.fromkeys(("learner", "shard", "actor"), given.cpus)
    return ray.launch(plan, **options, address=given.ray, cpus=cpus)


def _attached(given: argparse.Namespace) -> Run | RayRun:
    from cogrs.cluster import attach

    if given.ray is None:
        return attach(given.name, storage=given.storage)
    from cogrs import ray

    return ray.attach(given.name, storage=given.storage, address=given.ray)


def _up(given: argparse.Namespace, stop: StopSignal) -> int:
    from cogrs.cluster import RunFailedError

    try:
        run = _launched(given)
    except RunFailedError as error:
        return fail("cluster up", str(error), FAILED)
    except (ImportError, OSError, RuntimeError, TypeError, ValueError) as error:
        return fail("cluster up", str(error))
    print(f"{given.name} runs: {len(run.status().parts)} parts", flush=True)
    if given.detach:
        run.close()
        return DONE
    code = _follow(run, stop)
    if stop.is_set():
        code = stop.code
        _end(run)
    run.close()
    return code


def _end(run: Run | RayRun) -> None:
    """End a run; Ctrl-C leaves at once."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        run.stop()
    except KeyboardInterrupt:
        run.kill()


def _follow(run: Run | RayRun, stop: StopSignal) -> int:
    """Wait until a run ends, or a signal comes; return the exit code."""
    from cogrs.cluster import RunFailedError

    try:
        while not stop.is_set() and not run.wait(0.0):
            time.sleep(LOOK)
    except RunFailedError as error:
        return fail("cluster", str(error), FAILED)
    return DONE


def _with_run(
    name: str, call: Callable[[Run | RayRun, argparse.Namespace, StopSignal], int]
) -> Callable[[argparse.Namespace, StopSignal], int]:
    """Return a command that attaches to a run first."""

    def command(given: argparse.Namespace, stop: StopSignal) -> int:
        try:
            run = _attached(given)
        except (ImportError, OSError, ValueError) as error:
            return fail(f"cluster {name}", str(error))
        try:
            return call(run, given, stop)
        except (OSError, RuntimeError, ValueError) as error:
            return fail(f"cluster {name}", str(error), FAILED)
        finally:
            run.close()

    return command


def _attach(run: Run | RayRun, _given: argparse.Namespace, stop: StopSignal) -> int:
    return _follow(run, stop)


def _status(run: Run | RayRun, given: argparse.Namespace, _stop: StopSignal) -> int:
    status = run.status()
    print(json.dumps(status.as_json()) if given.json else status)
    return FAILED if status.state == "failed" else DONE


def _scale(run: Run | RayRun, given: argparse.Namespace, _stop: StopSignal) -> int:
    run.scale(actors=given.actors)
    return DONE


def _stop(run: Run | RayRun, given: argparse.Namespace, _stop: StopSignal) -> int:
    run.stop(given.grace)
    return DONE


def _logs(run: Run | RayRun, given: argparse.Namespace, _stop: StopSignal) -> int:
    for line in run.logs(given.part, given.index).splitlines():
        print(escaped(line))
    return DONE
