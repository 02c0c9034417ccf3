"""The command line: `cogrs demo`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_INTERRUPTED = 130
_REFUSED = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code.

    0: it did what it was to do; 1: it did not; 2: it could not start; 130: Ctrl-C.
    """
    parser = argparse.ArgumentParser(prog="cogrs", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_demo(commands)
    given = parser.parse_args(arguments)
    try:
        return int(given.run(given))
    except KeyboardInterrupt:
        return _INTERRUPTED


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    demo = commands.add_parser(
        "demo",
        help="learn a task from trials, end to end",
        description="Learn a Gymnasium task: trials of environments and batched agents, "
        "prioritized replay over the network, a learner, its parameters back to the actors.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    demo.add_argument("--env", default="CartPole-v1", help="Gymnasium id, with discrete actions")
    demo.add_argument("--trials", type=_positive, default=16, help="trials at the same time")
    demo.add_argument("--seed", type=int, default=0, help="seed of everything that is drawn")
    demo.add_argument("--out", type=Path, default=Path("runs"), help="folder for curve and metrics")
    demo.add_argument("--max-seconds", type=float, default=300, help="end after so long")
    demo.add_argument("--goal", type=float, default=195, help="mean return of 20 trials to reach")
    demo.set_defaults(run=_demo)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected an integer >= 1, got {text}")
    return number


def _demo(given: argparse.Namespace) -> int:
    try:
        import gymnasium  # noqa: F401
        import jax  # noqa: F401
        import matplotlib  # noqa: F401
        import optax  # noqa: F401
        import rich  # noqa: F401
    except ModuleNotFoundError as missing:
        return _refuse(f"{missing.name} is not installed: pip install 'cogrs[demo]'")
    from cogrs.demo.options import Options
    from cogrs.demo.process import ProcessFailedError
    from cogrs.demo.run import RefusedError, run

    options = Options(
        env=given.env,
        trials=given.trials,
        seed=given.seed,
        out=given.out,
        max_seconds=given.max_seconds,
        goal=given.goal,
    )
    try:
        progress, folder = run(options)
    except (RefusedError, ProcessFailedError, OSError) as error:
        return _refuse(str(error))
    reached = "reached" if progress.reached else "not reached"
    print(progress.line())
    print(f"goal {reached}; learning curve and metrics are in {folder}")
    return 0 if progress.reached else 1


def _refuse(reason: str) -> int:
    print(f"cogrs: {reason}", file=sys.stderr)
    return _REFUSED


if __name__ == "__main__":
    sys.exit(main())
