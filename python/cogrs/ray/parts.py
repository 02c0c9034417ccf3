"""What runs in Ray's actors: a part of `cogrs.cluster` each, or the directory.

A part runs on a thread of its own, so that Ray's calls are answered meanwhile. One that fails ends
its process, and Ray starts it again; files of the run come with it, so nodes need not share them,
but for checkpoints.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import ray

from cogrs.cluster.part import PERIOD, Part
from cogrs.cluster.process import PARTS, open_directory
from cogrs.cluster.run_folder import RunFolder
from cogrs.files import replacing

if TYPE_CHECKING:
    from collections.abc import Mapping

NAMESPACE: Final = "cogrs"
"""Ray's namespace of all runs."""

_logger = logging.getLogger("cogrs.cluster")


def actor_name(run: str, role: str, index: int = 0) -> str:
    """Return the name of a Ray actor."""
    return f"{run}/{role}-{index}"


def files_of(folder: RunFolder) -> dict[str, bytes]:
    """Return the files of a run that its parts need: the plan and the keys."""
    paths = [folder.path / "plan.json", *(folder.path / "keys").rglob("*.key*")]
    return {str(each.relative_to(folder.path)): each.read_bytes() for each in paths}


def _folder_of(path: str, files: Mapping[str, bytes]) -> RunFolder:
    """Write the files of a run where they are missing, and return its folder."""
    folder = RunFolder.at(path)
    for name, content in files.items():
        where = folder.path / name
        if not where.exists():
            where.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with replacing(where) as file:
                file.write(content)
    folder.logs.mkdir(exist_ok=True)
    sys.path += [each for each in folder.read("plan.json")["path"] if each not in sys.path]
    return folder


class RayDirectory:
    """The directory of a run."""

    def __init__(self, path: str, files: Mapping[str, bytes]) -> None:
        """Listen at the node's address."""
        folder = _folder_of(path, files)
        self._directory, self._server = open_directory(folder, ray.util.get_node_ip_address())

    def endpoint(self) -> str:
        """Return where it listens."""
        return self._server.endpoint

    def end(self) -> None:
        """Remember the counts of all parts, for the run is over."""
        self._directory.end_all()
        self._server.close()


class RayPart:
    """A shard, an actor or the learner."""

    def __init__(
        self, path: str, files: Mapping[str, bytes], run: str, role: str, index: int
    ) -> None:
        """Start it."""
        self._folder = _folder_of(path, files)
        self._run = run
        self._stop = threading.Event()
        # Ray starts it anew after a failure: later is larger.
        generation = time.time_ns() // 1_000_000
        self._part = Part(self._folder, role, index, generation, self._stop)
        self._part.host = ray.util.get_node_ip_address()
        self._thread = threading.Thread(target=self._work, name="cogrs-part", daemon=True)
        self._thread.start()
        threading.Thread(target=self._find_directory, name="cogrs-find", daemon=True).start()

    def has_ended(self) -> bool:
        """Return whether it has ended as it should."""
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Ask it to stop; `has_ended` tells when it has."""
        self._stop.set()

    def pid(self) -> int:
        """Return its process."""
        return os.getpid()

    def _work(self) -> None:
        try:
            PARTS[self._part.role](self._part)
        except Exception as error:
            _logger.exception("this part fails")
            self._part.note_error(error)
            self._part.close()
            os._exit(1)

    def _find_directory(self) -> None:
        """Write where the directory listens, again when it has moved."""
        known = None
        while self._thread.is_alive():
            try:
                found = ray.get_actor(actor_name(self._run, "directory"), namespace=NAMESPACE)
                endpoint = ray.get(found.endpoint.remote(), timeout=PERIOD)
                if endpoint != known:
                    self._folder.write("directory.json", {"endpoint": endpoint})
                    known = endpoint
            except (ValueError, OSError, ray.exceptions.RayError) as error:
                _logger.info("the directory is not there: %s", error)
            time.sleep(PERIOD / 4)


def options(role: str, run: str, index: int, **more: Any) -> dict[str, Any]:
    """Return Ray's options of an actor: a name, a lifetime beyond the driver's, and restarts."""
    restarts = {"directory": -1, "shard": -1, "learner": 3, "actor": 3}[role]
    return {
        "name": actor_name(run, role, index),
        "namespace": NAMESPACE,
        "lifetime": "detached",
        "max_restarts": restarts,
        "max_task_retries": 0,
        **more,
    }
