"""Makes the ports of trials."""

from __future__ import annotations

import asyncio
import inspect
import time
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from cogrs.hung_calls import wait_running
from cogrs.orchestrator.engine.endpoint import Endpoint, Kind, parse_endpoint
from cogrs.orchestrator.engine.errors import InvalidError
from cogrs.orchestrator.links.agent import AgentLink
from cogrs.orchestrator.links.channels import Channels
from cogrs.orchestrator.links.datalog import LogLink, LogTally
from cogrs.orchestrator.links.environment import EnvironmentLink
from cogrs.orchestrator.links.hook import HookLink
from cogrs.orchestrator.links.link import Bond
from cogrs.orchestrator.links.remote import RemoteAgent, RemoteEnvironment, RemoteHook, RemoteLog
from cogrs.orchestrator.links.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cogrs.orchestrator.engine.ports import AgentEvents, EnvironmentEvents
    from cogrs.orchestrator.engine.settings import Settings
    from cogrs.orchestrator.links.channels import Metadata, Route
    from cogrs.tls import ClientTls

T = TypeVar("T")

_STOP = 0.5
"""Seconds beyond their grace in which local components stop."""


def _nothing() -> None:
    """Give back nothing."""


def _no_fault(_target: str) -> str | None:
    """Allow every machine."""
    return None


class LinkFactory:
    """`Links` by gRPC, and to objects in this process."""

    def __init__(
        self,
        settings: Settings,
        local: Mapping[str, Any],
        log: Endpoint | None = None,
        *,
        tls: ClientTls | None = None,
        find_fault: Callable[[str], str | None] = _no_fault,
        metadata_for: Callable[[str], Metadata] = lambda _target: (),
    ) -> None:
        """Reach components.

        Args:
            settings: Durations and limits.
            local: The components of this process by name, see `component`.
            log: Where the data log is, if there is one.
            tls: Certificates for all channels; None opens them without.
            find_fault: Tells why `host:port` is not to be connected to, if it is not.
            metadata_for: Returns what calls to `host:port` show, besides the trial.
        """
        self._settings = settings
        self._local = local
        self._log = log
        self._find_fault = find_fault
        self.logs = LogTally()
        """What all data logs have, and have lost."""
        self._tasks = Tasks()
        self._channels = Channels(settings.max_message, self._tasks, tls, metadata_for)

    def check(self, what: str, endpoint: Endpoint) -> None:
        """Refuse `local://` endpoints of unknown names, and machines that are not to be used.

        Raises:
            InvalidError: This is one.
        """
        if endpoint.kind is Kind.GRPC and (fault := self._find_fault(endpoint.target)):
            raise InvalidError(f"{what}: {endpoint.text} {fault}")
        if endpoint.kind is Kind.LOCAL and endpoint.target not in self._local:
            known = ", ".join(sorted(self._local)) or "none"
            raise InvalidError(f"{what}: {endpoint.text}: known local components: {known}")

    def environment(
        self, trial_id: str, endpoint: Endpoint, events: EnvironmentEvents
    ) -> EnvironmentLink:
        """Return a port to an environment."""
        component, bond = self._reach(trial_id, endpoint, RemoteEnvironment)
        return EnvironmentLink(trial_id, component, events, bond)

    def agent(self, trial_id: str, name: str, endpoint: Endpoint, events: AgentEvents) -> AgentLink:
        """Return a port to an agent."""
        component, bond = self._reach(trial_id, endpoint, RemoteAgent)
        return AgentLink(trial_id, name, component, events, self._settings, bond)

    def log(self, trial_id: str) -> LogLink | None:
        """Return a port to the data log, if there is one."""
        if self._log is None:
            return None
        component, bond = self._reach(trial_id, self._log, RemoteLog)
        return LogLink(trial_id, component, self._settings, bond, self.logs)

    def hook(self, text: str) -> HookLink:
        """Return a hook, for as long as this factory lives.

        Raises:
            InvalidError: No such endpoint.
        """
        endpoint = parse_endpoint("pre-trial hook", text)
        self.check("pre-trial hook", endpoint)
        component, _ = self._reach(text, endpoint, RemoteHook)
        return HookLink(text, component, self._settings.hook_timeout)

    async def close(self, grace: float = 0.0) -> None:
        """Cancel what is under way, tell local components, and close all channels.

        Args:
            grace: Seconds for data logs to take what was told of trials that are over; what is
                left of them for local components.
        """
        until = time.monotonic() + grace
        if grace and self.logs.closing:
            await asyncio.wait(self.logs.closing, timeout=grace)
        self._tasks.cancel()
        await self._stop_components(max(until - time.monotonic(), 0.0))
        await self._tasks.close()
        await self._channels.close()

    async def _stop_components(self, grace: float) -> None:
        components = {id(each): each for each in self._local.values()}.values()
        stops = [
            self._tasks.spawn(component.on_stop(grace))
            for component in components
            if inspect.iscoroutinefunction(getattr(component, "on_stop", None))
        ]
        await wait_running(stops, grace + _STOP)

    def _reach(
        self, trial_id: str, endpoint: Endpoint, remote: Callable[[Route], T]
    ) -> tuple[T, Bond]:
        lane = self._tasks.turns.lane(trial_id)
        timeout = self._settings.call_timeout
        if endpoint.kind is Kind.LOCAL:
            # A local component has the methods of the remote one, or fails when it is called.
            component: T = self._local[endpoint.target]
            return component, Bond(self._tasks, lane, timeout, _nothing)
        route = self._channels.take(endpoint.target)
        release = partial(self._channels.give_back, endpoint.target)
        return remote(route), Bond(self._tasks, lane, timeout, release)
