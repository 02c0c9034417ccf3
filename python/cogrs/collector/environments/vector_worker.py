"""A worker process of a `VectorEnv`: it makes and moves environments until its parent ends."""

from __future__ import annotations

import mmap
import signal
import sys
import threading
import traceback
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

from cogrs.collector.environments.factory import Factories
from cogrs.collector.environments.portable import from_bytes, space_is_portable, to_bytes
from cogrs.collector.environments.remote import framed
from cogrs.collector.environments.restarts import Restarts
from cogrs.collector.environments.serial import SerialEnvs, failure
from cogrs.collector.environments.vector_description import (
    EnvMaker,
    VectorDescription,
    description_of,
)
from cogrs.collector.environments.worker import end_with_parent, write_all
from cogrs.collector.game_error import GameError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cogrs.collector.environments.serial import Step


def main(memory: int, answers: int, life: int) -> None:
    """Serve the parent that holds the other ends of these descriptors."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, args=(life,), daemon=True).start()
    setup = _read(sys.stdin.buffer)
    if setup is None:
        return
    factories, numbers, mode, same_step, most, backoff = setup
    description = VectorDescription(mode)
    envs = NotingEnvs(
        memoryview(mmap.mmap(memory, mmap.PAGESIZE)).cast("q"),
        EnvMaker(Factories.from_json(factories), description).make,
        range(*numbers),
        same_step=same_step,
        restarts=Restarts(most, backoff),
    )
    while (request := _read(sys.stdin.buffer)) is not None:
        write_all(answers, framed(_answer(envs, *request)))
    envs.close()
    envs.moving[0] = -1


def _read(source: BinaryIO) -> Any:
    """Return the next message; None at the end."""
    head = source.read(8)
    return from_bytes(source.read(int.from_bytes(head, "little"))) if len(head) == 8 else None


def _answer(envs: NotingEnvs, name: str, args: Sequence[Any]) -> bytes:
    """Return the answer to a request: whether it failed, and its value or its error."""
    try:
        return envs.answer(name, args)
    except BaseException as error:
        described = {
            "kind": type(error).__name__,
            "text": str(error),
            "trace": "".join(traceback.format_exception(error)),
            "game": error.game if isinstance(error, GameError) else None,
        }
        try:
            return to_bytes((True, {**described, "args": error.args}))
        except TypeError:
            return to_bytes((True, {**described, "args": (str(error),)}))
    finally:
        envs.moving[0] = -1


class NotingEnvs(SerialEnvs):
    """Environments of a process, which notes in shared memory which one it moves.

    Attributes:
        moving: The number of that environment; -1 for none.
    """

    def __init__(self, moving: memoryview, *args: Any, **kwargs: Any) -> None:
        self.moving = moving
        super().__init__(*args, **kwargs)

    def answer(self, name: str, args: Sequence[Any]) -> bytes:
        """Make a call, and return its answer as bytes."""
        if name == "make":
            return to_bytes((False, self._describe(*args)))
        value = getattr(self, name)(*args)
        try:
            return to_bytes((False, value))
        except TypeError:
            self._refuse(name, value)
            raise

    def _describe(self, at: int) -> tuple[Any, ...]:
        self.make(at)
        env = self.envs[at]
        about = description_of(env)
        for name, space in zip(("observation_space", "action_space"), about, strict=False):
            if not space_is_portable(space):
                raise TypeError(
                    f"{name}: expected a space of arrays for processes=, got {space}: leave "
                    "processes out, or encode its values as arrays by a wrapper"
                )
        return about

    def _refuse(self, name: str, value: Any) -> None:
        """Raise the error of the first environment whose values cannot travel."""
        rows = list(zip(*value, strict=True)) if name == "step" else value
        for number, row in zip(self._numbers, rows, strict=True):
            try:
                to_bytes(row)
            except TypeError as error:
                if name in ("step", "reset"):
                    raise failure(number, error) from error
                raise TypeError(f"processes: {name} of environment {number}: {error}") from error

    def cut_short_by(self, at: int, kind: str, text: str) -> Step:
        """Do as `cut_short` for an error of the parent's."""
        return self.cut_short(at, (TypeError if kind == "TypeError" else ValueError)(text))

    def _each(self, visit: Callable[[int], Any]) -> list[Any]:
        def note_and_visit(at: int) -> Any:
            self.moving[0] = self._numbers[at]
            return visit(at)

        return super()._each(note_and_visit)

    def make(self, at: int) -> None:
        """See `SerialEnvs`."""
        self.moving[0] = self._numbers[at]
        super().make(at)

    def _begin(self, at: int) -> tuple[Any, dict[str, Any]]:
        self.moving[0] = self._numbers[at]
        return super()._begin(at)

    def _step_of(self, at: int) -> Callable[[Any], Step]:
        return partial(self._note_and_step, self._numbers[at], super()._step_of(at))

    def _note_and_step(self, number: int, step: Callable[[Any], Step], action: Any) -> Step:
        self.moving[0] = number
        return step(action)
