"""Programs of tests, in processes of their own, which end with their test at the latest."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEAR_CTRL_C = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"


def command(script: str, *arguments: str, options: tuple[str, ...] = ()) -> list[str]:
    """What runs a script so that it hears SIGINT, with options of the interpreter.

    A process inherits that a signal is ignored, and a shell has what it runs in the background
    ignore SIGINT, so the tests may be run deaf.
    """
    return [sys.executable, *options, "-c", _HEAR_CTRL_C + script, *arguments]


@contextmanager
def program(script: str, *, options: tuple[str, ...] = ()) -> Iterator[subprocess.Popen[str]]:
    """Run a script, which is killed when the block is left before it has ended."""
    process = subprocess.Popen(
        command(script, options=options),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
