"""`serve` on a thread of its own, for programs without an event loop."""

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
        """Hold a running server."""
        self._running = running

    @property
    def port(self) -> int:
        """The port that it listens at."""
        return self._running.server.port

    @property
    def address(self) -> str:
        """The endpoint for trial parameters: `grpc://host:port`."""
        return self._running.server.address

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until `stop` is called on another thread; return whether the server is stopped.

        Args:
            timeout: Seconds; None waits for ever.
        """
        return self._running.wait(timeout)

    def stop(self, grace: float = 1.0) -> None:
        """Stop the server, if it runs, and free the port. Objects that are in trials are lost.

        Methods that do not return are named in a warning and left behind: this returns within
        `grace` and a second in any case.

        Args:
            grace: Seconds that calls under way get to end.

        Raises:
            TypeError, ValueError: `grace` is not a number of seconds >= 0.
        """
        self._running.stop(grace)

    def __enter__(self) -> Self:
        """Return the handle."""
        return self

    def __exit__(self, *_exc: object) -> None:
        """Stop it."""
        self.stop()

    def __repr__(self) -> str:
        """Return the address and the state."""
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
    """Serve on an event loop of its own, on a thread; arguments and errors are those of `serve`.

    Returns:
        A handle of the server, which listens already. Stop it, or use it as a context manager.
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
