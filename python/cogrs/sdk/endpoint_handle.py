"""`serve` on a thread of its own, for programs without an event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cogrs.sdk.endpoint import Endpoint, serve
from cogrs.server_thread import ServerHandle, ServerThread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cogrs.sdk.codecs import AnyCodec
    from cogrs.sdk.datalog import DatalogSink
    from cogrs.sdk.endpoint import AnyAgent, AnyEnvironment
    from cogrs.sdk.hook import PreTrialHook
    from cogrs.tls import ServerTls


class EndpointHandle(ServerHandle[Endpoint]):
    """A running server of environments, agents, hooks or a data log; see `serve_endpoint`."""

    @property
    def port(self) -> int:
        """The port that it listens at."""
        return self._running.server.port

    @property
    def address(self) -> str:
        """The endpoint for trial parameters: `grpc://host:port`."""
        return self._running.server.address

    def stop(self, grace: float = 1.0) -> None:
        """Stop, and free the port. Sessions that are still in trials are lost.

        A second call does nothing.

        Methods that do not return are named in a warning, and abandoned: this returns within a
        second more than `grace` in any case.

        Args:
            grace: Seconds that calls under way get to end.

        Raises:
            RuntimeError: In a fork of the server's process.
            TypeError, ValueError: `grace` is not a number of seconds >= 0.
        """
        self._running.stop(grace)

    def __repr__(self) -> str:
        """Return the address and the state."""
        return f"EndpointHandle({self.address!r}, {self._state()})"


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
    """Serve components of trials on a thread of its own, with the arguments of `serve`.

    Returns:
        The handle of a server that listens. Stop it, or use it as a context manager.

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
    return EndpointHandle(ServerThread("cogrs-endpoint", starting))
