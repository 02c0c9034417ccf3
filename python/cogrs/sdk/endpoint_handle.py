"""What plugs into trials, served on a thread: for programs without an event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from cogrs.background import Background
from cogrs.sdk.endpoint import Endpoint, serve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cogrs.sdk.codecs import AnyCodec
    from cogrs.sdk.datalog import DatalogSink
    from cogrs.sdk.endpoint import AnyAgent, AnyEnvironment
    from cogrs.sdk.hook import PreTrialHook
    from cogrs.tls import ServerTls


class EndpointHandle:
    """A running server, on an event loop of its own. Any thread may call any method."""

    def __init__(self, running: Background[Endpoint]) -> None:
        """Hold what runs."""
        self._running = running

    @property
    def port(self) -> int:
        """The port that it listens at."""
        return self._running.server.port

    @property
    def address(self) -> str:
        """What trial parameters name it by: `grpc://host:port`."""
        return self._running.server.address

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is stopped, by `stop` on another thread.

        Args:
            timeout: Seconds; None waits for ever.

        Returns:
            Whether it is stopped.
        """
        return self._running.wait(timeout)

    def stop(self, grace: float = 1.0) -> None:
        """Stop, and free the port. What is still in trials is lost. Again: nothing.

        Methods that do not return are named in a warning, and left behind: this returns within a
        second more than `grace` in any case.

        Args:
            grace: Seconds that calls under way get to end.

        Raises:
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
        return f"EndpointHandle({self.address!r}, {state})"


def serve_endpoint(
    *,
    environments: Mapping[str, AnyEnvironment] | None = None,
    agents: Mapping[str, AnyAgent] | None = None,
    hooks: Mapping[str, PreTrialHook] | None = None,
    datalog: Callable[[], DatalogSink] | None = None,
    codec: AnyCodec | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    tls: ServerTls | None = None,
    tokens: Sequence[str] = (),
    insecure: bool = False,
) -> EndpointHandle:
    """Serve what plugs into trials, on a thread of its own: `serve` without an event loop.

    Args:
        environments: As of `serve`.
        agents: As of `serve`.
        hooks: As of `serve`.
        datalog: As of `serve`.
        codec: As of `serve`.
        host: As of `serve`.
        port: As of `serve`.
        tls: As of `serve`.
        tokens: As of `serve`.
        insecure: As of `serve`.

    Returns:
        A handle: it listens already. Stop it, or use it as a context manager.

    Raises:
        ValueError, TypeError, OSError: As `serve`.
    """
    starting = serve(
        environments=environments,
        agents=agents,
        hooks=hooks,
        datalog=datalog,
        codec=codec,
        host=host,
        port=port,
        tls=tls,
        tokens=tokens,
        insecure=insecure,
    )
    return EndpointHandle(Background("cogrs-endpoint", starting))
