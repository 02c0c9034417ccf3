"""A server with a user's environments and agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

import grpc

from cogrs.api.agent_pb2_grpc import add_AgentEndpointServicer_to_server
from cogrs.api.environment_pb2_grpc import add_EnvironmentEndpointServicer_to_server
from cogrs.sdk.agent import AgentServicer
from cogrs.sdk.environment import EnvironmentServicer
from cogrs.sdk.payload import ArrayCodec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cogrs.sdk.agent import Agent
    from cogrs.sdk.environment import Environment
    from cogrs.sdk.payload import Codec

_LARGEST = 512 << 20
"""Bytes of a message; images do not fit into gRPC's default of 4 MiB."""

CHANNEL_OPTIONS: Final = (
    ("grpc.max_send_message_length", _LARGEST),
    ("grpc.max_receive_message_length", _LARGEST),
)


class Endpoint:
    """A running server; see `serve`."""

    def __init__(self, server: grpc.aio.Server, host: str, port: int) -> None:
        """Hold a server that has started."""
        self._server = server
        self._host = host
        self.port = port

    @property
    def address(self) -> str:
        """What trial parameters name it by: `grpc://host:port`."""
        return f"grpc://{self._host}:{self.port}"

    async def wait(self) -> None:
        """Wait until the server has stopped."""
        await self._server.wait_for_termination()

    async def stop(self, grace: float = 1.0) -> None:
        """Stop, and give calls that are under way so many seconds to end."""
        await self._server.stop(grace)

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
    codec: Codec | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
) -> Endpoint:
    """Serve environments and agents to an orchestrator.

    Args:
        environments: For each implementation's name what makes an environment, once a trial. A
            trial that names none gets the first.
        agents: For each implementation's name what makes an agent, once an actor and trial.
        codec: How observations and actions become bytes; arrays if None.
        host: Address to listen at; only this machine reaches the default.
        port: Port; 0 takes one that is free.

    Returns:
        The running server, whose `address` goes into trial parameters.

    Raises:
        ValueError: There is nothing to serve.
        OSError: The port is taken.
    """
    if not environments and not agents:
        raise ValueError("environments, agents: expected at least one implementation, got none")
    # Two servers may not share a port, as Linux would let them.
    server = grpc.aio.server(options=(*CHANNEL_OPTIONS, ("grpc.so_reuseport", 0)))
    codec = codec or ArrayCodec()
    if environments:
        servicer = EnvironmentServicer(environments, codec)
        add_EnvironmentEndpointServicer_to_server(servicer, server)
    if agents:
        add_AgentEndpointServicer_to_server(AgentServicer(agents, codec), server)
    try:
        bound = server.add_insecure_port(f"{host}:{port}")
    except RuntimeError as error:
        raise OSError(f"port: cannot listen at {host}:{port}: {error}") from None
    await server.start()
    return Endpoint(server, host, bound)


def address_of(endpoint: str) -> str:
    """Return what gRPC connects to.

    Raises:
        ValueError: Not `grpc://host:port`, nor `host:port`.
    """
    address = endpoint.removeprefix("grpc://")
    if "://" in address or not address.rpartition(":")[2].isdigit():
        raise ValueError(f"endpoint: expected 'grpc://host:port', got {endpoint!r}")
    return address
