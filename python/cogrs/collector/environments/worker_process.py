"""Worker processes: how they are started, talked to and ended.

One thread talks to a process; any thread may kill it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import mmap
import os
import select
import subprocess
import sys
import tempfile
import time

_START = (
    "import importlib, json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "importlib.import_module(sys.argv[2]).main(*map(int, sys.argv[3:]))"
)
GRACE = 0.2
"""Seconds that a worker has to close its environments before it is killed."""
_SLICE = 3600.0
"""Seconds that are waited at once: the system counts milliseconds in 32 bits."""


class RemoteError(RuntimeError):
    """The error of an environment in another process: its traceback, as text."""


class WorkerDiedError(RuntimeError):
    """A worker process has ended unexpectedly."""


class WorkerHungError(WorkerDiedError):
    """A worker process was ended because it did not answer in time."""


class SharedMemory:
    """Memory shared with workers: an anonymous file.

    On Linux the file is sealed against shrinking: a process that touches a page which the file has
    lost is ended by SIGBUS, and all workers and their child processes have the descriptor.
    Elsewhere there are no seals, and workers are trusted not to shrink it.
    """

    def __init__(self) -> None:
        """Create an empty file."""
        self._sealed = hasattr(os, "memfd_create")
        if self._sealed:
            flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
            self._file = os.fdopen(os.memfd_create("cogrs-environments", flags), "r+b")
            fcntl.fcntl(self._file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        else:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115

    @property
    def descriptor(self) -> int:
        """The descriptor of the file."""
        return self._file.fileno()

    def grow(self, size: int) -> None:
        """Make it at least `size` bytes large; OSError if the system refuses."""
        size = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        if size > os.fstat(self._file.fileno()).st_size:
            self._file.truncate(size)

    def close(self) -> None:
        """Close the file; its memory lives while it is mapped."""
        self._file.close()


class WorkerProcess:
    """A new Python that runs the function `main` of a module, until its input ends.

    Attributes:
        pid: Its process id.
    """

    def __init__(self, module: str, number: int, file: int) -> None:
        """Start it; `main` is given the descriptors of `file` and of two pipes.

        It reads its standard input, and writes into the first pipe. Nothing is ever written into
        the second, whose end says that the parent has ended.

        Raises:
            ValueError: The system has no descriptors to share.
            OSError: The system refuses a process.
        """
        if os.name != "posix":
            raise ValueError("processes: expected 0 on a system without file descriptors to share")
        answers, answer = os.pipe()
        lives, life = os.pipe()
        try:
            descriptors = (file, answer, lives)
            path = json.dumps([entry or os.getcwd() for entry in sys.path])
            # -P: modules that lie in the present folder are found where the parent finds them.
            start = [sys.executable, "-P", "-c", _START, path, module, *map(str, descriptors)]
            # In a process group of its own, so that Ctrl-C reaches the parent alone.
            self._process = subprocess.Popen(
                start, stdin=subprocess.PIPE, pass_fds=descriptors, process_group=0
            )
        except BaseException:
            os.close(answers)
            os.close(life)
            raise
        finally:
            os.close(answer)
            os.close(lives)
        self._number = number
        self._answers, self._life = answers, life
        self._owner = os.getpid()
        self.pid = self._process.pid

    def send(self, message: bytes) -> None:
        """Write to its input; WorkerDiedError if it has ended."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(message)
            self._process.stdin.flush()
        except (OSError, ValueError):
            raise self.death() from None

    def receive(self, end: float | None = None, limit: int = 1 << 16) -> bytes:
        """Wait for bytes that it writes.

        Raises:
            TimeoutError: Nothing came until `end`, a time of `time.monotonic`.
            WorkerDiedError: It has ended.
        """
        if end is not None:
            # `select.select` refuses descriptors from 1024 on.
            poll = select.poll()
            poll.register(self._answers, select.POLLIN)
            while (left := end - time.monotonic()) <= 0 or not poll.poll(min(left, _SLICE) * 1000):
                if left <= 0:
                    raise TimeoutError
        got = os.read(self._answers, limit)
        if not got:
            raise self.death()
        return got

    def is_alive(self) -> bool:
        """Return whether it has not ended."""
        return self._process.poll() is None

    def death(self) -> WorkerDiedError:
        """Return the error that says that it has ended."""
        try:
            code: int | str = self._process.wait(GRACE)
        except subprocess.TimeoutExpired:
            code = "unknown"
        return WorkerDiedError(f"worker process {self._number} has ended, exit code {code}")

    def kill(self) -> None:
        """Kill it; any thread may do so. Does nothing in a forked child."""
        if os.getpid() == self._owner:
            self._process.kill()

    def end(self, grace: float = GRACE) -> None:
        """End its input, and kill it after a time. Does nothing in a forked child."""
        if os.getpid() != self._owner or self._life < 0:
            return
        life, self._life = self._life, -1
        assert self._process.stdin is not None
        # If it has ended already, unwritten bytes are of no use.
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(grace)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(life)
        os.close(self._answers)
