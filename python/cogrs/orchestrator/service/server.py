"""An orchestrator on an event loop: `cogrs.orchestrator.serve`.

Everything runs on the loop that `serve` was called on; any thread may call `Server.stats`, and only
that.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import grpc.aio

from cogrs.api.orchestrator_pb2_grpc import (
    add_ClientActorServicer_to_server,
    add_TrialLifecycleServicer_to_server,
)
from cogrs.event_loop import AsyncCloseable, check_own_loop
from cogrs.hung_calls import stopping
from cogrs.limits import MAX_STREAMS
from cogrs.orchestrator.engine.actor_options import OptionTable
from cogrs.orchestrator.engine.endpoint import parse_endpoint
from cogrs.orchestrator.engine.errors import InvalidError
from cogrs.orchestrator.engine.orchestrator import Orchestrator
from cogrs.orchestrator.engine.settings import Settings
from cogrs.orchestrator.engine.trial_record import TrialContext
from cogrs.orchestrator.links.factory import LinkFactory
from cogrs.orchestrator.service.client_actor import ClientActorService
from cogrs.orchestrator.service.clock import LoopClock
from cogrs.orchestrator.service.config import Config, read_config
from cogrs.orchestrator.service.lifecycle import LifecycleService
from cogrs.orchestrator.service.report import Reporter
from cogrs.orchestrator.service.request_decoding import DecodingInterceptor
from cogrs.orchestrator.service.security import Security
from cogrs.orchestrator.service.standard_services import Health, add_reflection
from cogrs.orchestrator.service.stats import take_stats
from cogrs.orchestrator.service.throttle import Throttle
from cogrs.tls import listen
from cogrs.validation import check_kind, check_named, check_port, check_seconds, check_text

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from cogrs.orchestrator.service.stats import OrchestratorStats
    from cogrs.store.location import Location
    from cogrs.store.writer import StoreWriter
    from cogrs.tls import ServerTls

_LIFECYCLE, _ACTORS = "cogment.TrialLifecycle", "cogment.ClientActor"

T = TypeVar("T")

_PATIENCE = 10.0
"""Seconds within which a loop that does not hang runs a call."""

_LOOK = 0.1
"""Seconds between two checks whether the loop has ended instead."""

_THREAD = "serve_orchestrator() serves on a loop of its own"

_FAREWELL = 1.0
"""Maximum seconds of the grace for actors' final data, and for open calls after that."""

_LEAST = 0.05
"""Minimum seconds for open calls and data logs, unless the grace is 0."""


def server_options(
    max_message: int, max_request: int | None = None, max_streams: int = MAX_STREAMS
) -> list[tuple[str, int]]:
    """Return the gRPC options of a server, given maximum bytes and calls per connection."""
    return [
        ("grpc.max_send_message_length", max_message),
        ("grpc.max_receive_message_length", min(max_message, max_request or max_message)),
        ("grpc.max_concurrent_streams", max_streams),
        # Otherwise the window grows, and lets in megabytes per call before they are read. It grows
        # anyway for a message that is being read.
        ("grpc.http2.bdp_probe", 0),
        # Compressed requests are refused: gRPC up to 1.76 at least decompresses them as a whole
        # before it looks at their size.
        ("grpc.compression_enabled_algorithms_bitset", 1),
        # A taken port is an error, and not shared with the process that has it.
        ("grpc.so_reuseport", 0),
        # Many calls at once wait; by default calls beyond 1,000 are cancelled at random.
        ("grpc.server.max_pending_requests", 100_000),
        ("grpc.server.max_pending_requests_hard_limit", 200_000),
        # Clients may ping often, with or without calls, to keep proxies from disconnecting.
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
        ("grpc.http2.max_ping_strikes", 0),
    ]


class Server(AsyncCloseable):
    """A running orchestrator."""

    def __init__(
        self,
        config: Config,
        settings: Settings,
        local: Mapping[str, Any],
        security: Security,
        store: StoreWriter | None = None,
    ) -> None:
        """Create an orchestrator that does not listen yet."""
        log = parse_endpoint("datalog.url", config.log_url) if config.log_url else None
        self._settings = settings
        self._security = security
        self._access = security.access()
        self._links = LinkFactory(
            settings,
            local,
            log,
            store=store,
            tls=security.link_tls,
            find_fault=security.find_fault,
            metadata_for=security.link_metadata,
        )
        if log is not None:
            self._links.check("datalog.url", log)
        context = TrialContext(
            settings=settings,
            clock=LoopClock(),
            links=self._links,
            options=OptionTable(by_name=config.actor_options, by_class=config.class_options),
            exclude=config.log_exclude,
            hide_failures=bool(security.client_tokens),
        )
        self._orchestrator = Orchestrator(
            config.params,
            context,
            hooks=[self._links.hook(endpoint) for endpoint in config.hooks],
            classes=config.classes,
            accept_params=config.accept_params,
            require_secrets=security.slot_secrets == "required",
        )
        self._loop = asyncio.get_running_loop()
        self._throttle = Throttle()
        self._health = Health()
        self._servers: list[grpc.aio.Server] = []
        self._stopping: asyncio.Task[None] | None = None
        self._stopped = asyncio.Event()
        self._host = ""
        self.port = 0
        """The port of `TrialLifecycle`, and of `ClientActor` if it has no port of its own."""
        self.actor_port = 0
        """The port of `ClientActor`."""

    async def start(self, host: str, port: int, actor_port: int | None) -> None:
        """Listen.

        Raises:
            OSError: A port is taken, or the address does not exist.
        """
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self.stop, 0.0)
            apart = actor_port is not None
            main = await self._make_server([_LIFECYCLE] if apart else [_LIFECYCLE, _ACTORS])
            other = await self._make_server([_ACTORS]) if apart else main
            reporter = Reporter(self._orchestrator, self._links)
            lifecycle = LifecycleService(self._orchestrator, self._throttle, reporter)
            add_TrialLifecycleServicer_to_server(lifecycle, main)
            clients = ClientActorService(self._orchestrator, self._access, self._throttle)
            add_ClientActorServicer_to_server(clients, other)
            tls, self._host = self._security.tls, host.strip("[]")
            self.port = self.actor_port = listen(main, host, port, tls)
            if actor_port is not None:
                self.actor_port = listen(other, host, actor_port, tls)
            for server in self._servers:
                await server.start()
            undo.pop_all()

    @property
    def address(self) -> str:
        """Where clients and controllers find it: `grpc://host:port`."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"grpc://{host}:{self.port}"

    def stats(self) -> OrchestratorStats:
        """Return the present statistics; any thread may call this.

        Raises:
            TimeoutError: The event loop was busy for 10 s.
        """
        return _on_loop(self._loop, self._take_stats)

    def _take_stats(self) -> OrchestratorStats:
        return take_stats(self._orchestrator, self._links)

    async def wait(self) -> None:
        """Wait until the orchestrator is stopped.

        Raises:
            RuntimeError: Called in another event loop than `serve`.
        """
        check_own_loop("this orchestrator", self._loop, _THREAD)
        await self._stopped.wait()

    async def stop(self, grace: float = 10.0) -> None:
        """End all trials, then stop. A second call waits for the first.

        Methods of local components that do not return are named in a warning, and abandoned: this
        returns within a second more than `grace`. A method that blocks this
        event loop cannot be abandoned: Ctrl-C ends it.

        Args:
            grace: Seconds for environments and actors to give and take their last data.

        Raises:
            TypeError, ValueError: `grace` is not a number of seconds >= 0.
            RuntimeError: Called in another event loop than `serve`.
        """
        check_seconds("grace", grace)
        check_own_loop("this orchestrator", self._loop, _THREAD)
        if self._stopping is None:
            self._stopping = asyncio.ensure_future(self._stop(grace))
        await asyncio.shield(self._stopping)

    async def close(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Stop, as `stop` with `timeout` as its grace; None takes its default."""
        await self.stop(*([] if timeout is None else [timeout]))

    async def _stop(self, grace: float) -> None:
        until = time.monotonic() + grace
        farewell = min(grace / 2, _FAREWELL)
        await self._health.stop()
        self._orchestrator.begin_stop()
        await self._wait_idle(grace - farewell)
        # Environments had their time; actors still get their final data.
        self._orchestrator.force_stop()
        await self._wait_idle(farewell)
        self._orchestrator.force_stop()
        self._orchestrator.finish_stop()

        def left() -> float:
            return min(max(until - time.monotonic(), _LEAST), grace, _FAREWELL)

        async with stopping(self._servers, left()):
            await self._links.close(left(), min(until - time.monotonic(), grace))
        self._stopped.set()

    async def _wait_idle(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._orchestrator.wait_idle()
        except TimeoutError:
            return

    async def _make_server(self, services: Sequence[str]) -> grpc.aio.Server:
        settings = self._settings
        server = grpc.aio.server(
            interceptors=[*self._access.interceptors(), DecodingInterceptor(self._throttle)],
            options=server_options(
                settings.max_message, settings.max_request, settings.max_streams
            ),
        )
        await self._health.add(server, services)
        add_reflection(server, services)
        self._servers.append(server)
        return server


def _on_loop(loop: asyncio.AbstractEventLoop, call: Callable[[], T]) -> T:
    """Run a call on a loop, from any thread; directly if the loop has ended."""
    try:
        here = asyncio.get_running_loop() is loop
    except RuntimeError:
        here = False
    if here or loop.is_closed():
        return call()
    answer: Future[T] = Future()

    def work() -> None:
        try:
            answer.set_result(call())
        except Exception as error:
            answer.set_exception(error)

    try:
        loop.call_soon_threadsafe(work)
    except RuntimeError:  # the loop was closed just now
        return call()
    until = time.monotonic() + _PATIENCE
    while wait_for({answer}, timeout=_LOOK).not_done:
        if loop.is_closed():  # the loop ended before it ran the call
            return call()
        if time.monotonic() > until:
            raise TimeoutError(f"the event loop was busy for {_PATIENCE:g} s")
    return answer.result()


async def _opened(location: Location) -> StoreWriter:
    from cogrs.store.writer import open_writer

    return await open_writer(location)


async def serve(
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
) -> Server:
    """Start an orchestrator on the running event loop.

    Args:
        config: Path of a `cogment.yaml`, what such a file says, or a `Config`.
        host: Address to listen at; remote peers need `tls`, and tokens or client certificates.
        port: TCP port; 0 takes a free one.
        actor_port: Separate port for client actors; None serves all at one port.
        settings: Durations and limits.
        local: Components in this process, by the names of `local://name` endpoints.
        security: Certificates and tokens, in place of those of the configuration.
        tls: `Security.tls`, for orchestrators that need no more than this, tokens and `insecure`.
        tokens: `Security.tokens`, likewise.
        insecure: `Security.insecure`, likewise.

    Returns:
        The server. Stop it, or use it as an asynchronous context manager.

    Raises:
        ImportError: The configuration has a store, and pyarrow or psycopg is not installed.
        OSError: A port is taken, a file cannot be read, or the store cannot be written; a database
            of its index that cannot be reached is tried again for ten seconds.
        TypeError: An argument has the wrong type.
        ValueError: The configuration is invalid, a port is out of range, or remote peers reach an
            orchestrator that is not secured.
    """
    settings = Settings() if settings is None else settings
    local = {} if local is None else local
    check_kind("settings", settings, Settings, "Settings or None")
    check_kind("security", security, Security | None, "Security or None")
    check_named("local", local)
    check_text("host", host)
    port = check_port("port", port)
    actor_port = None if actor_port is None else check_port("actor_port", actor_port)
    config = read_config(config)
    given = {"tls": tls, "tokens": tokens, "insecure": insecure}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value}
    if security is None:
        security = replace(config.security or Security(), **changes)
    elif changes:
        raise ValueError(f"{', '.join(changes)}: expected as fields of `security` only, got both")
    security.check_listen(host)
    store = await _opened(config.store) if config.store is not None else None
    try:
        server = Server(config, settings, local, security, store)
    except BaseException as error:
        if store is not None:
            store.begin_close(0.0)
        if isinstance(error, InvalidError):
            raise ValueError(str(error)) from error
        raise
    await server.start(host, port, actor_port)
    return server
