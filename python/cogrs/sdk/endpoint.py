"""A server with a user's environments and agents, or the same without a socket."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Self

import grpc

from cogrs.api.agent_pb2_grpc import add_AgentEndpointServicer_to_server
from cogrs.api.environment_pb2_grpc import add_EnvironmentEndpointServicer_to_server
from cogrs.sdk.agent_host import AgentHost
from cogrs.sdk.environment_host import EnvironmentHost
from cogrs.sdk.payload import CodecBook
from cogrs.sdk.servicer import AgentServicer, EnvironmentServicer
from cogrs.tls import listen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cogrs.sdk.agent import Agent
    from cogrs.sdk.environment import Environment
    from cogrs.sdk.payload import AnyCodec
    from cogrs.tls import ServerTls

_LARGEST = 512 << 20
"""Bytes of a message; images do not fit into gRPC's default of 4 MiB."""

CHANNEL_OPTIONS: Final = (
    ("grpc.max_send_message_length", _LARGEST),
    ("grpc.max_receive_message_length", _LARGEST),
)

_SERVER_OPTIONS: Final = (
    *CHANNEL_OPTIONS,
    # Two servers may not share a port, as Linux would let them.
    ("grpc.so_reuseport", 0),
    # An orchestrator whose machine is gone closes no connection; streams end when it is missed.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
)

_STREAM_TIMEOUT = 600.0
"""Seconds within which orchestrators open the stream of what they started."""

_ADDRESS = re.compile(r"(?:grpc://)?((?:\[[^\]]+\]|[^:/\[\]]+):(\d{1,5}))")


class Endpoint:
    """A running server; see `serve`."""

    def __init__(
        self, server: grpc.aio.Server, hosts: Sequence[EnvironmentHost | AgentHost], where: str
    ) -> None:
        """Hold a server that has started.

        Args:
            server: The server.
            hosts: What it serves.
            where: Address and port that it listens at.
        """
        self._server = server
        self._hosts = hosts
        self._where = where

    @property
    def port(self) -> int:
        """The port that it listens at."""
        return int(self._where.rpartition(":")[2])

    @property
    def address(self) -> str:
        """What trial parameters name it by: `grpc://host:port`, with the host it listens at."""
        return f"grpc://{self._where}"

    async def wait(self) -> None:
        """Wait until the server has stopped."""
        await self._server.wait_for_termination()

    async def stop(self, grace: float = 1.0) -> None:
        """Stop, and free the port. What is still in trials is lost. Again: nothing.

        Args:
            grace: Seconds that calls under way get to end, and then `lost` of what is lost.
        """
        await self._server.stop(grace)
        for host in self._hosts:
            await host.close(grace)

    async def __aenter__(self) -> Self:
        """Return the endpoint."""
        return self

    async def __aexit__(self, *_exc: object) -> None:
        """Stop it."""
        await self.stop()


async def serve(
    *,
    environments: Mapping[str, Callable[[], Environment]] | None = None,
    agents: Mapping[str, Callable[[], Agent]] | None = None,
    codec: AnyCodec | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    tls: ServerTls | None = None,
) -> Endpoint:
    """Serve environments and agents to orchestrators, on the running event loop.

    Args:
        environments: For each implementation's name what makes an environment, once a trial. A
            trial that names none gets the first.
        agents: For each implementation's name what makes an agent, once an actor and trial.
        codec: How observations and actions become bytes: one codec for both, `Codecs` for each of
            them, or a mapping from actor classes to `Codecs`. None stands for `ArrayCodec`.
        host: Address to listen at; only this machine reaches the default.
        port: Port; 0 takes one that is free.
        tls: Certificates; None serves without.

    Returns:
        The running server, whose `address` goes into trial parameters. Stop it, or use it as an
        asynchronous context manager.

    Raises:
        ValueError: There is nothing to serve, or a file of `tls` is not what it should be.
        OSError: The port is taken, there is no such address, or a file cannot be read.
    """
    if not environments and not agents:
        raise ValueError("environments, agents: expected at least one implementation, got none")
    server = grpc.aio.server(options=_SERVER_OPTIONS)
    hosts: list[EnvironmentHost | AgentHost] = []
    if environments:
        environment_host = local_environments(environments, codec=codec)
        hosts.append(environment_host)
        add_EnvironmentEndpointServicer_to_server(EnvironmentServicer(environment_host), server)
    if agents:
        agent_host = local_agents(agents, codec=codec)
        hosts.append(agent_host)
        add_AgentEndpointServicer_to_server(AgentServicer(agent_host), server)
    try:
        bound = listen(server, host, port, tls)
    except (OSError, ValueError):
        await server.stop(None)
        raise
    await server.start()
    name = f"[{host}]" if ":" in host else host
    return Endpoint(server, hosts, f"{name}:{bound}")


def local_environments(
    implementations: Mapping[str, Callable[[], Environment]], *, codec: AnyCodec | None = None
) -> EnvironmentHost:
    """Return environments for an orchestrator in this process, which needs no socket for them.

    ::

        cogrs.serve_orchestrator(config, local={"grid": cogrs.sdk.local_environments(...)})

    The endpoint of the environment is `local://grid` then. It is called on the orchestrator's
    event loop, and belongs to one.

    Args:
        implementations: As the environments of `serve`.
        codec: As of `serve`.
    """
    return EnvironmentHost(implementations, CodecBook(codec), _STREAM_TIMEOUT)


def local_agents(
    implementations: Mapping[str, Callable[[], Agent]], *, codec: AnyCodec | None = None
) -> AgentHost:
    """Return agents for an orchestrator in this process; see `local_environments`.

    Args:
        implementations: As the agents of `serve`.
        codec: As of `serve`.
    """
    return AgentHost(implementations, CodecBook(codec), _STREAM_TIMEOUT)


def address_of(endpoint: str) -> str:
    """Return what gRPC connects to.

    Raises:
        ValueError: Not `grpc://host:port`, nor `host:port`.
    """
    match = _ADDRESS.fullmatch(endpoint)
    if match is None or not 1 <= int(match[2]) <= 65535:
        raise ValueError(f"endpoint: expected 'grpc://host:port' or 'host:port', got {endpoint!r}")
    return match[1]
