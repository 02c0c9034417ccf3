"""The directory and the supervisor of a run, in one actor of Ray that Ray restarts."""

from __future__ import annotations

import contextlib
import logging
import threading
import traceback
from typing import TYPE_CHECKING, Any

import ray

from cogrs.cluster.process import open_directory
from cogrs.cluster.state import FAILED, RunState
from cogrs.cluster.supervisor import Supervisor
from cogrs.ray.child import RayChild
from cogrs.ray.names import DIRECTORY
from cogrs.ray.part import folder_of, print_to
from cogrs.ray.placement import free

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_logger = logging.getLogger("cogrs.cluster")


class RayDirectory:
    """The directory of a run and its supervisor; after the run it tells how that has ended."""

    def __init__(
        self,
        path: str,
        files: Mapping[str, bytes],
        cpus: Mapping[str, float],
        functions: Mapping[str, Callable[..., Any]],
    ) -> None:
        """Listen at the node's address, and tend the run's parts if it is not over."""
        self._folder = folder_of(path, files)
        print_to(self._folder, DIRECTORY, 0)
        self._stop = threading.Event()
        self._directory, self._server = open_directory(self._folder, ray.util.get_node_ip_address())
        with contextlib.suppress(FileNotFoundError):
            self._directory.order(self._folder.read("order.json"))
        if self.state().is_over:
            return
        new_child = RayChild.factory(self._folder, files, cpus, functions)
        self._supervisor = Supervisor(self._folder, self._stop, new_child, serves_directory=True)
        threading.Thread(target=self._tend, name="cogrs-supervisor", daemon=True).start()

    def endpoint(self) -> str:
        """Return where the directory listens."""
        return self._server.endpoint

    def state(self) -> RunState:
        """Return the run's state, and why it failed."""
        return self._folder.state()

    def status(self) -> tuple[RunState, dict[str, Any]]:
        """Return the state, and what `Directory.status` says; of a run that is over, the last."""
        state = self.state()
        if state.is_over:
            with contextlib.suppress(FileNotFoundError):
                return state, self._folder.read("status.json")
        return state, self._directory.status()

    def order(self, what: Mapping[str, Any]) -> None:
        """Ask the supervisor for a number of `actors`, or to `stop` within seconds."""
        if "actors" in what:
            self._folder.write("order.json", {"actors": what["actors"]})
        self._directory.order(what)

    def log(self, longest: int) -> bytes:
        """Return what it has printed, at most the last `longest` bytes."""
        return self._folder.tail(DIRECTORY, 0, longest)

    def _tend(self) -> None:
        try:
            self._supervisor.run()
        except Exception:
            text = traceback.format_exc()
            _logger.error("%s", text)
            self._folder.write_state(RunState(FAILED, text))
        finally:
            self._directory.end_all()
            free(self._folder.name)
