"""A part of `cogrs.cluster` in an actor of Ray.

It runs on a thread of its own, so that Ray's calls are answered meanwhile. Files of the run come
with it, so nodes need not share them, but for checkpoints. What it prints goes to the run's log of
it, on its node.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any

import ray

from cogrs.cluster.part import PERIOD, Part
from cogrs.cluster.process import PARTS, set_up_log
from cogrs.cluster.run_folder import RunFolder
from cogrs.files import replacing
from cogrs.ray.names import DIRECTORY, NAMESPACE, actor_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_logger = logging.getLogger("cogrs.cluster")


class RayPart:
    """A shard, an actor or the learner."""

    def __init__(
        self,
        path: str,
        files: Mapping[str, bytes],
        functions: Mapping[str, Callable[..., Any]],
        role: str,
        index: int,
    ) -> None:
        """Start it."""
        self._folder = folder_of(path, files)
        print_to(self._folder, role, index)
        self._stop = threading.Event()
        self._error = ""
        # One that was started later is a later generation.
        generation = time.time_ns() // 1_000_000
        self._part = Part(self._folder, role, index, generation, self._stop)
        self._part.plan = self._part.plan.with_functions(functions)
        self._part.host = ray.util.get_node_ip_address()
        self._thread = threading.Thread(target=self._work, name="cogrs-part", daemon=True)
        self._thread.start()
        threading.Thread(target=self._find_directory, name="cogrs-find", daemon=True).start()

    def wait(self) -> str:
        """Wait until it has ended; return the traceback of what it failed by, or nothing."""
        self._thread.join()
        return self._error

    def stop(self) -> None:
        """Ask it to stop."""
        self._stop.set()

    def log(self, longest: int) -> bytes:
        """Return what it has printed, at most the last `longest` bytes."""
        return self._folder.tail(self._part.role, self._part.index, longest)

    def _work(self) -> None:
        try:
            PARTS[self._part.role](self._part)
        except Exception as error:
            self._error = traceback.format_exc()
            self._part.note_error(error)
            _logger.error("%s", self._error)
            self._part.close()

    def _find_directory(self) -> None:
        """Write where the directory listens, again when it has moved."""
        known = None
        while self._thread.is_alive():
            try:
                found = ray.get_actor(
                    actor_name(self._folder.name, DIRECTORY, 0), namespace=NAMESPACE
                )
                endpoint = ray.get(found.endpoint.remote(), timeout=PERIOD)
                if endpoint != known:
                    self._folder.write("directory.json", {"endpoint": endpoint})
                    known = endpoint
            except (ValueError, OSError, ray.exceptions.RayError) as error:
                _logger.info("the directory is not there: %s", error)
            self._part.sleep(PERIOD)


def files_of(folder: RunFolder) -> dict[str, bytes]:
    """Return the files of a run that its parts need: the plan and the keys."""
    paths = [folder.path / "plan.json", *(folder.path / "keys").rglob("*.key*")]
    return {str(each.relative_to(folder.path)): each.read_bytes() for each in paths}


def folder_of(path: str, files: Mapping[str, bytes]) -> RunFolder:
    """Write the files of a run where they are missing or others, and return its folder."""
    folder = RunFolder.at(path)
    for name, content in files.items():
        where = folder.path / name
        if not where.exists() or where.read_bytes() != content:
            where.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with replacing(where) as file:
                file.write(content)
            if name == "plan.json":  # of another launch
                folder.forget()
    folder.logs.mkdir(exist_ok=True)
    sys.path += [each for each in folder.read("plan.json")["path"] if each not in sys.path]
    return folder


def print_to(folder: RunFolder, role: str, index: int) -> None:
    """Redirect what this process prints, native code included, to the log of a part."""
    log = os.open(folder.log(role, index), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)
    set_up_log()
    logging.getLogger().setLevel(logging.INFO)
