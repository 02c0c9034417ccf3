"""The orchestrator on an event loop: `cogrs.orchestrator.serve`."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Self, TypeVar

import grpc.aio

from cogrs.api.orchestrator_pb2_grpc import (
    add_ClientActorServicer_to_server,
    add_TrialLifecycleServicer_to_server,
)
from cogrs.event_loop import check_own_loop
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
from cogrs.orchestrator.service.decoding import DecodingInterceptor
from cogrs.orchestrator.service.extras import Health, add_reflection
from cogrs.orchestrator.service.lifecycle import LifecycleService
from cogrs.orchestrator.service.pace import Pace
from cogrs.orchestrator.service.security import Security
from cogrs.orchestrator.service.stats import take_stats
from cogrs.tls import listen
from cogrs.unfinished import stopping
from cogrs.validation import check_kind, check_named, check_port, check_seconds, check_text

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from cogrs.orchestrator.service.stats import OrchestratorStats

_LIFECYCLE, _ACTORS = "cogment.TrialLifecycle", "cogment.ClientActor"

T = TypeVar("T")

_PATIENCE = 10.0
"""Seconds in which a loop that is not stuck comes to what it is asked."""

_LOOK = 0.1
"""Seconds between two looks at whether it has ended instead."""

_THREAD = "serve_orchestrator() serves on a loop of its own"

_FAREWELL = 1.0
"""Seconds at most for actors to be told, out of the grace, and for calls that are open then."""

_LEAST = 0.05
"""Seconds at least for these calls, and for data logs, unless there is no grace."""


def server_options(
    max_message: int, max_request: int | None = None, max_streams: int = MAX_STREAMS
) -> list[tuple[str, int]]:
    """Return the options of every server.

    Args:
        max_message: Bytes of the largest message that is sent.
        max_request: Bytes of the largest that is received, if those are fewer.
        max_streams: Calls at a time on one connection.
    """
    return [
        ("grpc.max_send_message_length", max_message),
        ("grpc.max_receive_message_length", min(max_message, max_request or max_message)),
        ("grpc.max_concurrent_streams", max_streams),
        # What nobody has asked for yet is not to pile up: a window that grew would let in megabytes
        # for each call. It grows anyway for a message that is being read.
        ("grpc.http2.bdp_probe", 0),
        # Compressed requests are refused: gRPC up to 1.76 at least decompresses them as a whole
        # before it looks at their size.
        ("grpc.compression_enabled_algorithms_bitset", 1),
        # A port that is taken is an error, and not shared with whoever has it.
        ("grpc.so_reuseport", 0),
        # A crowd that calls at once waits; by default calls beyond 1,000 are cancelled at random.
        ("grpc.server.max_pending_requests", 100_000),
        ("grpc.server.max_pending_requests_hard_limit", 200_000),
        # Clients may ping often, with or without calls, to keep proxies from hanging up.
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
        ("grpc.http2.max_ping_strikes", 0),
    ]


class Server:
    """A running orchestrator."""

    def __init__(
        self, config: Config, settings: Settings, local: Mapping[str, Any], security: Security
    ) -> None:
        """Put it together; nothing listens yet."""
        log = parse_endpoint("datalog.url", config.log_url) if config.log_url else None
        self._settings = settings
        self._security = security
        self._access = security.access()
        self._links = LinkFactory(
            settings,
            local,
            log,
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
        self._pace = Pace()
        self._health = Health()
        self._servers: list[grpc.aio.Server] = []
        self._stopping: asyncio.Task[None] | None = None
        self._stopped = asyncio.Event()
        self.port = 0
        """Where `TrialLifecycle` is served, and `ClientActor` too if it has no port of its own."""
        self.actor_port = 0
        """Where `ClientActor` is served."""

    async def start(self, host: str, port: int, actor_port: int | None) -> None:
        """Listen.

        Raises:
            OSError: A port is taken, or there is no such address.
        """
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self.stop, 0.0)
            apart = actor_port is not None
            main = await self._make_server([_LIFECYCLE] if apart else [_LIFECYCLE, _ACTORS])
            other = await self._make_server([_ACTORS]) if apart else main
            lifecycle = LifecycleService(self._orchestrator, self._pace)
            add_TrialLifecycleServicer_to_server(lifecycle, main)
            clients = ClientActorService(self._orchestrator, self._access, self._pace)
            add_ClientActorServicer_to_server(clients, other)
            tls = self._security.tls
            self.port = self.actor_port = listen(main, host, port, tls)
            if actor_port is not None:
                self.actor_port = listen(other, host, actor_port, tls)
            for server in self._servers:
                await server.start()
            undo.pop_all()

    def stats(self) -> OrchestratorStats:
        """Return the present figures; any thread may ask.

        Raises:
            TimeoutError: The event loop was busy with something else for 10 s.
        """
        return _on_loop(self._loop, self._take_stats)

    def _take_stats(self) -> OrchestratorStats:
        return take_stats(self._orchestrator, self._links)

    async def wait(self) -> None:
        """Wait until it is stopped.

        Raises:
            RuntimeError: Called in another event loop than `serve`.
        """
        check_own_loop("this orchestrator", self._loop, _THREAD)
        await self._stopped.wait()

    async def stop(self, grace: float = 10.0) -> None:
        """End all trials, then stop. Again: wait for the same.

        Methods of local components that do not return are named in a warning, and left behind: this
        returns within a second more than `grace`. One that blocks this event loop cannot be left:
        Ctrl-C ends it.

        Args:
            grace: Seconds for environments and actors to give and take their last data.

        Raises:
            TypeError, ValueError: `grace` is no number of seconds.
            RuntimeError: Called in another event loop than `serve`.
        """
        check_seconds("grace", grace)
        check_own_loop("this orchestrator", self._loop, _THREAD)
        if self._stopping is None:
            self._stopping = asyncio.ensure_future(self._stop(grace))
        await asyncio.shield(self._stopping)

    async def _stop(self, grace: float) -> None:
        until = time.monotonic() + grace
        farewell = min(grace / 2, _FAREWELL)
        await self._health.stop()
        self._orchestrator.begin_stop()
        await self._wait_idle(grace - farewell)
        # Environments had their time; actors are still to be told.
        self._orchestrator.force_stop()
        await self._wait_idle(farewell)
        self._orchestrator.force_stop()
        self._orchestrator.finish_stop()

        def left() -> float:
            return min(max(until - time.monotonic(), _LEAST), grace, _FAREWELL)

        async with stopping(self._servers, left()):
            await self._links.close(left())
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
            interceptors=[*self._access.interceptors(), DecodingInterceptor(self._pace)],
            options=server_options(
                settings.max_message, settings.max_request, settings.max_streams
            ),
        )
        await self._health.add(server, services)
        add_reflection(server, services)
        self._servers.append(server)
        return server

    async def __aenter__(self) -> Self:
        """Return the server."""
        return self

    async def __aexit__(self, *_exc: object) -> None:
        """Stop it."""
        await self.stop()


def _on_loop(loop: asyncio.AbstractEventLoop, call: Callable[[], T]) -> T:
    """Call something on a loop, from any thread; directly when the loop runs no more."""
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
    except RuntimeError:  # it was closed just now
        return call()
    until = time.monotonic() + _PATIENCE
    while wait_for({answer}, timeout=_LOOK).not_done:
        if loop.is_closed():  # it ended, and did not come to what it was asked
            return call()
        if time.monotonic() > until:
            raise TimeoutError(f"the event loop was busy for {_PATIENCE:g} s")
    return answer.result()


async def serve(
    config: Config | str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 9000,
    actor_port: int | None = None,
    settings: Settings | None = None,
    local: Mapping[str, Any] | None = None,
    security: Security | None = None,
) -> Server:
    """Start an orchestrator on the running event loop.

    Args:
        config: Path of a `cogment.yaml`, what such a file says, or a `Config`.
        host: Address to listen at; others than this machine are let in only when asked for.
        port: TCP port; 0 takes a free one, which the property `port` tells.
        actor_port: Serve client actors at this port, apart; None serves all at one port.
        settings: Durations and limits.
        local: Components in this process, by the names that `local://name` endpoints have.
        security: Certificates and tokens, in place of those of the configuration; needed to reach
            beyond this machine.

    Returns:
        The server. Stop it, or use it as an asynchronous context manager.

    Raises:
        OSError: A port is taken, or a file cannot be read.
        TypeError: An argument is something else.
        ValueError: The configuration is no good, a port is out of range, or other machines could
            do what they like.
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
    if security is None:
        security = config.security or Security()
    security.check_listen(host)
    try:
        server = Server(config, settings, local, security)
    except InvalidError as error:
        raise ValueError(str(error)) from error
    await server.start(host, port, actor_port)
    return server
