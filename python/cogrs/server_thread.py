"""A server of an event loop, on a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
import weakref
from concurrent.futures import Future, wait
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from cogrs.event_loop import handle_exception
from cogrs.hung_calls import cancel_tasks, running_call
from cogrs.threads import DaemonExecutor
from cogrs.validation import check_seconds, check_timeout

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


_logger = logging.getLogger("cogrs")

_ALLOWANCE = 0.9
"""Seconds beyond its grace after which a thread that was stopped is left behind."""


class Stoppable(Protocol):
    """What runs until it is stopped."""

    async def wait(self) -> None:
        """Wait until it is stopped."""

    async def stop(self, grace: float) -> None:
        """Stop."""


Running = TypeVar("Running", bound=Stoppable)

_Stops: TypeAlias = "set[asyncio.Task[Any] | None]"
"""Calls that stop it, which are under way."""


class ServerThread(Generic[Running]):
    """Something that runs on a new thread. Any thread may call any method; forgotten, it stops."""

    def __init__(
        self,
        name: str,
        starting: Coroutine[Any, Any, Running],
        loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
    ) -> None:
        """Start it, and wait until it has started.

        Args:
            name: What the thread and the messages of errors call it.
            starting: Starts it, on the new event loop.
            loop_factory: Makes that event loop; None takes asyncio's own.

        Raises:
            Exception: Whatever starting raises.
        """
        started: Future[tuple[asyncio.AbstractEventLoop, Running]] = Future()
        # The thread does not hold this, so what is forgotten stops.
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
        """Whether it runs, and was not left behind."""
        return not self._over.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is stopped; return whether it is.

        Raises:
            RuntimeError: In a process that was forked off.
            TypeError, ValueError: `timeout` is no number of seconds.
        """
        self.check_process("wait")
        return self._over.wait(check_timeout("timeout", timeout))

    def stop(self, grace: float) -> None:
        """Stop it, within a second more than `grace`. Again: wait for the same.

        A thread that does not come to its end, since a method of a user's does not return to its
        event loop, is left behind with a warning.

        Raises:
            RuntimeError: In a process that was forked off.
            TypeError, ValueError: `grace` is no number of seconds.
        """
        self.check_process("stop")
        check_seconds("grace", grace)
        if self._finalize.detach() is not None:
            self._stop(grace)
        else:
            self._over.wait(grace + _ALLOWANCE)

    def check_process(self, method: str) -> None:
        """Refuse in a fork, which has no thread but the one that forked.

        Raises:
            RuntimeError: This process was forked off the one that it runs in.
        """
        if os.getpid() != self._process:
            raise RuntimeError(
                f"{method}: {self._thread.name} runs in process {self._process}, and this one, "
                f"{os.getpid()}, was forked off it"
            )


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
        # Whoever stopped it is still to be answered.
        await asyncio.gather(*filter(None, stops), return_exceptions=True)
        here = asyncio.current_task()
        for task in await cancel_tasks(asyncio.all_tasks() - {here}):
            _logger.warning("%s does not end when it is cancelled: it is left behind", task)

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
            "%s does not end within %g s and is left behind: it is busy with %s",
            thread.name,
            grace,
            running_call(thread.ident),
        )
