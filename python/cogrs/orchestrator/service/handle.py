"""The orchestrator on a thread: `cogrs.serve_orchestrator`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Self

from cogrs.orchestrator.service.server import serve
from cogrs.server_thread import ServerThread

if TYPE_CHECKING:
    import asyncio
    import os
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
        factory = _find_loop() if uvloop else None
        self._running = ServerThread("cogrs-orchestrator", starting, factory)

    @property
    def port(self) -> int:
        """The port that it got."""
        return self._running.server.port

    @property
    def actor_port(self) -> int:
        """The port that client actors connect to."""
        return self._running.server.actor_port

    def stats(self) -> OrchestratorStats:
        """Return the present figures, or the last ones of an orchestrator that is stopped.

        Raises:
            RuntimeError: In a process that was forked off.
            TimeoutError: Its event loop was busy with something else for 10 s.
        """
        self._running.check_process("stats")
        return self._running.server.stats()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is stopped, by `stop` on another thread.

        Args:
            timeout: Seconds; None waits for ever.

        Returns:
            Whether it is stopped.

        Raises:
            RuntimeError: In a process that was forked off: the orchestrator is not in it.
            TypeError, ValueError: `timeout` is no number of seconds.
        """
        return self._running.wait(timeout)

    def stop(self, grace: float = 10.0) -> None:
        """End all trials, stop, and free the port. Again: nothing.

        Methods of local components that do not return are named in a warning, and left behind: this
        returns within a second more than `grace` in any case.

        Args:
            grace: Seconds for environments and actors to give and take their last data.

        Raises:
            RuntimeError: In a process that was forked off: the orchestrator is not in it.
            TypeError, ValueError: `grace` is no number of seconds.
        """
        self._running.stop(grace)

    def __enter__(self) -> Self:
        """Return the handle."""
        return self

    def __exit__(self, *_exc: object) -> None:
        """Stop it."""
        self.stop()

    def __repr__(self) -> str:
        """Tell where it listens."""
        state = "running" if self._running.is_alive else "stopped"
        return f"OrchestratorHandle(port={self.port}, actor_port={self.actor_port}, {state})"

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled.

        Raises:
            TypeError: Always.
        """
        raise TypeError("an orchestrator cannot be pickled or copied: others reach it at its port")


def _find_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes event loops: uvloop, if it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


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
            are called on the orchestrator's event loop; those of `cogrs.sdk` call plain methods on
            threads.
        security: Certificates and tokens, in place of those of the configuration; needed to reach
            beyond this machine.
        uvloop: Run on uvloop if it is installed. Only for a process with one event loop in all its
            life: gRPC for asyncio loses events when such loops come and go beside others.

    Returns:
        A handle: it listens already. Stop it, or use it as a context manager.

    Raises:
        OSError: A port is taken, or a file cannot be read.
        TypeError: An argument is something else.
        ValueError: The configuration is no good, a port is out of range, or other machines could
            do what they like.
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
