"""`cogrs doctor`: what this machine lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from cogrs.commands.parser import Parser
    from cogrs.stop_signal import StopSignal


def add_doctor(commands: argparse._SubParsersAction[Parser]) -> None:
    """Add the command."""
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
