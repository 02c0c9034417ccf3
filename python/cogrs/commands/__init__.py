"""The command line: `run` parses arguments and runs a command. Each command has a file here."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from cogrs.commands.cluster import add_cluster
from cogrs.commands.data import add_data
from cogrs.commands.demo import add_demo
from cogrs.commands.orchestrator import add_orchestrator
from cogrs.commands.parser import REFUSED, Parser
from cogrs.commands.play import add_play
from cogrs.commands.replay import add_keys, add_replay_proxy, add_replay_server
from cogrs.commands.trial import add_trial
from cogrs.commands.web import add_web

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cogrs.stop_signal import StopSignal


class _Version(argparse.Action):
    """Prints the version, for which the extension is loaded."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        from cogrs import __version__

        print(f"cogrs {__version__}")
        parser.exit(0)


def run(arguments: Sequence[str] | None, stop: StopSignal) -> int:
    """Run a command; return its exit code."""
    parser = Parser(
        prog="cogrs",
        description="Replay memory, batch collector and trial orchestrator for reinforcement "
        "learning.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version")
    commands = parser.add_subparsers(metavar="COMMAND", dest="command")
    add_demo(commands)
    add_play(commands)
    add_web(commands)
    add_keys(commands)
    add_replay_server(commands)
    add_replay_proxy(commands)
    add_orchestrator(commands)
    add_trial(commands)
    add_data(commands)
    add_cluster(commands)
    _add_doctor(commands)
    given = parser.parse_args(arguments)
    if given.command is None:
        parser.print_help(sys.stderr)
        return REFUSED
    return int(given.run(given, stop))


def _add_doctor(commands: argparse._SubParsersAction[Parser]) -> None:
    doctor = commands.add_parser(
        "doctor",
        help="check what cogrs needs of this machine",
        description="Print versions, optional packages, round trips over ZeroMQ and gRPC on "
        "loopback, and system limits, with a hint for each problem.",
        epilog="Exit codes: 0 no problem was found, 1 something is wrong.",
    )
    doctor.set_defaults(run=_doctor)


def _doctor(_given: argparse.Namespace, _stop: StopSignal) -> int:
    from cogrs.doctor import examine, report

    return report(examine())
