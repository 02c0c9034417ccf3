"""The processes of a run: how they are started, and what runs in them."""

from __future__ import annotations

import contextlib
import json
import logging
import subprocess
import sys
import traceback
from typing import TYPE_CHECKING, Final

from cogrs.cluster.actor import run_actor
from cogrs.cluster.directory import Directory
from cogrs.cluster.directory_server import DirectoryServer
from cogrs.cluster.learner import run_learner
from cogrs.cluster.part import Part, watch_parent
from cogrs.cluster.run_folder import RunFolder
from cogrs.cluster.shard import run_shard
from cogrs.stop_signal import StopSignal
from cogrs.workers.checkpoint import write_file

if TYPE_CHECKING:
    from typing import IO, Any

_START: Final = (
    "import importlib, json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "sys.exit(importlib.import_module(sys.argv[2]).main(*sys.argv[3:]))"
)
_ORPHAN_GRACE: Final = 10.0
"""Seconds that a part has to end after its supervisor."""
PARTS: Final = {"shard": run_shard, "actor": run_actor, "learner": run_learner}
"""What runs in each part, by its role."""


def start_process(
    folder: RunFolder,
    module: str,
    arguments: tuple[object, ...],
    log: IO[bytes],
    *,
    detached: bool = False,
) -> subprocess.Popen[bytes]:
    """Start `main` of a module in a new Python, whose output goes to a log.

    Its standard input ends when this process ends, unless it is detached. Ctrl-C reaches neither.
    """
    path = json.dumps(folder.read("plan.json")["path"])
    # -P: modules that lie in the present folder are found where the driver finds them.
    command = [sys.executable, "-P", "-c", _START, path, module, str(folder.path)]
    return subprocess.Popen(
        [*command, *map(str, arguments)],
        stdin=subprocess.DEVNULL if detached else subprocess.PIPE,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=detached,
        process_group=None if detached else 0,
    )


def main(path: str, role: str, index: str, generation: str) -> int:
    """Run a part until it is to stop; return the exit code."""
    set_up_log()
    folder = RunFolder.at(path)
    with StopSignal() as stop:
        stop.quiet = True
        try:
            if role == "directory":
                _run_directory(folder, stop)
            else:
                part = Part(folder, role, int(index), int(generation), stop)
                watch_parent(part.end, _ORPHAN_GRACE)
                PARTS[role](part)
        except Exception:
            text = traceback.format_exc()
            logging.getLogger("cogrs.cluster").error("%s", text)
            with contextlib.suppress(OSError):  # of a full disk the log says nothing either
                write_file(folder.error(role, int(index)), text.encode())
            return 1
    return 0


def set_up_log() -> None:
    """Write log records to standard error, with the time."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")


def open_directory(folder: RunFolder, host: str) -> tuple[Directory, DirectoryServer]:
    """Serve the directory of a run at a free port, and write where it listens.

    Raises:
        OSError: It cannot be bound, or the folder cannot be written.
    """

    def keep(ended: dict[str, Any]) -> None:
        try:
            folder.write("ended.json", ended)
        except OSError as error:
            logging.getLogger("cogrs.cluster").error("counts are not kept: %s", error)

    ended: dict[str, Any] = {}
    with contextlib.suppress(FileNotFoundError):
        ended = folder.read("ended.json")
    directory = Directory(ended, keep)
    server = DirectoryServer(
        directory,
        f"tcp://{host}:*",
        key=folder.secret_key("server"),
        allow=folder.public_keys("actor"),
        allow_orders=folder.public_keys("learner"),
    )
    folder.write("directory.json", {"endpoint": server.endpoint})
    return directory, server


def _run_directory(folder: RunFolder, stop: StopSignal) -> None:
    over: list[bool] = []
    watch_parent(lambda: over.append(True), _ORPHAN_GRACE)
    directory, server = open_directory(folder, folder.plan().host)
    with server:
        while not stop.is_set() and not over:
            server.wait(0.1)
    directory.end_all()
