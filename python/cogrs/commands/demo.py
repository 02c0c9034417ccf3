"""`cogrs demo`: learn a task from trials, end to end."""

from __future__ import annotations

import argparse
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cogrs.commands.parser import DONE, FAILED, REFUSED, Parser, fail, integer, number, seconds
from cogrs.demo.options import Options

if TYPE_CHECKING:
    from collections.abc import Callable

    from cogrs.stop_signal import StopSignal

_EXTRA = ("gymnasium", "jax", "matplotlib", "optax", "rich")


def add_demo(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add the command."""
    demo = commands.add_parser(
        "demo",
        help="learn a task from trials, end to end",
        description="Learn a Gymnasium task: trials of environments and batched agents, "
        "prioritized replay over the network, a learner, and its parameters back to the actors. "
        "CartPole is learned with the default settings; other environments run, without a promise "
        "that they are learned.",
        epilog="Exit codes: 0 the goal was reached, 1 it was not reached, 2 the demo could not "
        "start, 130 Ctrl-C, 143 SIGTERM.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    default = Options()
    options: dict[str, tuple[Callable[[str], Any], str]] = {
        "env": (str, "id of a Gymnasium environment with discrete actions"),
        "trials": (_between(1, 1000), "number of concurrent trials"),
        "workers": (_between(1, 64), "number of actor processes"),
        "resume": (_folder, "folder of a run to continue"),
        "seed": (
            _between(0, 2**32 - 1),
            "random seed of the processes; runs with the same seed differ, because process timing "
            "varies",
        ),
        "out": (_folder, "folder for metrics, checkpoints and the learning curve"),
        "max_seconds": (seconds, "maximum run time in seconds"),
        "goal": (number, f"mean return over {default.window} trials at which the run ends"),
    }
    for name, (kind, text) in options.items():
        option = f"--{name.replace('_', '-')}"
        demo.add_argument(option, type=kind, default=getattr(default, name), help=text)
    demo.set_defaults(run=_run)


def _between(least: int, most: int) -> Callable[[str], int]:
    return lambda text: integer(text, least, most)


def _folder(text: str) -> Path:
    if not text.strip():
        raise argparse.ArgumentTypeError(f"expected a folder, got {text!r}")
    return Path(text)


def _run(given: argparse.Namespace, stop: StopSignal) -> int:
    for name in _EXTRA:
        if find_spec(name) is None:
            return fail("demo", f"{name} is not installed: pip install 'cogrs[demo]'")
    from cogrs.demo.child_process import FailedError, RefusedError
    from cogrs.demo.run import run

    values = vars(given)
    options = Options(
        **{field.name: values[field.name] for field in fields(Options) if field.name in values}
    )
    try:
        progress, files = run(options, stop)
    except FailedError as error:
        if stop.is_set():  # a child that was told to end, too, may have been faster
            print("interrupted")
            return stop.code
        return fail("demo", str(error), REFUSED if isinstance(error, RefusedError) else FAILED)
    if progress.curve:
        for name, text in progress.rows():
            print(f"{name:12} {text}")
    if progress.reached:
        code, end = DONE, "goal reached"
    elif stop.is_set():
        code, end = stop.code, "interrupted"
    else:
        code, end = FAILED, "goal not reached"
    print(end)
    for path in files:
        print(path)
    return code
