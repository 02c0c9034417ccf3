"""`RayRun`: what a driver holds of a run on Ray."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, Final, Self

import ray
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from cogrs.cluster.directory_client import DirectoryClient
from cogrs.cluster.part import directory_endpoint
from cogrs.cluster.status import RunStatus, status_of
from cogrs.ray.parts import NAMESPACE, RayPart, actor_name, files_of, options
from cogrs.replay.net.deadline import Deadline
from cogrs.validation import check_count, check_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cogrs.cluster.run_folder import RunFolder

_LOOK: Final = 0.2
_ANSWER: Final = 5.0
"""Seconds in which a Ray actor that is there answers."""
_STAGES: Final = ("actor", "shard", "learner")


class RayRun:
    """A run on Ray. As a context manager it ends the run."""

    def __init__(self, folder: RunFolder, cpus: Mapping[str, float]) -> None:
        """Follow the run of a folder; use `launch` or `attach`."""
        self._folder = folder
        self._cpus = cpus
        self._is_up = False
        self._is_over = False
        self._directory = DirectoryClient(
            self._endpoint(),
            key=folder.secret_key("learner"),
            server_key=folder.server_key(),
        )

    @property
    def name(self) -> str:
        """The name of the run."""
        return self._folder.name

    def status(self) -> RunStatus:
        """Return the run's parts, and what became of its rows; of a run that is over, the last.

        Raises:
            TimeoutError: The directory does not answer.
        """
        if self._is_over:
            return status_of(self.name, "ended", "", self._folder.read("status.json"))
        state = "running" if self._is_up else "starting"
        return status_of(self.name, state, "", self._directory.status())

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the learner has made its updates, and end the run then.

        Ctrl-C ends the run, too; a second one leaves at once.

        Returns:
            Whether it has ended; False after `timeout` seconds, None waits without a limit.
        """
        deadline = Deadline.of("timeout", timeout)
        try:
            while not self._is_over and not self._has_ended("learner", 0):
                if deadline.passed:
                    return False
                time.sleep(_LOOK)
        except KeyboardInterrupt:
            self.stop()
            raise
        self.stop()
        return True

    def wait_until_up(self, timeout: float | None) -> None:
        """Wait until all parts have registered; a TimeoutError names those that have not."""
        plan = self._folder.plan()
        wanted = {("learner", 0), *(("shard", index) for index in range(plan.shards))}
        wanted |= {("actor", index) for index in range(plan.actors)}
        deadline = Deadline.of("timeout", timeout)
        while True:
            with contextlib.suppress(TimeoutError):
                found = {(each.role, each.index) for each in self.status().parts}
                if wanted <= found:
                    self._is_up = True
                    return
                if deadline.passed:
                    names = ", ".join(f"{role} {index}" for role, index in sorted(wanted - found))
                    raise RuntimeError(f"{names} have not registered within {timeout:g} s")
            time.sleep(_LOOK)

    def scale(self, *, actors: int) -> None:
        """Change the number of actors; further ones are spread over the nodes.

        Raises:
            TypeError, ValueError: `actors` is not an integer, or below the number of shards.
        """
        check_count("actors", actors, self._folder.plan().shards)
        self._directory.order(actors=actors)
        there = {each.index for each in self.status().parts if each.role == "actor"}
        for index in range(max([*there, actors - 1]) + 1):
            part = self._part("actor", index)
            if index < actors and part is None:
                self.start_part("actor", index)
            elif index >= actors and part is not None:
                self._end(["actor"], [index], Deadline(_ANSWER))

    def stop(self, grace: float = 30.0) -> None:
        """End the run: actors first, then shards and the learner, which write checkpoints.

        Args:
            grace: Seconds after which parts that have not ended are killed.
        """
        check_seconds("grace", grace)
        if self._is_over:
            return
        deadline = Deadline(grace)
        status: dict[str, Any] = {"parts": [], "ended": {}}
        with contextlib.suppress(TimeoutError):
            status = self._directory.status()
        roles: dict[str, list[int]] = {role: [0] for role in _STAGES}
        for each in status["parts"]:
            roles[each["role"]].append(each["index"])
        plan = self._folder.plan()
        roles["actor"] += range(plan.actors)
        roles["shard"] += range(plan.shards)
        for role in _STAGES:
            self._end([role], sorted(set(roles[role])), deadline)
        with contextlib.suppress(TimeoutError):
            status = self._directory.status()
        self._folder.write("status.json", status)
        directory = self._part("directory", 0)
        if directory is not None:
            with contextlib.suppress(ray.exceptions.RayError):
                ray.get(directory.end.remote(), timeout=_ANSWER)
            ray.kill(directory, no_restart=True)
        with contextlib.suppress(ValueError):  # a stop before this one has removed it
            ray.util.remove_placement_group(ray.util.get_placement_group(self.name))
        self._is_over = True

    def close(self) -> None:
        """Leave the run, which goes on."""
        self._directory.close()

    def start_part(self, role: str, index: int, group: Any = None, bundle: int = -1) -> None:
        """Start a part in a bundle of a placement group, or wherever there is room."""
        strategy: Any = "SPREAD"
        if group is not None:
            strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=bundle)
        chosen = options(
            role, self.name, index, num_cpus=self._cpus[role], scheduling_strategy=strategy
        )
        ray.remote(RayPart).options(**chosen).remote(
            str(self._folder.path), files_of(self._folder), self.name, role, index
        )

    def _end(self, roles: list[str], indices: list[int], deadline: Deadline) -> None:
        """Ask parts to stop, wait until they have, and remove them."""
        parts = [(role, index) for role in roles for index in indices]
        for part in parts:
            if (found := self._part(*part)) is not None:
                found.stop.remote()
        for part in parts:
            while not deadline.passed and self._part(*part) and not self._has_ended(*part):
                time.sleep(0.05)
            if (found := self._part(*part)) is not None:
                ray.kill(found, no_restart=True)

    def _has_ended(self, role: str, index: int) -> bool:
        """Return whether a part has ended as it should; False while it does not answer."""
        part = self._part(role, index)
        if part is None:
            return False
        try:
            return bool(ray.get(part.has_ended.remote(), timeout=_ANSWER))
        except ray.exceptions.RayError:
            return False

    def _part(self, role: str, index: int) -> Any:
        """Return a Ray actor; None if there is no such."""
        try:
            return ray.get_actor(actor_name(self.name, role, index), namespace=NAMESPACE)
        except ValueError:
            return None

    def _endpoint(self) -> Any:
        """Return a function that asks Ray where the directory listens, now and then."""
        in_folder = directory_endpoint(self._folder)
        asked = [0.0]

        def endpoint() -> str | None:
            if time.monotonic() - asked[0] > 1.0:
                asked[0] = time.monotonic()
                directory = self._part("directory", 0)
                if directory is not None:
                    with contextlib.suppress(ray.exceptions.RayError):
                        found = ray.get(directory.endpoint.remote(), timeout=1.0)
                        if found != in_folder():
                            self._folder.write("directory.json", {"endpoint": found})
            return in_folder()

        return endpoint

    def __enter__(self) -> Self:
        """Return the run."""
        return self

    def __exit__(self, *_exc: object) -> None:
        """End it."""
        self.stop()
        self.close()
