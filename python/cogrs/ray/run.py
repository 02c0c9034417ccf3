"""`RayRun`: what a driver holds of a run on Ray."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, Final, Self

import ray

from cogrs.cluster.directory import SUPERVISOR
from cogrs.cluster.run import LONGEST_LOG
from cogrs.cluster.state import STARTING, RunState
from cogrs.cluster.status import RunStatus, status_of
from cogrs.ray.names import DIRECTORY, NAMESPACE, actor_name, prefix
from cogrs.ray.placement import free
from cogrs.replay.net.deadline import Deadline
from cogrs.validation import check_count, check_integer, check_seconds

if TYPE_CHECKING:
    from cogrs.cluster.run_folder import RunFolder

_LOOK: Final = 0.2
_ANSWER: Final = 5.0
"""Seconds in which an actor of Ray that is there answers."""
_RESTART: Final = 60.0
"""Seconds that Ray may take to restart the directory."""
_KILL_AFTER: Final = 10.0
"""Seconds beyond the grace after which the run is killed."""


class RayRun:
    """A run on Ray. As a context manager it ends the run."""

    def __init__(self, folder: RunFolder) -> None:
        """Follow the run of a folder; use `launch` or `attach`."""
        self._folder = folder
        self._directory: Any = ray.get_actor(
            actor_name(folder.name, DIRECTORY, 0), namespace=NAMESPACE
        )

    @property
    def name(self) -> str:
        """The name of the run."""
        return self._folder.name

    @property
    def state(self) -> str:
        """What the run does: "starting", "running", "ended" or "failed"."""
        return self._state().state

    def status(self) -> RunStatus:
        """Return the run's parts, and what became of its rows; of a run that is over, the last.

        Raises:
            TimeoutError: The directory does not answer.
        """
        state, told = self._ask("status")
        return status_of(self.name, state, told)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the run ends, by its updates or another driver's `stop`.

        Ctrl-C ends the run, too; a second one leaves at once.

        Args:
            timeout: Seconds; None waits without a limit.

        Returns:
            Whether it has ended.

        Raises:
            RunFailedError: It has failed; the text says why.
        """
        deadline = Deadline.of("timeout", timeout)
        try:
            while not (found := self._state()).is_over:
                if deadline.passed:
                    return False
                time.sleep(_LOOK)
        except KeyboardInterrupt:
            self.stop()
            raise
        found.check(self.name)
        return True

    def wait_until_up(self, timeout: float | None) -> None:
        """Wait until all parts have registered.

        Raises:
            TimeoutError: They have not after `timeout` seconds; the text names those missing.
            RunFailedError: The run has failed.
        """
        deadline = Deadline.of("timeout", timeout)
        while (found := self._state()).state == STARTING:
            if deadline.passed:
                there = {(each.role, each.index) for each in self.status().parts}
                plan = self._folder.plan()
                wanted = [("learner", 0), *(("shard", index) for index in range(plan.shards))]
                wanted += [("actor", index) for index in range(plan.actors)]
                missing = ", ".join(f"{role} {i}" for role, i in wanted if (role, i) not in there)
                raise TimeoutError(
                    f"{self.name}: {missing} have not registered within {timeout:g} s"
                )
            time.sleep(_LOOK)
        found.check(self.name)

    def scale(self, *, actors: int) -> None:
        """Change the number of actors; further ones are spread over the nodes.

        Raises:
            TypeError, ValueError: `actors` is not an integer, or below the number of shards.
            RuntimeError: The run is over.
            TimeoutError: The directory does not answer.
        """
        check_count("actors", actors, self._folder.plan().shards)
        if self._state().is_over:
            raise RuntimeError(f"{self.name}: the run is over")
        self._ask("order", {"actors": actors})

    def logs(self, part: str, index: int = 0) -> str:
        """Return what a part has printed on its present node, at most the last MiB.

        Args:
            part: "shard", "actor", "learner", "directory" or "supervisor", which are one here.
            index: Its number.

        Raises:
            TypeError, ValueError: `part` or `index` is neither.
            FileNotFoundError: There is no such part now, and this machine has no log of it.
        """
        if part == SUPERVISOR:
            part = DIRECTORY
        if part not in ("shard", "actor", "learner", DIRECTORY):
            expected = "shard, actor, learner, directory or supervisor"
            raise ValueError(f"part: expected {expected}, got {part!r}")
        check_integer("index", index, 0, 2**31)
        with contextlib.suppress(ValueError, ray.exceptions.RayError):
            found = ray.get_actor(actor_name(self.name, part, index), namespace=NAMESPACE)
            log: bytes = ray.get(found.log.remote(LONGEST_LOG), timeout=_ANSWER)
            return log.decode(errors="replace")
        return self._folder.tail(part, index, LONGEST_LOG).decode(errors="replace")

    def stop(self, grace: float = 30.0) -> None:
        """End the run: actors first, then shards and the learner, which write checkpoints.

        Args:
            grace: Seconds after which parts that have not ended are killed.

        Raises:
            TypeError, ValueError: `grace` is not a number of seconds >= 0.
        """
        check_seconds("grace", grace)
        deadline = Deadline(grace + _KILL_AFTER)
        is_asked = False
        while not deadline.passed:
            with contextlib.suppress(TimeoutError):
                if self._state().is_over:
                    return
                if not is_asked:
                    self._ask("order", {"stop": grace})
                    is_asked = True
            time.sleep(_LOOK)
        self.kill()

    def kill(self) -> None:
        """End all actors of the run at once, without checkpoints."""
        # The directory first: it would start the others again.
        names = [each["name"] for each in ray.util.list_named_actors(all_namespaces=True)]
        mine = [each for each in names if each is not None and each.startswith(prefix(self.name))]
        for each in sorted(mine, key=lambda name: DIRECTORY not in name):
            with contextlib.suppress(ValueError):  # it has just ended
                ray.kill(ray.get_actor(each, namespace=NAMESPACE), no_restart=True)
        free(self.name)

    def close(self) -> None:
        """Leave the run, which goes on; calls raise a RuntimeError from then on."""
        self._directory = None

    def _state(self) -> RunState:
        found: RunState = self._ask("state")
        return found

    def _ask(self, method: str, *arguments: Any) -> Any:
        """Call the directory; while Ray restarts it, wait."""
        if self._directory is None:
            raise RuntimeError(f"{self.name}: this run is closed: cogrs.ray.attach finds it again")
        deadline = Deadline(_RESTART)
        while True:
            try:
                return ray.get(getattr(self._directory, method).remote(*arguments), timeout=_ANSWER)
            except ray.exceptions.RayActorError as error:
                if deadline.passed or isinstance(error, ray.exceptions.ActorDiedError):
                    raise TimeoutError(f"{self.name}: the directory does not answer") from error
            except ray.exceptions.GetTimeoutError as error:
                if deadline.passed:
                    raise TimeoutError(f"{self.name}: the directory does not answer") from error
            time.sleep(_LOOK)

    def __enter__(self) -> Self:
        """Return the run."""
        return self

    def __exit__(self, *_exc: object) -> None:
        """End it."""
        self.stop()
        self.close()
