"""Steps environments in a worker process.

The env worker's thread alone talks to the process; any thread may `kill` it.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from cogrs.collector.environments.spaces import EnvSpaces, json_line
from cogrs.collector.environments.stepper import Failure
from cogrs.collector.environments.worker_process import (
    GRACE,
    RemoteError,
    SharedMemory,
    WorkerDiedError,
    WorkerProcess,
)

if TYPE_CHECKING:
    from cogrs.collector.environments.factory import Factories

_WORKER = "cogrs.collector.environments.worker"


class RemoteStepper:
    """Steps games in a worker process; requests and replies are lines of JSON.

    Actions and observations lie in shared memory, so nothing is pickled.
    """

    def __init__(self, factory: Factories, number: int, start_timeout: float) -> None:
        """Start a worker; `describe` returns the spaces of its environments.

        Raises:
            ValueError: Another process cannot import the factory.
            OSError: The system refuses a process.
        """
        self.memory = SharedMemory()
        self._setup: dict[str, Any] = {"factory": factory.as_json(), "number": number}
        self._number = number
        self._timeout = start_timeout
        self._games = ""
        self._respawn = False
        self._start()

    def _start(self) -> None:
        self._buffer = b""
        self._process = WorkerProcess(_WORKER, self._number, self.memory.descriptor)
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
        if not self._process.is_alive():
            error = self._named(self._process.death())
            if not self._respawn:
                raise error
            self._replace()

    def doing(self) -> str:
        """See `Stepper`."""
        return f"one of {self._games}, in worker process {self._process.pid}, which was ended"

    def _replace(self) -> None:
        if self._respawn:
            self._process.end(0.0)
            self._start()

    def _send(self, message: Any) -> None:
        try:
            self._process.send(json_line(message))
        except WorkerDiedError as error:
            raise self._named(error) from None

    def _receive(self, end: float | None) -> Any:
        while b"\n" not in self._buffer:
            try:
                self._buffer += self._process.receive(end)
            except TimeoutError:
                raise TimeoutError(
                    f"worker process {self._number} did not make an environment within "
                    f"{self._timeout} s (start_timeout)"
                ) from None
            except WorkerDiedError as error:
                raise self._named(error) from None
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    def _named(self, error: WorkerDiedError) -> WorkerDiedError:
        games = f" of {self._games}" if self._games else ""
        return WorkerDiedError(str(error).replace(" has ended", f"{games} has ended"))

    def close(self) -> None:
        """See `Stepper`."""
        self._process.end(GRACE)
        self.memory.close()

    def kill(self) -> None:
        """Kill the worker; any thread may do so."""
        self._respawn = False
        self._process.kill()
