"""A worker process: it makes and steps environments until its parent ends."""

from __future__ import annotations

import json
import mmap
import os
import signal
import sys
import threading
import traceback
from typing import Any

import numpy as np

from cogrs.collector.environments.env_api import close_env
from cogrs.collector.environments.factory import Factories
from cogrs.collector.environments.spaces import EnvSpaces, json_line, spaces_of
from cogrs.collector.environments.step_buffer import StepBuffer
from cogrs.collector.environments.stepper import LocalStepper
from cogrs.dtypes import dtype_of


def main(memory: int, answers: int, life: int) -> None:
    """Serve the parent that holds the other ends of these descriptors."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=end_with_parent, args=(life,), daemon=True).start()
    lines = sys.stdin.buffer
    setup = json.loads(lines.readline() or b"null")
    if setup is None:
        return
    worker = _Worker(Factories.from_json(setup["factory"]), memory)
    if "arrays" in setup:
        worker.set_up(setup)
    while line := lines.readline():
        answer = worker.answer(json.loads(line))
        if answer is not None:
            write_all(answers, json_line(answer))
    worker.close()


def end_with_parent(life: int) -> None:
    """Wait until the parent has ended, and then end this process."""
    # Nothing is ever written there: this returns when the parent has ended, for any reason.
    os.read(life, 1)
    threading.Event().wait(1.0)
    os._exit(1)


def write_all(descriptor: int, line: bytes) -> None:
    """Write all bytes."""
    while line:
        line = line[os.write(descriptor, line) :]


class _Worker:
    """The environments of a process, and the replies to its parent."""

    def __init__(self, factory: Factories, memory: int) -> None:
        self._factory = factory
        self._memory = memory
        self._first: Any = None
        self._stepper: LocalStepper | None = None

    def answer(self, message: Any) -> Any:
        if isinstance(message, int):
            assert self._stepper is not None
            return [
                (each.row, each.text, "".join(traceback.format_exception(each.cause)))
                for each in self._stepper.move(message)
            ]
        if "describe" in message:
            return self._describe()
        if "make" in message:
            assert self._stepper is not None
            self._stepper.make(self._first)
            return []
        self.set_up(message)
        return None

    def _describe(self) -> dict[str, Any]:
        try:
            self._first = self._factory.make(0)
            return {"spaces": spaces_of(self._first).as_json()}
        except BaseException as error:
            kind, trace = type(error).__name__, "".join(traceback.format_exception(error))
            return {"error": f"{error}", "kind": kind, "trace": trace}

    def set_up(self, tables: dict[str, Any]) -> None:
        shared = mmap.mmap(self._memory, 0)
        arrays = [
            np.ndarray(shape, dtype_of(dtype), shared, offset)
            for dtype, shape, offset in tables["arrays"]
        ]
        step_buffer = StepBuffer.of(arrays, tables["keys"])
        spaces, games = EnvSpaces.from_json(tables["spaces"]), range(*tables["games"])
        self._stepper = LocalStepper(self._factory, spaces, step_buffer, games)

    def close(self) -> None:
        if self._stepper is not None:
            self._stepper.close()
        elif self._first is not None:
            close_env(self._first, "the first environment")
