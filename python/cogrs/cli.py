"""The command line: `cogrs`, or `python -m cogrs`."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code.

    0: success; 1: failure; 2: it could not start; 130: Ctrl-C; 143: SIGTERM.
    """
    # First of all: a signal that comes earlier ends in a traceback of some import.
    from cogrs.stop_signal import StopSignal

    with StopSignal() as stop:
        from cogrs.commands import run

        return run(arguments, stop)


if __name__ == "__main__":
    sys.exit(main())
