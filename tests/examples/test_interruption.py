"""Ctrl-C at each line of what waits for it, and of what hears it: nobody waits for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.program import program

EXAMPLES = Path(__file__).parents[2] / "examples"
DEADLINE = 60.0

PRESS_AT_EACH_LINE = """
import faulthandler, importlib, signal, sys, threading, time
faulthandler.dump_traceback_later({deadline}, exit=True)
sys.path.insert(0, {folder!r})
import {module} as module

def press_at(moment):
    importlib.reload(module)
    ctrl_c, passed = module.ctrl_c, 0
    {hear}

    def trace(frame, event, _):
        nonlocal passed
        if frame.f_code.co_filename not in (module.__file__, threading.__file__):
            return None
        passed += event == "line"
        # In the middle of hearing the first one, too.
        if event == "line" and passed in (moment, moment + 2):
            signal.raise_signal(signal.SIGINT)
        return trace

    timer = threading.Timer(0.05, signal.raise_signal, (signal.SIGINT,))
    timer.start()
    sys.settrace(trace)
    while not ctrl_c.is_set():
        {wait}
    sys.settrace(None)
    timer.join()
    return passed >= moment

moment = 1
while press_at(moment):
    moment += 1
print("pressed at", moment, "lines")
"""

WAYS = {
    "distributed": ("distributed", "shared", "", "ctrl_c.wait()"),
    "one process": ("", "program", "module.hear_ctrl_c()", "time.sleep(0.001)"),
}


@pytest.mark.parametrize("way", WAYS)
def test_ctrl_c_at_each_line_of_the_waiting_thread(way):
    folder, module, hear, wait = WAYS[way]
    script = PRESS_AT_EACH_LINE.format(
        folder=str(EXAMPLES / folder), module=module, hear=hear, wait=wait, deadline=DEADLINE
    )
    with program(script) as process:
        out, err = process.communicate(timeout=2 * DEADLINE)
    assert process.returncode == 0, err
    assert out.startswith("pressed at")
