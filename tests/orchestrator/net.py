"""Parties on real sockets: an orchestrator, and what plugs into it, as plain gRPC services."""

from __future__ import annotations

import asyncio
import functools
import gc
import os
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import grpc.aio

from cogrs.api import agent_pb2 as agent
from cogrs.api import agent_pb2_grpc, datalog_pb2_grpc, environment_pb2_grpc, hooks_pb2_grpc
from cogrs.api import environment_pb2 as environment
from cogrs.api import orchestrator_pb2 as api
from cogrs.api.common_pb2 import Action, ActorParams, EnvironmentParams, TrialParams
from cogrs.api.datalog_pb2 import LogExporterSampleReply
from cogrs.api.orchestrator_pb2_grpc import ClientActorStub, TrialLifecycleStub
from cogrs.event_loop import is_harmless
from cogrs.orchestrator import Config, Security, Settings, serve
from cogrs.tls import listen
from tests.orchestrator.world import observation_set, reward

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from cogrs.tls import ServerTls

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"

LIMIT = 3000.0 if SOAK else 60.0
"""Seconds that no test comes near, unless something hangs."""


def on_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test on an event loop, and fail it if tasks were lost on the way."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        troubles: list[Any] = []

        def handle(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            if not is_harmless(context):
                troubles.append(context)

        async def main() -> None:
            asyncio.get_running_loop().set_exception_handler(handle)
            async with asyncio.timeout(LIMIT):
                await test(*args, **kwargs)

        asyncio.run(main())
        gc.collect()
        assert troubles == [], troubles

    return run


def resident() -> float:
    """Return the megabytes of this process that are in memory."""
    gc.collect()
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / 1e6


def metadata(context: Any) -> tuple[str, ...]:
    found = dict(context.invocation_metadata())
    return tuple(found[key] for key in ("trial-id", "actor-name") if key in found)


class EnvironmentService(environment_pb2_grpc.EnvironmentEndpointServicer):
    """Plays `length` steps with a reward of 1 for every actor, and writes down what it is told."""

    def __init__(self) -> None:
        self.length = 5
        self.names: dict[str, list[str]] = {}
        self.calls: defaultdict[str, list[tuple[str, Any]]] = defaultdict(list)
        self.closed: asyncio.Queue[str] = asyncio.Queue()

    def of(self, trial_id: str, call: str) -> list[Any]:
        return [request for name, request in self.calls[trial_id] if name == call]

    def observations(self, trial_id: str, number: int) -> environment.ObservationSet:
        return observation_set(len(self.names[trial_id]), number)

    async def OnStart(self, request: Any, context: Any) -> environment.EnvStartReply:  # noqa: N802
        (trial_id,) = metadata(context)
        self.calls[trial_id].append(("start", request))
        self.names[trial_id] = [actor.name for actor in request.actors_in_trial]
        return environment.EnvStartReply(observation_set=self.observations(trial_id, 0))

    async def OnAction(  # noqa: N802
        self, requests: AsyncIterator[Any], context: Any
    ) -> AsyncIterator[environment.EnvActionReply]:
        (trial_id,) = metadata(context)
        number = 0
        try:
            async for request in requests:
                number += 1
                self.calls[trial_id].append(("action", request))
                yield await self.step(trial_id, number, request)
        finally:
            self.closed.put_nowait(trial_id)

    async def step(self, trial_id: str, number: int, request: Any) -> environment.EnvActionReply:
        del request
        return environment.EnvActionReply(
            observation_set=self.observations(trial_id, number),
            rewards=[reward(name, 1.0) for name in self.names[trial_id]],
            final_update=number == self.length,
        )

    async def OnMessage(  # noqa: N802
        self, request: Any, context: Any
    ) -> environment.EnvMessageReply:
        self.calls[metadata(context)[0]].append(("message", request))
        return environment.EnvMessageReply()

    async def OnEnd(self, request: Any, context: Any) -> environment.EnvActionReply:  # noqa: N802
        (trial_id,) = metadata(context)
        self.calls[trial_id].append(("end", request))
        return environment.EnvActionReply(
            observation_set=self.observations(trial_id, 999), final_update=True
        )


class AgentService(agent_pb2_grpc.AgentEndpointServicer):
    """Answers `NAME:TICK`, and writes down what it is told."""

    def __init__(self) -> None:
        self.calls: defaultdict[tuple[str, ...], list[tuple[str, Any]]] = defaultdict(list)

    def of(self, trial_id: str, name: str, call: str) -> list[Any]:
        return [request for known, request in self.calls[trial_id, name] if known == call]

    async def OnStart(self, request: Any, context: Any) -> agent.AgentStartReply:  # noqa: N802
        self.calls[metadata(context)].append(("start", request))
        return agent.AgentStartReply()

    async def OnObservation(  # noqa: N802
        self, requests: AsyncIterator[Any], context: Any
    ) -> AsyncIterator[agent.AgentActionReply]:
        trial_id, name = metadata(context)
        async for request in requests:
            self.calls[trial_id, name].append(("observation", request.observation))
            yield await self.act(trial_id, name, request.observation)

    async def act(self, trial_id: str, name: str, observation: Any) -> agent.AgentActionReply:
        del trial_id
        content = f"{name}:{observation.tick_id}".encode()
        return agent.AgentActionReply(action=Action(content=content))

    async def OnReward(self, request: Any, context: Any) -> agent.AgentRewardReply:  # noqa: N802
        self.calls[metadata(context)].append(("reward", request.reward))
        return agent.AgentRewardReply()

    async def OnMessage(self, request: Any, context: Any) -> agent.AgentMessageReply:  # noqa: N802
        self.calls[metadata(context)].append(("messages", request.messages))
        return agent.AgentMessageReply()

    async def OnEnd(self, request: Any, context: Any) -> agent.AgentEndReply:  # noqa: N802
        self.calls[metadata(context)].append(("end", request.final_data))
        return agent.AgentEndReply()


class HookService(hooks_pb2_grpc.TrialHooksServicer):
    """Lets a test change parameters."""

    def __init__(self) -> None:
        self.change: Callable[[Any, Any], Awaitable[None]] | None = None
        self.contexts: list[tuple[str, Any]] = []

    async def OnPreTrial(self, request: Any, context: Any) -> Any:  # noqa: N802
        (trial_id,) = metadata(context)
        self.contexts.append((trial_id, request))
        if self.change is not None:
            await self.change(request, context)
        return request


class LogService(datalog_pb2_grpc.LogExporterServicer):
    """Writes down what it is told, until a test has it do something else."""

    def __init__(self) -> None:
        self.requests: defaultdict[str, list[Any]] = defaultdict(list)
        self.over: asyncio.Queue[str] = asyncio.Queue()
        self.trouble: Callable[[Any], Awaitable[None]] | None = None

    async def OnLogSample(self, requests: AsyncIterator[Any], context: Any) -> Any:  # noqa: N802
        (trial_id,) = metadata(context)
        async for request in requests:
            self.requests[trial_id].append(request)
            if self.trouble is not None:
                await self.trouble(context)
        self.over.put_nowait(trial_id)
        return LogExporterSampleReply()


class Net:
    """An orchestrator, a server with one service of each kind, and stubs to call.

    Whole methods of the services can be replaced before it is entered, and others at any time.
    """

    def __init__(
        self,
        agents: int = 1,
        clients: int = 0,
        *,
        settings: Settings | None = None,
        hooks: int = 0,
        log: bool = False,
        local: dict[str, Any] | None = None,
        port: int = 0,
        tls: ServerTls | None = None,
        security: Security | None = None,
        shown: tuple[tuple[str, str], ...] = (),
        credentials: grpc.ChannelCredentials | None = None,
        **params: Any,
    ) -> None:
        self._counts = (agents, clients)
        self._arguments = (settings, hooks, log, local, params)
        self._port = port
        self._tls = tls
        self._security = security
        self._credentials = credentials
        self.shown = shown
        """What all calls show."""
        self.config: dict[str, Any] = {}
        self.interceptors: list[grpc.aio.ServerInterceptor] = []
        self.receives = -1
        """Bytes of the largest message that the services take; -1 takes all."""
        self.environment = EnvironmentService()
        self.agents = AgentService()
        self.hook = HookService()
        self.log = LogService()

    async def __aenter__(self) -> Self:
        options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        limits = [("grpc.max_receive_message_length", self.receives), *options[1:]]
        self.server = grpc.aio.server(interceptors=self.interceptors, options=limits)
        environment_pb2_grpc.add_EnvironmentEndpointServicer_to_server(
            self.environment, self.server
        )
        agent_pb2_grpc.add_AgentEndpointServicer_to_server(self.agents, self.server)
        hooks_pb2_grpc.add_TrialHooksServicer_to_server(self.hook, self.server)
        datalog_pb2_grpc.add_LogExporterServicer_to_server(self.log, self.server)
        port = listen(self.server, "127.0.0.1", self._port, self._tls)
        self.endpoint = f"grpc://127.0.0.1:{port}"
        await self.server.start()
        settings, hooks, log, local, params = self._arguments
        config = {
            "params": self.params(**params),
            "hooks": (self.endpoint,) * hooks,
            "log_url": self.endpoint if log else "",
            **self.config,
        }
        self.orchestrator = await serve(
            Config(**config), port=0, settings=settings, local=local, security=self._security
        )
        target = f"127.0.0.1:{self.orchestrator.port}"
        if self._credentials is None:
            self.channel = grpc.aio.insecure_channel(target, options=options)
        else:
            self.channel = grpc.aio.secure_channel(target, self._credentials, options=options)
        self.lifecycle = TrialLifecycleStub(self.channel)
        self.actors = ClientActorStub(self.channel)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.channel.close()
        await self.orchestrator.stop(0)
        await self.server.stop(0)

    def params(self, **fields: Any) -> TrialParams:
        agents, clients = self._counts
        actors = [
            ActorParams(name=f"a{i}", actor_class="agent", endpoint=self.endpoint)
            for i in range(agents)
        ]
        actors += [
            ActorParams(name=f"c{i}", actor_class="player", endpoint="client")
            for i in range(clients)
        ]
        fields.setdefault("environment", EnvironmentParams(endpoint=self.endpoint))
        fields.setdefault("actors", actors)
        return TrialParams(**fields)

    async def start(self, **fields: Any) -> str:
        request = api.TrialStartRequest(**fields)
        reply = await self.lifecycle.StartTrial(request, metadata=self.shown)
        return str(reply.trial_id)

    async def until(self, trial_id: str, state: int = api.ENDED) -> None:
        """Wait until a trial is in a state, or past it."""
        watch = self.lifecycle.WatchTrials(api.TrialListRequest(), metadata=self.shown)
        async for entry in watch:
            if entry.trial_id == trial_id and entry.state >= state:
                break
        watch.cancel()

    async def end_of(self, trial_id: str) -> str:
        """Wait for the end of a trial, and return its reason."""
        await self.until(trial_id)
        return self.orchestrator._orchestrator._trials.get(trial_id).end_reason

    def client(self, trial_id: str, name: str = "c0") -> Any:
        """Open a stream."""
        return self.actors.ActionStream(metadata=whom(trial_id, name))

    async def join(self, trial_id: str = "", **selection: str) -> api.TrialJoinReply:
        selection = selection or {"actor_name": "c0"}
        return await self.actors.JoinTrial(api.TrialJoinRequest(trial_id=trial_id, **selection))


def whom(trial_id: str, name: str | None = None) -> tuple[tuple[str, str], ...]:
    trial = ("trial-id", trial_id)
    return (trial,) if name is None else (trial, ("actor-name", name))


def act(content: bytes) -> api.TrialActionRequest:
    return api.TrialActionRequest(action=Action(content=content))
