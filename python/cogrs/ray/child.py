"""A part on Ray, as the run's supervisor sees it."""

from __future__ import annotations

import logging
import re
import signal
from typing import TYPE_CHECKING, Any

import ray

from cogrs.cluster.child import Child
from cogrs.ray.names import NAMESPACE, actor_name
from cogrs.ray.part import RayPart
from cogrs.ray.placement import strategy_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cogrs.cluster.run_folder import RunFolder

_logger = logging.getLogger("cogrs.cluster")


class RayChild(Child):
    """A Ray actor, which Ray places; its supervisor restarts it, by the rule of all engines.

    A supervisor that was itself restarted finds the actor by its name, and goes on with it.
    """

    def __init__(
        self, role: str, index: int, generation: int, make: Callable[[str, int], Any], run: str
    ) -> None:
        """Start nothing yet; `make` starts an actor for a role and an index."""
        super().__init__(role, index, generation)
        self._make = make
        self._actor_name = actor_name(run, role, index)
        self._end: Any = None
        """What Ray returns when it has ended."""
        self._text = ""

    @classmethod
    def factory(
        cls,
        folder: RunFolder,
        files: Mapping[str, bytes],
        cpus: Mapping[str, float],
        functions: Mapping[str, Callable[..., Any]],
    ) -> Callable[[str, int, int], RayChild]:
        """Return what creates a part of a run by role, index and generation."""
        plan = folder.plan()

        def make(role: str, index: int) -> Any:
            options = {
                "name": actor_name(folder.name, role, index),
                "namespace": NAMESPACE,
                "lifetime": "detached",
                "max_restarts": 0,
                "max_concurrency": 4,  # one waits for its end
                "num_cpus": cpus[role],
                "scheduling_strategy": strategy_of(plan, folder.name, role, index),
            }
            arguments = (str(folder.path), files, functions, role, index)
            return ray.remote(RayPart).options(**options).remote(*arguments)

        return lambda role, index, generation: cls(role, index, generation, make, folder.name)

    def _start(self) -> Any:
        try:
            actor = ray.get_actor(self._actor_name, namespace=NAMESPACE)
        except ValueError:  # there is no such actor
            try:
                actor = self._make(self.role, self.index)
            except ValueError:  # the one before is about to end
                return None
        self._end = actor.wait.remote()
        return actor

    def _exit_code(self) -> int | None:
        done, _ = ray.wait([self._end], timeout=0)
        if not done:
            return None
        try:
            self._text = ray.get(self._end).rstrip()
        except ray.exceptions.RayError as error:
            _logger.error("%s: %s", self.name, " ".join(str(error).split()))
            cause = re.search(r"exit type: (\w+)", str(error))
            self._text = "its process ended unexpectedly" + (f": {cause[1]}" if cause else "")
            return 1
        return 1 if self._text else 0

    def _send(self, number: int) -> None:
        if number == signal.SIGKILL:
            ray.kill(self._runs, no_restart=True)
        else:
            self._runs.stop.remote()

    def _close(self) -> None:
        ray.kill(self._runs, no_restart=True)

    def _why(self, code: int) -> str:
        return self._text or f"ended with exit code {code}, though nobody had asked for that"
