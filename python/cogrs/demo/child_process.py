"""The parent's side of a process of the demo."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import queue
    from collections.abc import AsyncIterator

    from cogrs.demo.options import ProcessConfig
    from cogrs.stop_signal import StopSignal

_READY = 60.0
"""Seconds for a process to say that it is ready: it may import and compile first."""

_GRACE = 2.0
"""Seconds for a process to end after it was told to."""


class FailedError(Exception):
    """The demo went wrong; the text says why, in one line."""


class RefusedError(FailedError):
    """The demo cannot start so."""


class ChildProcess:
    """A child process of the demo; its side is `cogrs.demo.parent`."""

    def __init__(
        self, name: str, config: ProcessConfig, figures: queue.SimpleQueue[dict[str, Any]]
    ) -> None:
        """Start it; what it says goes to `figures`, but that it is ready."""
        self._name = name
        self._figures = figures
        self._ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._reason = ""
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", f"cogrs.demo.{name}", config.to_json()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Ctrl-C is the parent's affair.
            start_new_session=True,
        )
        self._listener = threading.Thread(
            target=self._listen, args=(asyncio.get_running_loop(),), daemon=True
        )
        self._listener.start()

    async def ready(self, stop: StopSignal) -> Any:
        """Return what the process says when it is ready; None if interrupted before.

        Raises:
            RefusedError: It ended instead, or took too long.
        """
        deadline = time.monotonic() + _READY
        while not self._ready.done() and not stop.is_set():
            try:
                self.check()
            except FailedError as error:
                raise RefusedError(str(error)) from None
            if time.monotonic() > deadline:
                raise RefusedError(f"the {self._name} process was not ready in {_READY:.0f} s")
            await asyncio.sleep(0.02)
        return self._ready.result() if self._ready.done() else None

    def check(self) -> None:
        """Tell whether it runs.

        Raises:
            FailedError: It does not.
        """
        code = self._process.poll()
        if code is not None:
            self._listener.join(_GRACE)
            reason = self._reason or f"exit code {code}"
            raise FailedError(f"the {self._name} process ended by itself: {reason}")

    def tell_end(self) -> None:
        """Have it end; one that is not ready has nothing yet to end well."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        if not self._ready.done():
            self._process.kill()

    def end(self, deadline: float) -> None:
        """Wait until it has ended; one that has not by a deadline is killed."""
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join()

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                said = json.loads(line)
                if "ready" in said:
                    # The loop is closed when the demo ends in that moment.
                    with suppress(RuntimeError):
                        loop.call_soon_threadsafe(self._ready.set_result, said["ready"])
                elif "failed" in said:
                    self._reason = said["failed"]
                else:
                    self._figures.put(said)


@asynccontextmanager
async def ended(processes: list[ChildProcess]) -> AsyncIterator[None]:
    """End all processes that are in a list by then."""
    try:
        yield
    finally:
        for process in processes:
            process.tell_end()
        deadline = time.monotonic() + _GRACE
        for process in processes:
            await asyncio.to_thread(process.end, deadline)
