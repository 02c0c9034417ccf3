"""Parts of a run as threads of a test's process, which costs no start of a process."""

import contextlib
import threading

from cogrs.cluster.part import Part
from cogrs.cluster.process import open_directory
from cogrs.cluster.run_folder import RunFolder
from cogrs.cluster.shard import run_shard
from tests.cluster.runs import LONG


@contextlib.contextmanager
def directory_and_shards(plan):
    """The folder and the directory of a run that has shards alone."""
    folder = RunFolder(plan.storage, "run")
    folder.create(plan)
    directory, server = open_directory(folder, plan.host)
    with server, contextlib.ExitStack() as stack:
        for index in range(plan.shards):
            stack.enter_context(part_on_thread(folder, "shard", index, run_shard))
        yield folder, directory


@contextlib.contextmanager
def part_on_thread(folder, role, index, run):
    """A part that runs until the block ends."""
    stop = threading.Event()
    part = Part(folder, role, index, 1, stop)
    thread = threading.Thread(target=run, args=(part,), daemon=True)
    thread.start()
    try:
        yield part
    finally:
        stop.set()
        thread.join(LONG)
    assert not thread.is_alive()


def figures(directory, role, index=0):
    """What a part has reported; a LookupError before it has registered."""
    for each in directory.status()["parts"]:
        if (each["role"], each["index"]) == (role, index):
            return each["report"]
    raise LookupError(f"there is no {role} {index}")
