"""The supervisor of a run: starts its parts, again where they fail, and ends them.

On one machine it is a process of its own, so that a run can outlive its driver. Parts end when it
does, by whatever means: their standard input ends with it.
"""

from __future__ import annotations

import logging
import signal
import time
import traceback
from functools import partial
from typing import TYPE_CHECKING, Final

from cogrs.cluster.child import ProcessChild
from cogrs.cluster.part import Part, watch_parent
from cogrs.cluster.process import set_up_log
from cogrs.cluster.run_folder import RunFolder
from cogrs.cluster.state import ENDED, FAILED, RUNNING, RunState
from cogrs.stop_signal import StopSignal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cogrs.cluster.child import Child
    from cogrs.cluster.part import StopFlag

_logger = logging.getLogger("cogrs.cluster")

_LOOK: Final = 0.1
_DRIVER_GRACE: Final = 120.0
"""Seconds that a supervisor has to end after its driver."""
_GRACE: Final = 30.0
"""Seconds that parts have to end, if nothing else was said."""
_STAGES: Final = ("actor", "shard", "learner", "directory")
"""Roles in the order in which they are ended."""


class Supervisor:
    """Tends the parts of a run until it ends."""

    def __init__(
        self,
        folder: RunFolder,
        stop: StopFlag,
        new_child: Callable[[str, int, int], Child],
        *,
        serves_directory: bool = False,
    ) -> None:
        """Start nothing yet.

        Args:
            folder: The run.
            stop: Whether the run is to end.
            new_child: Creates a part of a role, an index and a generation.
            serves_directory: Whether the directory is in this process, and not a part to start.
        """
        self._folder = folder
        self._stop = stop
        self._new_child = new_child
        self._serves_directory = serves_directory
        self._first_generation = folder.read("plan.json")["generation"]
        self._part = Part(folder, "supervisor", 0, self._first_generation, stop)
        self._children: dict[tuple[str, int], Child] = {}
        self._actors = self._part.plan.actors
        self._grace: float | None = None
        """Seconds to end in, once that was ordered."""
        self._driver_ended = False
        self.error = ""

    def run(self) -> None:
        """Tend the parts until the run ends; `error` says why if it fails."""
        plan = self._part.plan
        if not self._serves_directory:
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
                    self._tell(RUNNING)
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
                self._children[role, index] = self._new_child(role, index, generation)
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

    def _give_up(self, child: Child) -> None:
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
        self._folder.write_state(RunState(state, self.error))

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
            for child in children:
                child.tend()  # what has ended is released
        self._tell(FAILED if self.error else ENDED)


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
        supervisor = Supervisor(folder, stop, partial(ProcessChild, folder))
        if not int(detached):
            watch_parent(supervisor.driver_ended, _DRIVER_GRACE)
        try:
            supervisor.run()
        except Exception:
            text = traceback.format_exc()
            _logger.error("%s", text)
            folder.write_state(RunState(FAILED, text))
            return 1
    return 1 if supervisor.error else 0
