"""Makes the ports of trials: by gRPC, or to objects in this process."""

from __future__ import annotations

import asyncio
import inspect
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from cogrs.api.agent_pb2 import AgentRewardRequest
from cogrs.hung_calls import wait_running
from cogrs.orchestrator.engine.endpoint import Endpoint, EndpointKind, parse_endpoint
from cogrs.orchestrator.engine.errors import InvalidError
from cogrs.orchestrator.links.agent import AgentLink
from cogrs.orchestrator.links.background_tasks import BackgroundTasks
from cogrs.orchestrator.links.channel_pool import ChannelPool, Metadata, PooledChannel
from cogrs.orchestrator.links.datalog import LogCounters, LogLink
from cogrs.orchestrator.links.environment import EnvironmentLink
from cogrs.orchestrator.links.hook import HookLink
from cogrs.orchestrator.links.link import LinkContext, tell
from cogrs.orchestrator.links.remote import RemoteAgent, RemoteEnvironment, RemoteHook, RemoteLog
from cogrs.orchestrator.links.store import StoreLink

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cogrs.api.common_pb2 import Reward
    from cogrs.orchestrator.engine.ports import AgentEvents, EnvironmentEvents
    from cogrs.orchestrator.engine.settings import Settings
    from cogrs.store.writer import StoreWriter
    from cogrs.tls import ClientTls

T = TypeVar("T")

_STOP = 0.5
"""Seconds beyond their grace in which local components stop."""
_STORE = 0.4
"""Minimum seconds for a store to write the rest; then it goes to journals, which takes less."""


def _no_fault(_target: str) -> str | None:
    return None


class LinkFactory:
    """The `Links` of an orchestrator."""

    def __init__(
        self,
        settings: Settings,
        local: Mapping[str, Any],
        log: Endpoint | None = None,
        *,
        store: StoreWriter | None = None,
        tls: ClientTls | None = None,
        find_fault: Callable[[str], str | None] = _no_fault,
        metadata_for: Callable[[str], Metadata] = lambda _target: (),
    ) -> None:
        """Create a factory that has opened no channel yet.

        `local` are the components of this process by name, see `component`; `log` is the endpoint
        of the data log, `store` the store in its place. `find_fault` returns why `host:port` is not
        allowed, or None if it is; `metadata_for` the metadata of calls to it, besides the trial.
        """
        self._settings = settings
        self._local = local
        self._log = log
        self.store = store
        """The store that trials are logged to, or None."""
        self._find_fault = find_fault
        self.logs = LogCounters()
        """Counters over all data logs."""
        self._tasks = BackgroundTasks()
        self._channels = ChannelPool(settings.max_message, self._tasks, tls, metadata_for)

    def check(self, what: str, endpoint: Endpoint) -> None:
        """Refuse unknown `local://` names, and machines not to be used: an InvalidError."""
        if endpoint.kind is EndpointKind.GRPC and (fault := self._find_fault(endpoint.target)):
            raise InvalidError(f"{what}: {endpoint.text} {fault}")
        if endpoint.kind is EndpointKind.LOCAL and endpoint.target not in self._local:
            known = ", ".join(sorted(self._local)) or "none"
            raise InvalidError(f"{what}: {endpoint.text}: known local components: {known}")

    def environment(
        self, trial_id: str, endpoint: Endpoint, events: EnvironmentEvents
    ) -> EnvironmentLink:
        """Return a port to an environment."""
        component, context = self._reach(trial_id, endpoint, RemoteEnvironment)
        return EnvironmentLink(trial_id, component, events, context)

    def agent(self, trial_id: str, name: str, endpoint: Endpoint, events: AgentEvents) -> AgentLink:
        """Return a port to an agent."""
        component, context = self._reach(trial_id, endpoint, RemoteAgent)
        return AgentLink(trial_id, name, component, events, self._settings, context)

    async def reward_late(self, trial_id: str, endpoint: Endpoint, reward: Reward) -> bool:
        """Reward an agent of a trial that has ended; return whether it took the reward."""
        component, context = self._reach(trial_id, endpoint, RemoteAgent)
        name = reward.receiver_name
        answer = component.on_reward(trial_id, name, AgentRewardRequest(reward=reward))
        label = f"trial {trial_id}: actor {name!r}: late reward"
        try:
            return await tell(label, answer, context.call_timeout) is None
        finally:
            context.release()

    def log(self, trial_id: str) -> LogLink | StoreLink | None:
        """Return a port to the data log or store, or None without one."""
        if self.store is not None:
            return StoreLink(trial_id, self.store)
        if self._log is None:
            return None
        component, context = self._reach(trial_id, self._log, RemoteLog)
        return LogLink(trial_id, component, self._settings, context, self.logs)

    def hook(self, text: str) -> HookLink:
        """Return a hook that lives as long as this factory; its endpoint is checked by `check`."""
        endpoint = parse_endpoint("pre-trial hook", text)
        self.check("pre-trial hook", endpoint)
        component, _ = self._reach(text, endpoint, RemoteHook)
        return HookLink(text, component, self._settings.hook_timeout)

    async def close(self, grace: float = 0.0, store_grace: float = 0.0) -> None:
        """Cancel what is under way, stop local components, and close all channels.

        In `grace` seconds data logs take the samples of ended trials, then local components stop.
        A store, which loses what it cannot write, has `store_grace` seconds.
        """
        begun = time.monotonic()
        until = begun + grace
        if grace and self.logs.closing:
            await asyncio.wait(self.logs.closing, timeout=grace)
        self._tasks.cancel()
        await self._stop_components(max(until - time.monotonic(), 0.0))
        await self._tasks.close()
        await self._close_store(max(begun + store_grace - time.monotonic(), _STORE))
        await self._channels.close()

    async def _close_store(self, seconds: float) -> None:
        if self.store is None:
            return
        closed = asyncio.Event()
        loop = asyncio.get_running_loop()
        self.store.begin_close(seconds, lambda: loop.call_soon_threadsafe(closed.set))
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds + _STOP):
                await closed.wait()

    async def _stop_components(self, grace: float) -> None:
        components = {id(each): each for each in self._local.values()}.values()
        stops = [
            self._tasks.spawn(component.on_stop(grace))
            for component in components
            if inspect.iscoroutinefunction(getattr(component, "on_stop", None))
        ]
        await wait_running(stops, grace + _STOP)

    def _reach(
        self, trial_id: str, endpoint: Endpoint, remote: Callable[[PooledChannel], T]
    ) -> tuple[T, LinkContext]:
        run_queue = self._tasks.scheduler.run_queue(trial_id)
        context = partial(LinkContext, self._tasks, run_queue, self._settings.call_timeout)
        if endpoint.kind is EndpointKind.LOCAL:
            # A local component has the methods of the remote one, or fails when it is called.
            component: T = self._local[endpoint.target]
            return component, context(lambda: None)
        pooled = self._channels.take(endpoint.target)
        return remote(pooled), context(partial(self._channels.give_back, endpoint.target))
