"""The command line: `run` parses arguments and runs a command. Each command has a file here."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from cogrs.commands.parser import REFUSED, Parser

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cogrs.stop_signal import StopSignal


# Only the module of the command that is run is imported.
_COMMANDS = {
    "demo": "demo:add_demo",
    "play": "play:add_play",
    "web": "web:add_web",
    "keys": "replay:add_keys",
    "replay-server": "replay:add_replay_server",
    "replay-proxy": "replay:add_replay_proxy",
    "orchestrator": "orchestrator:add_orchestrator",
    "trial": "trial:add_trial",
    "data": "data:add_data",
    "cluster": "cluster:add_cluster",
    "doctor": "doctor:add_doctor",
}
"""The function that adds a command to the parser, by the command's name."""


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
    words = sys.argv[1:] if arguments is None else arguments
    for name in [words[0]] if words and words[0] in _COMMANDS else _COMMANDS:
        module, _, add = _COMMANDS[name].partition(":")
        getattr(import_module(f"cogrs.commands.{module}"), add)(commands)
    given = parser.parse_args(arguments)
    if given.command is None:
        parser.print_help(sys.stderr)
        return REFUSED
    return int(given.run(given, stop))
