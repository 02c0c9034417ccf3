"""Environments of a vector in a worker process, as their thread in this process sees them."""

from __future__ import annotations

import builtins
import mmap
import time
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from gymnasium import error as gymnasium_error

from cogrs.collector.environments.portable import from_bytes, to_bytes
from cogrs.collector.environments.worker_process import (
    RemoteError,
    SharedMemory,
    WorkerDiedError,
    WorkerHungError,
    WorkerProcess,
)
from cogrs.collector.game_error import GameError, GameTimeoutError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cogrs.collector.environments.factory import Factories
    from cogrs.collector.environments.restarts import Restarts
    from cogrs.collector.environments.serial import Begin, Columns, Step
    from cogrs.collector.environments.vector_description import VectorDescription

_WORKER = "cogrs.collector.environments.vector_worker"
_CHUNK = 1 << 20
"""Bytes that are read at once, at most."""
_SMALL = 1 << 16
"""Bytes that are asked for at least: a buffer above costs a system call and page faults."""


class RemoteEnvs:
    """As `SerialEnvs`, with the environments in a process; a request and a reply for each call.

    Requests and replies are values of `portable`, each after its length. The process writes the
    number of the environment that it moves into shared memory, where it stays after its death.
    """

    @property
    def envs(self) -> list[Any]:
        """None of them is in this process."""
        return []

    def __init__(
        self,
        factories: Factories,
        description: VectorDescription,
        numbers: range,
        *,
        same_step: bool,
        restarts: Restarts,
        timeout: float | None = None,
    ) -> None:
        """Start the process; `timeout` are the seconds that a call may take, None for any time.

        Raises:
            ValueError: Another process cannot import a factory.
            OSError: The system refuses a process.
        """
        self._description = description
        self._numbers = numbers
        self._same_step = same_step
        self._restarts = restarts
        self._timeout = timeout
        self._shown: list[Any] = [None] * len(numbers)
        self._setup = [
            factories.as_json(),
            [numbers.start, numbers.stop],
            description.mode,
            same_step,
            restarts.most,
            restarts.backoff,
        ]
        self._memory = SharedMemory()
        self._memory.grow(mmap.PAGESIZE)
        self._moving = memoryview(mmap.mmap(self._memory.descriptor, mmap.PAGESIZE)).cast("q")
        self._process: WorkerProcess | None = None
        self._running()

    def _running(self) -> WorkerProcess:
        """Return the process, which is started if it does not run."""
        if self._process is None:
            self._moving[0] = -1
            process = WorkerProcess(_WORKER, self._numbers.start, self._memory.descriptor)
            self._process = process
            process.send(framed(to_bytes(self._setup)))
        return self._process

    def _ask(self, name: str, *args: Any) -> Any:
        """Make a call in the process; WorkerDiedError if it ends meanwhile, or hangs."""
        try:
            request = framed(to_bytes([name, list(args)]))
        except TypeError as error:
            raise TypeError(f"processes: {name}: {error}") from None
        try:
            if self._process is None and name != "starting":
                self._ask("starting")  # The start of a new process takes as long as it does.
            process = self._running()
            process.send(request)
            answer, missing = bytearray(), 8
            limited = self._timeout is not None and name not in ("make", "starting")
            end = time.monotonic() + (self._timeout or 0.0) if limited else None
            while missing > 0:
                answer += process.receive(end, min(max(missing, _SMALL), _CHUNK))
                if len(answer) >= 8:
                    missing = 8 + int.from_bytes(answer[:8], "little") - len(answer)
        except TimeoutError:
            process.kill()
            process.end(0.0)
            self._process = None
            raise WorkerHungError(
                f"did not return within {self._timeout} s, and its worker process was ended"
            ) from None
        except WorkerDiedError:
            if self._process is not None:
                self._process.end(0.0)
            self._process = None
            raise
        failed, value = from_bytes(memoryview(answer)[8:])
        if failed:
            _raise(**value)
        return value

    def _give_in(self, error: WorkerDiedError) -> None:
        """Count the death of the process; raise a GameError where the policy says so."""
        number = self._number()
        if not self._restarts.take(number, error):
            self._give_up(error, self._restarts.note(number))

    def _number(self) -> int:
        """Return the number of the environment that moved when the process ended."""
        return max(self._moving[0], self._numbers.start)

    def _give_up(self, error: WorkerDiedError, note: str = "") -> NoReturn:
        """Raise the GameError of a process that ended."""
        number = self._number()
        if isinstance(error, WorkerHungError):
            raise GameTimeoutError(f"environment {number} {error}{note}", number) from error
        raise GameError(f"environment {number}: {error}{note}", number) from error

    def make(self, at: int) -> None:
        """See `SerialEnvs`."""
        try:
            about = self._ask("make", at)
        except WorkerDiedError as error:
            raise WorkerDiedError(f"environment {self._numbers[at]}: {error}") from error
        self._description.add(self._numbers[at], about)

    def reset(self, begins: Mapping[int, Begin]) -> list[tuple[Any, dict[str, Any]]]:
        """See `SerialEnvs`. If the process dies, all its environments begin again."""
        mine = {number: begins[number] for number in self._numbers if number in begins}
        while True:
            try:
                results = self._ask("reset", mine)
            except WorkerDiedError as error:
                self._give_in(error)
                mine = {number: begins.get(number, (None, None)) for number in self._numbers}
            else:
                self._shown = [shown for shown, _ in results]
                return results  # type: ignore[no-any-return]

    def step(self, actions: Sequence[Any]) -> Columns:
        """See `SerialEnvs`. If the process dies, all its environments begin again."""
        try:
            columns = self._ask("step", list(actions))
        except WorkerDiedError as error:
            self._give_in(error)
            return self._cut_short()
        self._shown = columns[0]
        return columns  # type: ignore[no-any-return]

    def _cut_short(self) -> Columns:
        last = self._shown
        shown, infos = zip(*self.reset(dict.fromkeys(self._numbers, (None, None))), strict=True)
        if self._same_step:
            final = [{"final_obs": each, "final_info": {}} for each in last]
            infos = tuple({**each, **info} for each, info in zip(final, infos, strict=True))
        count, shape = len(self._numbers), self._description.reward_shape
        rewards = [np.zeros(shape) if shape else 0.0] * count
        return list(shown), rewards, [False] * count, [True] * count, list(infos)

    def cut_short(self, at: int, error: Exception) -> Step:
        """See `SerialEnvs`."""
        try:
            step = self._ask("cut_short_by", at, type(error).__name__, str(error))
        except WorkerDiedError as death:
            self._give_in(death)
            raise GameError(
                f"environment {self._numbers[at]}: {error}", self._numbers[at]
            ) from death
        return step  # type: ignore[no-any-return]

    def starting(self) -> list[bool]:
        """See `SerialEnvs`."""
        return self._ask("starting")  # type: ignore[no-any-return]

    def call(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """See `SerialEnvs`."""
        return self._demand("call", name, list(args), dict(kwargs))  # type: ignore[no-any-return]

    def set_attr(self, name: str, values: Sequence[Any]) -> None:
        """See `SerialEnvs`."""
        self._demand("set_attr", name, list(values))

    def render(self) -> list[Any]:
        """See `SerialEnvs`."""
        return self._demand("render")  # type: ignore[no-any-return]

    def _demand(self, name: str, *args: Any) -> Any:
        """Make a call that no restart can repeat: its effects are lost with the environments."""
        try:
            return self._ask(name, *args)
        except WorkerDiedError as error:
            self._give_up(error)

    def busy(self) -> int | None:
        """Return the number of the environment that moves; None if all rest."""
        return None if self._moving[0] < 0 else self._moving[0]

    def doing(self) -> str:
        """Name the environment that moves, if one does."""
        number = self.busy()
        return "" if number is None else f"environment {number}"

    def abandon(self) -> None:
        """Kill the process; any thread may do so."""
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        """See `SerialEnvs`. A process that takes too long is killed."""
        if self._process is not None:
            self._process.end()
        self._process = None
        self._memory.close()


def framed(message: bytes) -> bytes:
    """Return a message after its length, in eight bytes."""
    return len(message).to_bytes(8, "little") + message


def _raise(kind: str, args: tuple[Any, ...], text: str, trace: str, game: int | None) -> NoReturn:
    """Raise the error of a worker: the same exception where it is one of Python's own."""
    cause = RemoteError(trace)
    if game is not None:
        raise GameError(text, game) from cause
    for module in (builtins, gymnasium_error):
        found = getattr(module, kind, None)
        if isinstance(found, type) and issubclass(found, Exception):
            raise found(*args) from cause
    raise RuntimeError(f"{kind}: {text}") from cause
