"""An orchestrator on a thread of its own: `cogrs.serve_orchestrator`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from cogrs.orchestrator.service.server import Server, serve
from cogrs.server_thread import ServerHandle, ServerThread

if TYPE_CHECKING:
    import asyncio
    import os
    from collections.abc import Callable, Mapping, Sequence

    from cogrs.orchestrator.engine.settings import Settings
    from cogrs.orchestrator.service.config import Config
    from cogrs.orchestrator.service.security import Security
    from cogrs.orchestrator.service.stats import OrchestratorStats
    from cogrs.tls import ServerTls


class OrchestratorHandle(ServerHandle[Server]):
    """A running orchestrator; see `serve_orchestrator`. Any thread may call any method."""

    @property
    def port(self) -> int:
        """The port that it listens at."""
        return self._running.server.port

    @property
    def actor_port(self) -> int:
        """The port that client actors connect to."""
        return self._running.server.actor_port

    @property
    def address(self) -> str:
        """Where clients and controllers find it: `grpc://host:port`."""
        return self._running.server.address

    def stats(self) -> OrchestratorStats:
        """Return the present statistics, or the last ones of a stopped orchestrator.

        Raises:
            RuntimeError: In a fork of the orchestrator's process.
            TimeoutError: Its event loop was busy for 10 s.
        """
        self._running.check_process("stats")
        return self._running.server.stats()

    def stop(self, grace: float = 10.0) -> None:
        """End all trials, stop, and free the port. A second call does nothing.

        Methods of local components that do not return are named in a warning, and abandoned: this
        returns within a second more than `grace` in any case.

        Args:
            grace: Seconds for environments and actors to give and take their last data.

        Raises:
            RuntimeError: In a fork of the orchestrator's process.
            TypeError, ValueError: `grace` is not a number of seconds >= 0.
        """
        self._running.stop(grace)

    def __repr__(self) -> str:
        """Return the ports and whether it runs."""
        ports = f"port={self.port}, actor_port={self.actor_port}"
        return f"OrchestratorHandle({ports}, {self._state()})"

    def __reduce__(self) -> NoReturn:
        """Raise a TypeError: an orchestrator cannot be pickled."""
        raise TypeError("an orchestrator cannot be pickled or copied: others reach it at its port")


def _find_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's factory of event loops, if it is installed."""
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
    tls: ServerTls | None = None,
    tokens: Sequence[str] = (),
    insecure: bool = False,
    uvloop: bool = False,
) -> OrchestratorHandle:
    """Start an orchestrator on a thread of its own.

    ```python
    with cogrs.serve_orchestrator("cogment.yaml", port=0) as orchestrator:
        print(orchestrator.port)
        orchestrator.wait()
    ```

    The arguments are those of `cogrs.orchestrator.serve`, and `uvloop`: run on uvloop if it is
    installed. Give it only in a process that has a single event loop for its whole life: gRPC for
    asyncio loses events when uvloop's loops come and go beside others. Local components are called
    on the event loop of the orchestrator; those of `cogrs.sdk` call plain methods on threads.

    Returns:
        The handle of an orchestrator that listens. Stop it, or use it as a context manager.

    Raises:
        OSError, TypeError, ValueError: As `serve`.
    """
    starting = serve(
        config,
        host=host,
        port=port,
        actor_port=actor_port,
        settings=settings,
        local=local,
        security=security,
        tls=tls,
        tokens=tokens,
        insecure=insecure,
    )
    loop_factory = _find_loop() if uvloop else None
    return OrchestratorHandle(ServerThread("cogrs-orchestrator", starting, loop_factory))
