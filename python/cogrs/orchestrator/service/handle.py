"""The orchestrator on a thread: `cogrs.serve_orchestrator`."""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NoReturn, Self

from cogrs.orchestrator.service.server import serve

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from cogrs.orchestrator.engine.settings import Settings
    from cogrs.orchestrator.service.config import Config
    from cogrs.orchestrator.service.security import Security
    from cogrs.orchestrator.service.server import Server
    from cogrs.orchestrator.service.stats import OrchestratorStats


class OrchestratorHandle:
    """A running orchestrator, on an event loop of its own. Any thread may call any method."""

    def __init__(self, starting: Coroutine[Any, Any, Server], *, uvloop: bool = False) -> None:
        """Start a server on a new thread, and wait until it listens."""
        started: Future[tuple[asyncio.AbstractEventLoop, Server]] = Future()
        # The thread does not hold the handle, so one that is forgotten stops.
        self._thread = threading.Thread(
            target=_run, args=(starting, started, uvloop), name="cogrs-orchestrator", daemon=True
        )
        self._thread.start()
        self._loop, self._server = started.result()
        self._process = os.getpid()
        self._finalize = weakref.finalize(self, _stop, self._loop, self._server, self._thread, 0.0)

    @property
    def port(self) -> int:
        """The port that it got."""
        return self._server.port

    @property
    def actor_port(self) -> int:
        """The port that client actors connect to."""
        return self._server.actor_port

    def stats(self) -> OrchestratorStats:
        """Return the present figures, or the last ones of an orchestrator that is stopped.

        Raises:
            RuntimeError: In a process that was forked off.
            TimeoutError: Its event loop was busy with something else for 10 s.
        """
        self._check_process("stats")
        return self._server.stats()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is stopped, by `stop` on another thread.

        Args:
            timeout: Seconds; None waits for ever.

        Returns:
            Whether it is stopped.

        Raises:
            RuntimeError: In a process that was forked off: the orchestrator is not in it.
        """
        self._check_process("wait")
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def stop(self, grace: float = 10.0) -> None:
        """End all trials, stop, and free the port. Again: nothing.

        Args:
            grace: Seconds for environments and actors to give and take their last data.

        Raises:
            RuntimeError: In a process that was forked off: the orchestrator is not in it.
        """
        self._check_process("stop")
        if self._finalize.detach() is not None:
            _stop(self._loop, self._server, self._thread, grace)
        self._thread.join()

    def _check_process(self, method: str) -> None:
        # Forks have no threads but the one that forked: whoever waits for another waits for ever.
        if os.getpid() != self._process:
            raise RuntimeError(
                f"{method}: the orchestrator is in process {self._process}, and this one, "
                f"{os.getpid()}, was forked off it"
            )

    def __enter__(self) -> Self:
        """Return the handle."""
        return self

    def __exit__(self, *_exc: object) -> None:
        """Stop it."""
        self.stop()

    def __repr__(self) -> str:
        """Tell where it listens."""
        state = "running" if self._thread.is_alive() else "stopped"
        return f"OrchestratorHandle(port={self.port}, actor_port={self.actor_port}, {state})"

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled.

        Raises:
            TypeError: Always.
        """
        raise TypeError("an orchestrator cannot be pickled or copied: others reach it at its port")


def _run(
    starting: Coroutine[Any, Any, Server],
    started: Future[tuple[asyncio.AbstractEventLoop, Server]],
    uvloop: bool,
) -> None:
    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(_handle)
        try:
            server = await starting
        except BaseException as error:
            started.set_exception(error)
            return
        started.set_result((asyncio.get_running_loop(), server))
        await server.wait()

    with asyncio.Runner(loop_factory=_find_loop() if uvloop else None) as runner:
        runner.run(main())


def _find_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes event loops: uvloop, if it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Leave out what grpc.aio says whenever two loops of a process use it, or used it.

    Each of them is woken for an event that one of them takes; the other finds nothing, and tells.
    An event that belongs to a loop which is closed by now is told of, too.
    """
    error = context.get("exception")
    noise = isinstance(error, BlockingIOError) or str(error) == "Event loop is closed"
    if not (noise and "PollerCompletionQueue._handle_events" in repr(context.get("handle"))):
        loop.default_exception_handler(context)


def _stop(
    loop: asyncio.AbstractEventLoop, server: Server, thread: threading.Thread, grace: float
) -> None:
    # In a fork the thread is not alive.
    if thread.is_alive():
        asyncio.run_coroutine_threadsafe(server.stop(grace), loop).result()
        thread.join()


def serve_orchestrator(
    config: Config | str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 9000,
    actor_port: int | None = None,
    settings: Settings | None = None,
    local: Mapping[str, Any] | None = None,
    security: Security | None = None,
    uvloop: bool = False,
) -> OrchestratorHandle:
    """Start an orchestrator on a thread of its own.

    ```python
    with cogrs.serve_orchestrator("cogment.yaml", port=0) as orchestrator:
        print(orchestrator.port)
        orchestrator.wait()
    ```

    Args:
        config: Path of a `cogment.yaml`, what such a file says, or a `Config`.
        host: Address to listen at; others than this machine are let in only when asked for.
        port: TCP port; 0 takes a free one, which the property `port` tells.
        actor_port: Serve client actors at this port, apart; None serves all at one port.
        settings: Durations and limits.
        local: Components in this process, by the names that `local://name` endpoints have. They
            are called on the orchestrator's event loop.
        security: Certificates and tokens; needed to reach beyond this machine.
        uvloop: Run on uvloop if it is installed. Only for a process with one event loop in all its
            life: gRPC for asyncio loses events when such loops come and go beside others.

    Returns:
        A handle: it listens already. Stop it, or use it as a context manager.

    Raises:
        OSError: A port is taken, or a file cannot be read.
        ValueError: The configuration is no good, or other machines could do what they like.
    """
    return OrchestratorHandle(
        serve(
            config,
            host=host,
            port=port,
            actor_port=actor_port,
            settings=settings,
            local=local,
            security=security,
        ),
        uvloop=uvloop,
    )
