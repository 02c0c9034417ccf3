"""Steps environments in a worker process.

The env worker's thread alone talks to the process; any thread may `kill` it.
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
from typing import TYPE_CHECKING, Any

from cogrs.collector.environments.spaces import EnvSpaces, json_line
from cogrs.collector.environments.stepper import Failure

if TYPE_CHECKING:
    from cogrs.collector.environments.factory import Factory

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from cogrs.collector.environments import worker; worker.main(*map(int, sys.argv[2:]))"
)
_GRACE = 0.2
"""Seconds that a worker has to close its environments before it is killed."""


class RemoteError(RuntimeError):
    """The error of an environment in another process: its traceback, as text."""


class WorkerDiedError(RuntimeError):
    """A worker process has ended unexpectedly."""


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


class RemoteStepper:
    """Steps games in a worker process; requests and replies are lines of JSON.

    Actions and observations lie in shared memory, so nothing is pickled.
    """

    def __init__(self, factory: Factory, number: int, start_timeout: float) -> None:
        """Start a worker; `describe` returns the spaces of its environments.

        Raises:
            ValueError: Another process cannot import the factory.
            OSError: The system refuses a process.
        """
        if os.name != "posix":
            raise ValueError("processes: expected 0 on a system without file descriptors to share")
        self.memory = SharedMemory()
        self._setup: dict[str, Any] = {"factory": factory.as_json(), "number": number}
        self._number = number
        self._timeout = start_timeout
        self._games = ""
        self._respawn = False
        self._start()

    def _start(self) -> None:
        answers, answer = os.pipe()
        lives, life = os.pipe()
        try:
            descriptors = (self.memory.descriptor, answer, lives)
            path = json.dumps([entry or os.getcwd() for entry in sys.path])
            # -P: modules that lie in the present folder are found where the parent finds them.
            arguments = [sys.executable, "-P", "-c", _START, path, *map(str, descriptors)]
            # In a process group of its own, so that Ctrl-C reaches the parent alone.
            self._process = subprocess.Popen(
                arguments, stdin=subprocess.PIPE, pass_fds=descriptors, process_group=0
            )
        except BaseException:
            os.close(answers)
            os.close(life)
            raise
        finally:
            os.close(answer)
            os.close(lives)
        self._answers, self._life, self._buffer = answers, life, b""
        self._owner = os.getpid()
        self._send(self._setup)

    def describe(self) -> EnvSpaces:
        """Make the worker's first environment, and return its spaces.

        Raises:
            RuntimeError: The environment cannot be made; the text has the worker's traceback.
            TypeError: It is not an environment, or its spaces are not of arrays.
            ValueError: `spaces_of` refuses its spaces.
            TimeoutError: It takes longer than `start_timeout`.
        """
        self._send({"describe": True})
        answer = self._receive(time.monotonic() + self._timeout)
        if "error" in answer:
            kinds = {"TypeError": TypeError, "ValueError": ValueError}
            raise kinds.get(answer["kind"], RuntimeError)(answer["error"]) from RemoteError(
                answer["trace"]
            )
        return EnvSpaces.from_json(answer["spaces"])

    def set_up(self, tables: dict[str, Any], games: range, respawn: bool) -> None:
        """Send the worker the place of its step buffer; `respawn` replaces a worker that ends."""
        self._games = f"games {games[0]} to {games[-1]}"
        self._respawn = respawn
        self._setup |= tables
        self._send(tables)

    def make(self, first: Any) -> None:
        """See `Stepper`; the worker has the first environment."""
        assert first is None
        try:
            self._send({"make": True})
            self._receive(None)
        except WorkerDiedError:
            if not self._respawn:
                raise
            # The next process makes environments as their episodes begin.
            self._replace()

    def move(self, count: int) -> list[Failure]:
        """See `Stepper`."""
        try:
            self._send(count)
            answers = self._receive(None)
        except WorkerDiedError as error:
            text = str(error)
            self._replace()
            return [Failure(row, text, RemoteError(text)) for row in range(count)]
        return [Failure(row, text, RemoteError(trace)) for row, text, trace in answers]

    def halt(self) -> None:
        """See `Stepper`; does nothing, since a process that hangs is killed."""

    def check(self) -> None:
        """See `Stepper`."""
        if self._process.poll() is not None:
            error = self._death()
            if not self._respawn:
                raise error
            self._replace()

    def doing(self) -> str:
        """See `Stepper`."""
        return f"one of {self._games}, in worker process {self._process.pid}, which was ended"

    def _replace(self) -> None:
        if self._respawn:
            self._end(0.0)
            self._start()

    def _send(self, message: Any) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json_line(message))
            self._process.stdin.flush()
        except (OSError, ValueError):
            raise self._death() from None

    def _receive(self, end: float | None) -> Any:
        while b"\n" not in self._buffer:
            if end is not None:
                left = end - time.monotonic()
                if left <= 0 or not select.select([self._answers], [], [], left)[0]:
                    raise TimeoutError(
                        f"worker process {self._number} did not make an environment within "
                        f"{self._timeout} s (start_timeout)"
                    )
            got = os.read(self._answers, 1 << 16)
            if not got:
                raise self._death()
            self._buffer += got
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    def _death(self) -> WorkerDiedError:
        try:
            code: int | str = self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            code = "unknown"
        games = f" of {self._games}" if self._games else ""
        return WorkerDiedError(f"worker process {self._number}{games} has ended, exit code {code}")

    def close(self) -> None:
        """See `Stepper`."""
        self._end(_GRACE)
        self.memory.close()

    def kill(self) -> None:
        """Kill the worker; any thread may do so."""
        if os.getpid() == self._owner:
            self._respawn = False
            self._process.kill()

    def _end(self, grace: float) -> None:
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
