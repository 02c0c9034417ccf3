"""The child's side of a process of the demo."""

from __future__ import annotations

import subprocess

from tests.program import command

INTERRUPTED_IN_A_WAIT = """
import os
import signal

from cogrs.demo.parent import Parent

parent = Parent()
with parent.stop_request._cond:
    # As in the midst of a call of the event, which holds its lock.
    signal.raise_signal(signal.SIGTERM)
assert parent.stop_request.wait(60)
os._exit(7)
"""


def test_sigterm_during_a_call_of_the_event_requests_the_end() -> None:
    process = subprocess.Popen(command(INTERRUPTED_IN_A_WAIT), stdin=subprocess.PIPE)
    try:
        assert process.wait(60) == 7
    finally:
        process.kill()
        process.communicate()
