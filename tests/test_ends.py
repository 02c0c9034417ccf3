"""Whatever a method of a user's does, servers stop in time, and so does the process."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from tests.combinations import pairwise
from tests.program import program

if TYPE_CHECKING:
    from collections.abc import Iterator

GRACE = 0.5
SLACK = 10.0
"""Times as long as is promised, on a machine that is busy."""

PARTS = """
import asyncio, logging, sys, threading, time
import cogrs
from cogrs import orchestrator, sdk

role, place, kind = {role!r}, {place!r}, {kind!r}
logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
entered = threading.Event()


def block(*_):
    entered.set()
    time.sleep(10_000)


async def swallow(*_):
    entered.set()
    while True:
        try:
            await asyncio.sleep(10_000)
        except asyncio.CancelledError:
            pass


async def swallow_all(*_):
    entered.set()
    while True:
        try:
            await asyncio.sleep(10_000)
        except BaseException:
            pass


async def wait_on_executor(*_):
    entered.set()
    await asyncio.to_thread(time.sleep, 10_000)


stuck = {{"plain": block, "inline": block, "swallow": swallow, "swallow all": swallow_all,
          "executor": wait_on_executor}}[kind]


class Plays(sdk.Environment):
    def start(self, trial):
        return sdk.Update([0])

    def step(self, actions):
        return sdk.Update([0])


class Acts(sdk.Agent):
    def act(self, observation):
        return 0


class Writes(sdk.DatalogSink):
    def sample(self, sample):
        pass


def change(new):
    pass


given = {{"environment": (Plays, "step"), "agent": (Acts, "act"), "log": (Writes, "sample")}}
if role in given:
    of, method = given[role]
    stuck.__name__ = method
    setattr(of, method, stuck)
    of.inline = kind == "inline"
elif role == "hook":
    change = stuck
    change.inline = kind == "inline"
environments, agents, hooks = {{"": Plays}}, {{"": Acts}}, {{"": change}}


def config(at):
    where = dict(zip("eahl", at))
    actor = {{"name": "ann", "actor_class": "p", "endpoint": where["a"]}}
    return {{
        "trial_params": {{"environment": {{"endpoint": where["e"]}}, "actors": [actor]}},
        "trial": {{"pre_hooks": [where["h"]]}},
        "datalog": {{"type": "grpc", "url": where["l"]}},
    }}


def local():
    return {{
        "e": sdk.local_environments(environments),
        "a": sdk.local_agents(agents),
        "h": sdk.local_hooks(hooks),
        "l": sdk.local_datalog(Writes),
    }}


def timed(what, call, *args):
    begin = time.monotonic()
    try:
        return call(*args)
    finally:
        print(what, time.monotonic() - begin, flush=True)
"""

THREADS = (
    PARTS
    + """
parts, served = {{}}, None
if place == "local":
    parts = local()
    at = [f"local://{{name}}" for name in "eahl"]
else:
    served = sdk.serve_endpoint(
        environments=environments, agents=agents, hooks=hooks, datalog=Writes
    )
    at = [served.address] * 4


def run():
    try:
        sdk.run_trial(f"127.0.0.1:{{server.port}}", timeout=60 if {interrupt} else 1)
    except TimeoutError:
        pass


server = cogrs.serve_orchestrator(config(at), port=0, local=parts)
"""
)

STOPS = """
with server:
    timed("run", run)
    assert entered.wait(60)
    for _ in range(2):
        timed("stop", server.stop, {grace})
        if served:
            timed("stop", served.stop, {grace})
    assert server.wait(60)
print("end", flush=True)
"""

FORGETS = """
run()
assert entered.wait(60)
print("end", flush=True)
"""

INTERRUPTED = """
try:
    with server:
        threading.Thread(target=lambda: entered.wait(60) and print("entered", flush=True)).start()
        run()
except KeyboardInterrupt:
    print("interrupted", flush=True)
if served:
    served.stop({grace})
print("end", flush=True)
"""

ON_LOOP = (
    PARTS
    + """
async def main():
    if place == "served":
        served = await sdk.serve(
            environments=environments, agents=agents, hooks=hooks, datalog=Writes
        )
        server = await orchestrator.serve(config([served.address] * 4), port=0)
        ends = [server, served]
    else:
        at = [f"local://{{name}}" for name in "eahl"]
        server = await orchestrator.serve(config(at), port=0, local=local())
        ends = [server]
    async with sdk.TrialController(f"127.0.0.1:{{server.port}}") as controller:
        starting = asyncio.ensure_future(controller.start_trial())
        while not entered.is_set():
            await asyncio.sleep(0.01)
        for end in ends * 2:
            begin = time.monotonic()
            await end.stop({grace})
            print("stop", time.monotonic() - begin, flush=True)
        await asyncio.wait({{starting}}, timeout=60)
        starting.cancel()
        starting.exception()


asyncio.run(main())
print("end", flush=True)
"""
)

ROLES = ("environment", "agent", "hook", "log")
PLACES = ("local", "served")
NAMES = {
    "environment": "environment: Plays.step",
    "agent": "actor 'ann': Acts.act",
    "log": "data log: Writes.sample",
}


def script(text: str, role: str, place: str, kind: str, *, interrupt: bool = False) -> str:
    return text.format(role=role, place=place, kind=kind, grace=GRACE, interrupt=interrupt)


@contextmanager
def ending(text: str, role: str, place: str, kind: str) -> Iterator[tuple[list[str], list[str]]]:
    """Run a script to its end; lines of its output, and warnings about methods."""
    with program(script(text, role, place, kind)) as process:
        begin = time.monotonic()
        try:
            out, err = process.communicate(timeout=110)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            pytest.fail(f"it hangs: {out} {err}")
        assert process.returncode == 0, (out, err, time.monotonic() - begin)
    assert "Traceback" not in err, err
    lines = out.splitlines()
    assert lines[-1] == "end"
    yield lines, [line for line in err.splitlines() if "does not" in line]


def assert_named(warnings: list[str], role: str, kind: str) -> None:
    (warning,) = warnings
    assert warning.startswith("WARNING cogrs")
    called = {"inline": "block", "plain": "block", "swallow": "swallow"}.get(kind, "swallow_all")
    assert NAMES.get(role, f"pre-trial hook: {called}") in warning
    assert "trial " in warning


def assert_in_time(lines: list[str]) -> None:
    stops = [float(line.split()[1]) for line in lines if line.startswith("stop ")]
    assert stops
    assert max(stops) < (GRACE + 1) * SLACK


@pytest.mark.parametrize(
    ("role", "place", "kind"),
    pairwise(ROLES, PLACES, ["plain", "inline", "swallow", "swallow all"]),
)
def test_servers_of_threads_stop_while_a_method_hangs(role: str, place: str, kind: str) -> None:
    with ending(THREADS + STOPS, role, place, kind) as (lines, warnings):
        assert_in_time(lines)
        assert_named(warnings, role, kind)


@pytest.mark.parametrize(
    ("role", "place", "kind"), pairwise(ROLES, PLACES, ["plain", "swallow", "swallow all"])
)
def test_servers_of_a_loop_stop_while_a_method_hangs(role: str, place: str, kind: str) -> None:
    with ending(ON_LOOP, role, place, kind) as (lines, warnings):
        assert_in_time(lines)
        assert_named(warnings, role, kind)


@pytest.mark.parametrize(
    ("role", "place", "kind"),
    pairwise(["environment", "log"], PLACES, ["plain", "inline", "swallow", "executor"]),
)
def test_script_that_stops_no_server_ends(role: str, place: str, kind: str) -> None:
    with ending(THREADS + FORGETS, role, place, kind):
        pass


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT for one process")
@pytest.mark.parametrize("kind", ["plain", "inline", "swallow"])
@pytest.mark.parametrize("place", PLACES)
def test_ctrl_c_ends_a_stop_that_waits_for_a_hung_method(place: str, kind: str) -> None:
    text = script(THREADS + INTERRUPTED, "environment", place, kind, interrupt=True)
    with program(text) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "entered\n"
        # The first one ends run_trial; the block stops the server then.
        press_ctrl_c_until_end(process)
        out, _ = process.communicate(timeout=60)
        assert out.splitlines()[-1] == "end" or process.returncode == -signal.SIGINT
        assert "interrupted" in out


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT for one process")
def test_ctrl_c_ends_an_inline_method_on_the_callers_loop() -> None:
    text = script(ON_LOOP, "environment", "local", "inline")
    with program(text.replace("asyncio.run(main())", WATCHED)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "entered\n"
        # asyncio.run cancels its main task at the first one, which this loop never comes to.
        press_ctrl_c_until_end(process)
        process.communicate(timeout=60)
        assert process.returncode != 0


def press_ctrl_c_until_end(process: subprocess.Popen[str]) -> None:
    """Send SIGINT each second: beside other work a process may take two for one."""
    limit = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < limit:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(1)


WATCHED = """
threading.Thread(target=lambda: entered.wait(60) and print("entered", flush=True)).start()
asyncio.run(main())
"""
