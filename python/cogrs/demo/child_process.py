"""The parent's side of a child process of the demo.

A thread per process reads its reports; all else runs on the event loop.
"""

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
"""Seconds for a process to be ready: it may import and compile first."""

_GRACE = 2.0
"""Seconds for a process to end after the request."""


class FailedError(Exception):
    """The demo failed; the text says why, in one line."""


class RefusedError(FailedError):
    """The demo cannot start with these options."""


class ChildProcess:
    """A child process of the demo; its side is `cogrs.demo.parent`."""

    def __init__(
        self, name: str, config: ProcessConfig, figures: queue.SimpleQueue[dict[str, Any]]
    ) -> None:
        """Start the process; its reports go to `figures`."""
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
        """Wait until the process is ready; return its endpoints, or None if interrupted before.

        RefusedError if the process ended instead, or took too long.
        """
        deadline = time.monotonic() + _READY
        while not self._ready.done() and not stop.is_set():
            try:
                self.check()
            except FailedError as error:
                raise RefusedError(str(error)) from None
            if time.monotonic() > deadline:
                raise RefusedError(f"the {self._name} process was not ready within {_READY:.0f} s")
            await asyncio.sleep(0.02)
        return self._ready.result() if self._ready.done() else None

    def check(self) -> None:
        """Raise FailedError if the process has ended."""
        code = self._process.poll()
        if code is not None:
            self._listener.join(_GRACE)
            reason = self._reason or f"exit code {code}"
            raise FailedError(f"the {self._name} process ended by itself: {reason}")

    def request_end(self) -> None:
        """Request the end; a process that is not ready is killed, as it has nothing to save."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        if not self._ready.done():
            self._process.kill()

    def end(self, deadline: float) -> None:
        """Wait until the process has ended; kill it at a deadline."""
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
                report = json.loads(line)
                if "ready" in report:
                    # The loop may be closed, if the demo ends at this moment.
                    with suppress(RuntimeError):
                        loop.call_soon_threadsafe(self._ready.set_result, report["ready"])
                elif "failed" in report:
                    self._reason = report["failed"]
                else:
                    self._figures.put(report)


@asynccontextmanager
async def ended(processes: list[ChildProcess]) -> AsyncIterator[None]:
    """End all processes of a list when the block ends; it may grow in the block."""
    try:
        yield
    finally:
        for process in processes:
            process.request_end()
        deadline = time.monotonic() + _GRACE
        for process in processes:
            await asyncio.to_thread(process.end, deadline)
