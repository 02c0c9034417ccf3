"""A server that runs on an event loop, on a thread of its own; and the handle of it.

Any thread may call any method of `ServerThread` and `ServerHandle`; everything of the server itself
runs on its event loop. Nothing here holds a lock.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
import weakref
from abc import abstractmethod
from concurrent.futures import Future, wait
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeAlias, TypeVar

from cogrs.event_loop import handle_exception
from cogrs.hung_calls import cancel_tasks, running_call
from cogrs.threads import DaemonExecutor
from cogrs.validation import check_seconds, check_timeout

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


_logger = logging.getLogger("cogrs")

_ALLOWANCE = 0.9
"""Seconds beyond its grace after which a stopped thread is abandoned."""


class Stoppable(Protocol):
    """A server that runs until it is stopped."""

    async def wait(self) -> None:
        """Wait until the server is stopped."""

    async def stop(self, grace: float) -> None:
        """Stop the server."""


Running = TypeVar("Running", bound=Stoppable)

_Stops: TypeAlias = "set[asyncio.Task[Any] | None]"
"""Calls of `stop` that are under way."""


class ServerThread(Generic[Running]):
    """A new thread with a server. It stops when this object is collected."""

    def __init__(
        self,
        name: str,
        starting: Coroutine[Any, Any, Running],
        loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
    ) -> None:
        """Start a server on a new event loop, and wait for it; raise what `starting` raises.

        Args:
            name: The name of the thread, in errors too.
            starting: Starts the server.
            loop_factory: Creates the event loop; None takes asyncio's own.
        """
        started: Future[tuple[asyncio.AbstractEventLoop, Running]] = Future()
        # The thread does not hold this object, so that it can be collected.
        stops: _Stops = set()
        self._over = threading.Event()
        self._thread = threading.Thread(
            target=_run,
            args=(starting, started, stops, loop_factory, self._over),
            name=name,
            daemon=True,
        )
        self._thread.start()
        self._process = os.getpid()
        self.loop, self.server = started.result()
        self._stop = partial(_stop, self.loop, self.server, stops, self._thread, self._over)
        self._finalize = weakref.finalize(self, self._stop, 0.0)

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs, and was not abandoned."""
        return not self._over.is_set()

    def wait(self, timeout: float | None) -> bool:
        """Wait until the server is stopped; return whether it is."""
        self.check_process("wait")
        return self._over.wait(check_timeout("timeout", timeout))

    def stop(self, grace: float) -> None:
        """Stop the server, within a second more than `grace`; a second call waits for the first.

        A thread that does not end, because user code does not return to its event loop, is
        abandoned with a warning.
        """
        self.check_process("stop")
        check_seconds("grace", grace)
        if self._finalize.detach() is not None:
            self._stop(grace)
        else:
            self._over.wait(grace + _ALLOWANCE)

    def check_process(self, method: str) -> None:
        """Refuse a call in a fork of the server's process, with a RuntimeError."""
        if os.getpid() != self._process:
            raise RuntimeError(
                f"{method}: {self._thread.name} runs in process {self._process}, and this one, "
                f"{os.getpid()}, was forked off it"
            )


class ServerHandle(Generic[Running]):
    """A running server, on an event loop of its own. Any thread may call any method."""

    def __init__(self, running: ServerThread[Running]) -> None:
        self._running = running

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until another thread stops the server.

        Args:
            timeout: Seconds; None waits without a limit.

        Returns:
            Whether the server is stopped.

        Raises:
            RuntimeError: In a fork of the server's process.
            TypeError, ValueError: `timeout` is not a number of seconds >= 0 or None.
        """
        return self._running.wait(timeout)

    @abstractmethod
    def stop(self, grace: float) -> None:
        """Stop the server."""

    def close(self, timeout: float | None = None) -> None:
        """Stop the server, as `stop` with `timeout` as its grace; None takes its default."""
        self.stop(*([] if timeout is None else [timeout]))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def _state(self) -> str:
        return "running" if self._running.is_alive else "stopped"


def _run(
    starting: Coroutine[Any, Any, Running],
    started: Future[tuple[asyncio.AbstractEventLoop, Running]],
    stops: _Stops,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None,
    over: threading.Event,
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(handle_exception)
        # Python waits for the threads of its own executor before it ends.
        loop.set_default_executor(DaemonExecutor())
        try:
            server = await starting
        except BaseException as error:
            started.set_exception(error)
            return
        started.set_result((loop, server))
        await server.wait()
        # The calls that stopped it are still to return.
        await asyncio.gather(*filter(None, stops), return_exceptions=True)
        here = asyncio.current_task()
        for task in await cancel_tasks(asyncio.all_tasks() - {here}):
            _logger.warning("%s does not end when it is cancelled: it is abandoned", task)

    try:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(main())
    finally:
        over.set()


def _stop(
    loop: asyncio.AbstractEventLoop,
    server: Stoppable,
    stops: _Stops,
    thread: threading.Thread,
    over: threading.Event,
    grace: float,
) -> None:
    async def stop() -> None:
        stops.add(asyncio.current_task())
        await server.stop(grace)

    if over.is_set():
        return
    until = time.monotonic() + grace + _ALLOWANCE
    stopping = asyncio.run_coroutine_threadsafe(stop(), loop)
    wait({stopping}, timeout=grace + _ALLOWANCE)
    if stopping.done():
        stopping.result()
    if not over.wait(max(until - time.monotonic(), 0.0)):
        over.set()
        _logger.warning(
            "%s does not end within %g s and is abandoned: it is busy with %s",
            thread.name,
            grace,
            running_call(thread.ident),
        )
