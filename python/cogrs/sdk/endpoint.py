"""A server of environments, agents, hooks and data logs; and the same without a socket.

A call comes by gRPC to a servicer, or for `local://` straight to a host. The host has a hosted
component call the user's object, and knows nothing of gRPC.

Everything runs on one event loop, but for the threads of plain methods.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import grpc

from cogrs.access import Access
from cogrs.api.agent_pb2_grpc import add_AgentEndpointServicer_to_server
from cogrs.api.datalog_pb2_grpc import add_LogExporterServicer_to_server
from cogrs.api.environment_pb2_grpc import add_EnvironmentEndpointServicer_to_server
from cogrs.api.hooks_pb2_grpc import add_TrialHooksServicer_to_server
from cogrs.event_loop import AsyncCloseable, check_own_loop
from cogrs.hung_calls import stopping
from cogrs.listen_address import check_listener, reached_by
from cogrs.sdk.actor_session import ActorSession, SessionAgent
from cogrs.sdk.agent import Agent, FunctionAgent
from cogrs.sdk.agent_host import AgentHost
from cogrs.sdk.codecs import CodecRegistry
from cogrs.sdk.datalog_host import DatalogHost
from cogrs.sdk.environment import Environment
from cogrs.sdk.environment_host import EnvironmentHost
from cogrs.sdk.environment_session import EnvironmentSession, SessionEnvironment
from cogrs.sdk.hook import HookHost
from cogrs.sdk.servicer import AgentServicer, DatalogServicer, EnvironmentServicer, HookServicer
from cogrs.tls import ServerTls, listen
from cogrs.tokens import check_tokens
from cogrs.validation import check_kind, check_named, check_seconds, check_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cogrs.sdk.codecs import AnyCodec
    from cogrs.sdk.datalog import DatalogSink
    from cogrs.sdk.hook import PreTrialHook

AnyEnvironment: TypeAlias = (
    Callable[[], Environment] | Callable[[EnvironmentSession], Coroutine[Any, Any, Any]]
)
"""A factory of environments, one per trial; or an async function over a session."""

AnyAgent: TypeAlias = (
    Callable[[], Agent] | Callable[[ActorSession], Coroutine[Any, Any, Any]] | FunctionAgent
)
"""A factory of agents, one per actor and trial; an async function over a session; or a
`FunctionAgent`, which has no state."""

Host: TypeAlias = EnvironmentHost | AgentHost | HookHost | DatalogHost

_SERVICES: dict[type[Host], tuple[Callable[[Any, bool], Any], Callable[[Any, Any], None]]] = {
    EnvironmentHost: (EnvironmentServicer, add_EnvironmentEndpointServicer_to_server),
    AgentHost: (AgentServicer, add_AgentEndpointServicer_to_server),
    HookHost: (HookServicer, add_TrialHooksServicer_to_server),
    DatalogHost: (DatalogServicer, add_LogExporterServicer_to_server),
}
"""The servicer of each kind of host, and what adds it to a server."""

User = TypeVar("User", Environment, Agent)

_LARGEST = 512 << 20
"""Bytes of a message at most; images do not fit into gRPC's default of 4 MiB."""

CHANNEL_OPTIONS: Final = (
    ("grpc.max_send_message_length", _LARGEST),
    ("grpc.max_receive_message_length", _LARGEST),
)

CLIENT_OPTIONS: Final = (
    *CHANNEL_OPTIONS,
    # An orchestrator whose machine is gone closes no connection. Servers of gRPC take more than one
    # ping in five minutes for an attack, unless they are set otherwise.
    ("grpc.keepalive_time_ms", 330_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.ping_timeout_ms", 20_000),
    ("grpc.http2.max_pings_without_data", 0),
)

_SERVER_OPTIONS: Final = (
    *CHANNEL_OPTIONS,
    # Two servers may not share a port, as Linux would let them.
    ("grpc.so_reuseport", 0),
    # A crowd that calls at once waits; by default calls beyond 1,000 are cancelled at random.
    ("grpc.server.max_pending_requests", 100_000),
    ("grpc.server.max_pending_requests_hard_limit", 200_000),
    # An orchestrator whose machine is gone closes no connection; streams end when it is missed.
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.ping_timeout_ms", 20_000),
)

_STREAM_TIMEOUT = 600.0
"""Seconds within which orchestrators open the stream of what they started."""

_THREAD = "serve_endpoint() serves on a loop of its own"

_ADDRESS = re.compile(r"(?:grpc://)?((?:\[[^\]]+\]|[^:/\[\]]+):(\d{1,5}))")


class Endpoint(AsyncCloseable):
    """A running server; see `serve`."""

    def __init__(self, server: grpc.aio.Server, hosts: Sequence[Host], where: str) -> None:
        """Hold a server that listens at `where`, address and port, for these hosts."""
        self._server = server
        self._hosts = hosts
        self._where = where
        self._stopped = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    @property
    def port(self) -> int:
        """The port that it listens at."""
        return int(self._where.rpartition(":")[2])

    @property
    def address(self) -> str:
        """The endpoint for trial parameters: `grpc://host:port`, with the host it listens at."""
        return f"grpc://{self._where}"

    async def wait(self) -> None:
        """Wait until the server has stopped.

        Raises:
            RuntimeError: Called in another event loop than `serve`.
        """
        check_own_loop("this endpoint", self._loop, _THREAD)
        await self._stopped.wait()

    async def stop(self, grace: float = 1.0) -> None:
        """Stop the server, if it runs, and free the port. Objects that are in trials are lost.

        Methods that do not return are named in a warning and left behind: this returns within
        `grace` and a second. A method that blocks this event loop cannot be left: Ctrl-C ends it.

        Args:
            grace: Seconds that calls under way get to end; the methods `lost` get what is left of
                them, and at least 0.2 s.

        Raises:
            TypeError, ValueError: `grace` is not a number of seconds >= 0.
            RuntimeError: Called in another event loop than `serve`.
        """
        check_seconds("grace", grace)
        check_own_loop("this endpoint", self._loop, _THREAD)
        async with stopping([self._server], grace) as left:
            await asyncio.gather(*(host.close(left) for host in self._hosts))
        self._stopped.set()

    async def close(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Stop, as `stop` with `timeout` as its grace; None takes its default."""
        await self.stop(*([] if timeout is None else [timeout]))


async def serve(
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
) -> Endpoint:
    """Serve environments, agents, hooks and data logs on the running event loop.

    Args:
        environments: For each implementation's name a factory, called once per trial, or an async
            function over an `EnvironmentSession`. A trial that names none of them gets the first.
        agents: For each implementation's name a factory, called once per actor and trial, an async
            function over an `ActorSession`, or a `FunctionAgent`.
        hooks: For each implementation's name a function that sets the parameters of trials.
        datalog: Factory of data logs, called once per trial.
        codec: How observations and actions become bytes: one codec for both, `Codecs` for each of
            them, or a mapping from actor classes to `Codecs`. None stands for `ArrayCodec`.
        host: Address to listen at; only this machine reaches the default. Others need `tls`, and
            `tokens` or a `client_ca` in `tls`.
        port: Port; 0 takes a free one.
        tls: Certificates; None serves without TLS.
        tokens: Tokens of which orchestrators have to show one (`Security.link_tokens`), if any.
        insecure: Let other machines in without TLS or tokens. Callers are then told the type of a
            failure alone; its text is in the log.

    Returns:
        The running server, whose `address` goes into trial parameters. Stop it, or use it as an
        asynchronous context manager.

    Raises:
        ValueError: There is nothing to serve, the port is out of range, the server would be open
            to other machines, a token is malformed, or a file of `tls` has the wrong content.
        TypeError: A factory or a hook is not callable, or an argument has the wrong type.
        OSError: The port is taken, the address does not exist, or a file cannot be read.
    """
    if not (environments or agents or hooks or datalog):
        what = "environments, agents, hooks, datalog"
        raise ValueError(f"{what}: expected at least one implementation, got nothing")
    tokens = check_tokens("tokens", tokens)
    check_kind("tls", tls, ServerTls | None, "a ServerTls or None")
    check_kind("insecure", insecure, bool, "True or False")
    check_text("host", host)
    known = bool(tokens) or (tls is not None and tls.client_ca is not None)
    missing = [*(() if tls else ("tls",)), *(() if known else ("tokens or tls.client_ca",))]
    check_listener("host", host, missing, insecure=insecure)
    brief = not known and reached_by(host) is not None
    hosts: list[Host] = []
    if environments:
        hosts.append(local_environments(environments, codec=codec))
    if agents:
        hosts.append(local_agents(agents, codec=codec))
    if hooks:
        hosts.append(local_hooks(hooks))
    if datalog:
        hosts.append(local_datalog(datalog, codec=codec))
    server = grpc.aio.server(interceptors=Access(tokens).interceptors(), options=_SERVER_OPTIONS)
    for each in hosts:
        servicer, register = _SERVICES[type(each)]
        register(servicer(each, brief), server)
    try:
        bound = listen(server, host, port, tls)
    except (OSError, TypeError, ValueError):
        await server.stop(None)
        raise
    await server.start()
    name = f"[{host}]" if ":" in host else host
    return Endpoint(server, hosts, f"{name}:{bound}")


def local_environments(
    implementations: Mapping[str, AnyEnvironment], *, codec: AnyCodec | None = None
) -> EnvironmentHost:
    """Return environments for an orchestrator in this process, which needs no socket for them.

    ::

        cogrs.serve_orchestrator(config, local={"grid": cogrs.sdk.local_environments(...)})

    The endpoint of the environment is `local://grid` then. It belongs to one orchestrator at a
    time: async and inline methods run on its event loop, and threads of plain methods end with it.

    Args:
        implementations: As the environments of `serve`.
        codec: As of `serve`.
    """
    factories = _factories("environments", implementations, Environment, SessionEnvironment)
    return EnvironmentHost(factories, CodecRegistry(codec), _STREAM_TIMEOUT)


def local_agents(
    implementations: Mapping[str, AnyAgent], *, codec: AnyCodec | None = None
) -> AgentHost:
    """Return agents for an orchestrator in this process; see `local_environments`.

    Args:
        implementations: As the agents of `serve`.
        codec: As of `serve`.
    """
    factories = _factories("agents", implementations, Agent, SessionAgent)
    return AgentHost(factories, CodecRegistry(codec), _STREAM_TIMEOUT)


def local_hooks(implementations: Mapping[str, PreTrialHook]) -> HookHost:
    """Return pre-trial hooks for an orchestrator in this process; see `local_environments`.

    Args:
        implementations: As the hooks of `serve`.
    """
    check_named("hooks", implementations)
    for name, hook in implementations.items():
        _check_callable(f"hooks[{name!r}]", hook)
    return HookHost(implementations)


def local_datalog(make: Callable[[], DatalogSink], *, codec: AnyCodec | None = None) -> DatalogHost:
    """Return a data log for an orchestrator in this process; see `local_environments`.

    Args:
        make: As the data log of `serve`.
        codec: As of `serve`.
    """
    _check_callable("datalog", make)
    return DatalogHost(make, CodecRegistry(codec))


def _factories(
    what: str, implementations: Mapping[str, Any], user: type[User], script: Callable[[Any], User]
) -> dict[str, Callable[[], User]]:
    """Return factories of a user's objects, from the forms in which they may be given."""
    check_named(what, implementations)
    factories: dict[str, Callable[[], User]] = {}
    for name, given in implementations.items():
        if inspect.iscoroutinefunction(given):
            factories[name] = partial(script, given)
        elif isinstance(given, FunctionAgent) and user is Agent:
            factories[name] = partial(lambda agent: agent, given)
        else:
            _check_callable(f"{what}[{name!r}]", given)
            factories[name] = given
    return factories


def _check_callable(what: str, given: Any) -> None:
    if not callable(given):
        kind = type(given).__name__
        raise TypeError(f"{what}: expected a class or a function, got an object of {kind}")
    if isinstance(given, type):
        check_kind(f"{what}: inline", getattr(given, "inline", False), bool, "True or False")


def address_of(endpoint: str) -> str:
    """Return the `host:port` of an endpoint; a ValueError, or TypeError, if it is not one."""
    check_text("endpoint", endpoint)
    match = _ADDRESS.fullmatch(endpoint)
    if match is None or not 1 <= int(match[2]) <= 65535:
        raise ValueError(f"endpoint: expected 'grpc://host:port' or 'host:port', got {endpoint!r}")
    return match[1]
