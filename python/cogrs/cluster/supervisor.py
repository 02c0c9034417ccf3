"""The supervisor of a run on one machine: starts its parts, again where they fail, and ends them.

It is a process of its own, so that a run can outlive its driver. Parts end when it does, by
whatever means: their standard input ends with it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import time
import traceback
from typing import TYPE_CHECKING, Final

from cogrs.cluster.part import Part, watch_parent
from cogrs.cluster.process import set_up_log, start_process
from cogrs.cluster.restart_rule import RestartRule
from cogrs.cluster.run_folder import RunFolder
from cogrs.stop_signal import StopSignal

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterable

_logger = logging.getLogger("cogrs.cluster")

_LOOK: Final = 0.1
_DRIVER_GRACE: Final = 120.0
"""Seconds that a supervisor has to end after its driver."""
_GRACE: Final = 30.0
"""Seconds that parts have to end, if nothing else was said."""
_STAGES: Final = ("actor", "shard", "learner", "directory")
"""Roles in the order in which they are ended."""


class _Child:
    """One part: its process, and its failures."""

    def __init__(self, folder: RunFolder, role: str, index: int, generation: int) -> None:
        self.role, self.index = role, index
        self.name = f"{role}-{index}"
        self.generation = generation
        self.restarts = 0
        self.error = ""
        self.given_up = False
        self.asked_to_end = False
        self._folder = folder
        self._rule = RestartRule()
        self._due: float | None = 0.0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def tend(self) -> int | None:
        """Start it when it is due; return the exit code when it has ended just now."""
        if self._process is None:
            if self._due is not None and time.monotonic() >= self._due:
                self._start()
            return None
        code = self._process.poll()
        if code is not None:
            self._forget_process()
        return code

    def fail(self, code: int) -> None:
        """Note that it has ended unasked; it is started again later, or given up."""
        self.error = self._why(code)
        delay = self._rule.delay(time.monotonic())
        _logger.error("%s failed: %s", self.name, self.error)
        if delay is None:
            self.given_up = True
            _logger.error("%s is given up", self.name)
            return
        self.restarts += 1
        self.generation += 1
        self._due = time.monotonic() + delay

    def signal(self, number: int) -> None:
        if self.alive and self._process is not None:
            self._process.send_signal(number)
        self.asked_to_end = True
        self._due = None

    def renew(self) -> None:
        """Start it again after it was ended on purpose."""
        self.generation += 1
        self._due = 0.0

    def _start(self) -> None:
        self._due = None
        self.asked_to_end = False
        self._folder.error(self.role, self.index).unlink(missing_ok=True)
        arguments = (self.role, self.index, self.generation)
        with open(self._folder.log(self.role, self.index), "ab") as log:
            self._process = start_process(self._folder, "cogrs.cluster.process", arguments, log)

    def _forget_process(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process = None

    def _why(self, code: int) -> str:
        if code < 0:
            return f"ended by {signal.Signals(-code).name}"
        with contextlib.suppress(OSError):
            return self._folder.error(self.role, self.index).read_text().strip()
        return f"ended with exit code {code}, though nobody had asked for that"


class Supervisor:
    """Tends the parts of a run until it ends."""

    def __init__(self, folder: RunFolder, stop: StopSignal) -> None:
        """Start nothing yet."""
        self._folder = folder
        self._stop = stop
        self._first_generation = folder.read("plan.json")["generation"]
        self._part = Part(folder, "supervisor", 0, self._first_generation, stop)
        self._children: dict[tuple[str, int], _Child] = {}
        self._actors = self._part.plan.actors
        self._grace: float | None = None
        """Seconds to end in, once that was ordered."""
        self._driver_ended = False
        self.error = ""

    def run(self) -> None:
        """Tend the parts until the run ends; `error` says why if it fails."""
        plan = self._part.plan
        self._add("directory", [0])
        self._add("shard", range(plan.shards))
        self._add("learner", [0])
        self._add("actor", range(self._actors))
        self._part.register({"actors": self._wanted()})
        is_up = False
        try:
            while not self._is_over():
                self._follow_orders()
                self._tend()
                if not is_up and self._all_registered():
                    is_up = True
                    self._tell("running")
                self._report()
                time.sleep(_LOOK)
        finally:
            self._end(_GRACE if self._grace is None else self._grace)

    def driver_ended(self) -> None:
        """Note that the driver has ended: the run ends too."""
        _logger.info("the driver has ended")
        self._driver_ended = True

    def _is_over(self) -> bool:
        asked = self._stop.is_set() or self._driver_ended or self._grace is not None
        return asked or bool(self.error) or ("learner", 0) not in self._children

    def _add(self, role: str, indices: Iterable[int]) -> None:
        for index in indices:
            child = self._children.get((role, index))
            if child is None:
                generation = self._first_generation
                self._children[role, index] = _Child(self._folder, role, index, generation)
            else:
                child.renew()

    def _wanted(self) -> list[int]:
        return [
            index
            for (role, index), child in sorted(self._children.items())
            if role == "actor" and index < self._actors and not child.given_up
        ]

    def _follow_orders(self) -> None:
        order = self._part.snapshot["order"]
        if "stop" in order:
            self._grace = float(order["stop"])
            return
        actors = int(order.get("actors", self._actors))
        if actors == self._actors:
            return
        _logger.info("%d actors instead of %d", actors, self._actors)
        before, self._actors = self._actors, actors
        self._add("actor", range(before, actors))
        for index in range(actors, before):
            self._children["actor", index].signal(signal.SIGTERM)

    def _tend(self) -> None:
        for key, child in list(self._children.items()):
            code = child.tend()
            if code is None:
                continue
            if child.asked_to_end:
                continue  # it may be wanted again by now
            if child.role == "learner" and code == 0:
                _logger.info("the learner has made its updates")
                del self._children[key]
                return
            child.fail(code)
            if child.given_up:
                self._give_up(child)
        if self._wanted() != self._part.place("actors"):
            self._part.update_place(actors=self._wanted())

    def _give_up(self, child: _Child) -> None:
        if child.role != "actor":
            self.error = f"{child.name} was given up: {child.error}"
        elif not self._wanted():
            self.error = f"all actors were given up, {child.name} last: {child.error}"

    def _all_registered(self) -> bool:
        parts = {(each["role"], each["index"]) for each in self._part.snapshot["parts"]}
        return all(key in parts for key in self._children if key[0] != "directory")

    def _report(self) -> None:
        children = self._children.values()
        self._part.report = {
            "restarts": {each.name: each.restarts for each in children if each.restarts},
            "errors": {each.name: each.error for each in children if each.error},
            "given_up": [each.name for each in children if each.given_up],
        }

    def _tell(self, state: str) -> None:
        self._folder.write("state.json", {"state": state, "error": self.error, "pid": os.getpid()})

    def _keep_status(self) -> None:
        """Write the last status of all parts, and leave the directory."""
        self._report()
        directory = self._part.directory
        try:
            directory.exchange(self._part.told(), 0, 0.0)
            self._folder.write("status.json", directory.status())
        except (TimeoutError, OSError) as error:
            _logger.error("the last status is not kept: %s", error)
        self._part.close()

    def _end(self, grace: float) -> None:
        """End all parts, one role after the other; kill those that take too long."""
        _logger.info("ending, within %g s", grace)
        end = time.monotonic() + grace
        for role in _STAGES:
            if role == "directory":
                self._keep_status()
            children = [each for each in self._children.values() if each.role == role]
            for child in children:
                child.signal(signal.SIGTERM)
            while any(child.alive for child in children):
                if time.monotonic() > end:
                    for child in children:
                        _logger.error("%s is killed: it did not end in time", child.name)
                        child.signal(signal.SIGKILL)
                    end += 1.0
                time.sleep(0.02)
        self._tell("failed" if self.error else "ended")


def main(path: str, detached: str) -> int:
    """Run a supervisor until its run ends; return the exit code."""
    set_up_log()
    folder = RunFolder.at(path)
    lock = folder.lock()
    if lock is None:
        _logger.error("another supervisor has this run")
        return 2
    with StopSignal() as stop:
        stop.quiet = True
        supervisor = Supervisor(folder, stop)
        if not int(detached):
            watch_parent(supervisor.driver_ended, _DRIVER_GRACE)
        try:
            supervisor.run()
        except Exception:
            text = traceback.format_exc()
            _logger.error("%s", text)
            folder.write("state.json", {"state": "failed", "error": text, "pid": os.getpid()})
            return 1
    return 1 if supervisor.error else 0
