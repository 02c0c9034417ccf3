"""Measures trials on this machine, beside a bare grpc.aio program of the same exchanges."""

from __future__ import annotations

import argparse
import asyncio
import gc
import multiprocessing
import os
import resource
import statistics
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc.aio
import numpy as np
from table import _grid, short

from cogrs import sdk
from cogrs.api import agent_pb2, agent_pb2_grpc, environment_pb2, environment_pb2_grpc
from cogrs.api.common_pb2 import (
    Action,
    ActorParams,
    EnvironmentParams,
    Observation,
    ObservationData,
    TrialParams,
)
from cogrs.api.environment_pb2 import ActionSet, ObservationSet
from cogrs.api.orchestrator_pb2 import TrialStartRequest
from cogrs.orchestrator import Config, Server, Settings, serve
from cogrs.orchestrator.service.handle import _find_loop
from cogrs.sdk import TrialController

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator

SHAPES = ((1, 1), (1, 32), (2, 32), (8, 32))
"""Agents in a trial, and trials at the same time."""
LEAST_LOCAL = (15_000, 20_000, 15_000, 5_000)
LEAST_SHARE = 0.85
LEAST_THREADS = 0.5
"""Of the ticks of inline methods."""
CONTENT = bytes(64)
ROUNDS = 5
SECONDS = 1.0
WARM = 0.3


def observations(actors: int) -> ObservationSet:
    data = [ObservationData(content=CONTENT) for _ in range(actors)]
    return ObservationSet(observations=data, actors_map=range(actors))


class Walk:
    """An environment that does nothing, for `local://` and behind a servicer."""

    def __init__(self) -> None:
        self.steps = 0
        self.actors: dict[str, int] = {}

    async def on_start(self, trial_id: str, request: Any) -> environment_pb2.EnvStartReply:
        self.actors[trial_id] = len(request.actors_in_trial)
        return environment_pb2.EnvStartReply(observation_set=observations(self.actors[trial_id]))

    async def on_action(
        self, trial_id: str, requests: AsyncIterator[Any]
    ) -> AsyncIterator[environment_pb2.EnvActionReply]:
        actors = self.actors[trial_id]
        async for _ in requests:
            self.steps += 1
            yield environment_pb2.EnvActionReply(observation_set=observations(actors))

    async def on_message(self, trial_id: str, request: Any) -> environment_pb2.EnvMessageReply:
        return environment_pb2.EnvMessageReply()

    async def on_end(self, trial_id: str, request: Any) -> environment_pb2.EnvActionReply:
        self.actors.pop(trial_id, None)
        return environment_pb2.EnvActionReply(final_update=True)


class Still:
    """An agent that does nothing."""

    async def on_start(self, trial_id: str, name: str, request: Any) -> agent_pb2.AgentStartReply:
        return agent_pb2.AgentStartReply()

    async def on_observation(
        self, trial_id: str, name: str, requests: AsyncIterator[Any]
    ) -> AsyncIterator[agent_pb2.AgentActionReply]:
        async for _ in requests:
            yield agent_pb2.AgentActionReply(action=Action(content=CONTENT))

    async def on_reward(self, trial_id: str, name: str, request: Any) -> agent_pb2.AgentRewardReply:
        return agent_pb2.AgentRewardReply()

    async def on_message(
        self, trial_id: str, name: str, request: Any
    ) -> agent_pb2.AgentMessageReply:
        return agent_pb2.AgentMessageReply()

    async def on_end(self, trial_id: str, name: str, request: Any) -> agent_pb2.AgentEndReply:
        return agent_pb2.AgentEndReply()


class Stays(sdk.Environment):
    """An environment of the SDK that does nothing."""

    def start(self, trial: sdk.Trial) -> sdk.Update:
        return sdk.Update(np.zeros(4, np.float32))

    def step(self, actions: Any) -> sdk.Update:
        return sdk.Update(np.zeros(4, np.float32))


class StaysInline(Stays):
    inline = True


def sdk_parts(*, inline: bool) -> dict[str, Any]:
    """Return parts of the SDK, whose methods run on the loop or on threads."""
    agent = sdk.FunctionAgent(lambda _: 1, inline=inline)
    environment = StaysInline if inline else Stays
    return {
        "walk": sdk.local_environments({"": environment}),
        "still": sdk.local_agents({"": agent}),
    }


def whom(context: Any) -> list[str]:
    given = dict(context.invocation_metadata())
    return [given[key] for key in ("trial-id", "actor-name") if key in given]


class WalkServicer(environment_pb2_grpc.EnvironmentEndpointServicer):
    def __init__(self) -> None:
        self.walk = Walk()

    async def OnStart(self, request: Any, context: Any) -> Any:
        return await self.walk.on_start(*whom(context), request)

    async def OnAction(self, requests: Any, context: Any) -> None:
        async for reply in self.walk.on_action(*whom(context), requests):
            await context.write(reply)

    async def OnEnd(self, request: Any, context: Any) -> Any:
        return await self.walk.on_end(*whom(context), request)


class StillServicer(agent_pb2_grpc.AgentEndpointServicer):
    def __init__(self) -> None:
        self.still = Still()

    async def OnStart(self, request: Any, context: Any) -> Any:
        return await self.still.on_start(*whom(context), request)

    async def OnObservation(self, requests: Any, context: Any) -> None:
        async for reply in self.still.on_observation(*whom(context), requests):
            await context.write(reply)

    async def OnEnd(self, request: Any, context: Any) -> Any:
        return await self.still.on_end(*whom(context), request)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine on the kind of event loop that orchestrators use."""
    with asyncio.Runner(loop_factory=_find_loop()) as runner:
        return runner.run(work)


def components(pipe: Any) -> None:
    """Serve bare services until the process is ended."""

    async def main() -> None:
        server = grpc.aio.server()
        environment_pb2_grpc.add_EnvironmentEndpointServicer_to_server(WalkServicer(), server)
        agent_pb2_grpc.add_AgentEndpointServicer_to_server(StillServicer(), server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        pipe.send(port)
        await server.wait_for_termination()

    run(main())


@contextmanager
def child(target: Callable[[Any], None]) -> Iterator[Any]:
    """Run a process with one end of a pipe, and return the other end."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=target, args=(theirs,))
    process.start()
    try:
        yield ours
    finally:
        process.terminate()
        process.join()


def params(agents: int, endpoints: tuple[str, str]) -> TrialParams:
    environment, agent = endpoints
    return TrialParams(
        environment=EnvironmentParams(endpoint=environment),
        actors=[ActorParams(name=f"a{k}", endpoint=agent) for k in range(agents)],
    )


async def warm(all_run: Callable[[], bool]) -> None:
    """Wait until all trials run, and a bit longer."""
    async with asyncio.timeout(60):
        for _ in iter(all_run, True):
            await asyncio.sleep(0.05)
    await asyncio.sleep(WARM)


async def measure(ticks: Callable[[], int], seconds: float) -> tuple[float, float]:
    """Return ticks per second, and seconds of this process's CPU per tick."""
    begin, cpu, before = time.perf_counter(), time.process_time(), ticks()
    await asyncio.sleep(seconds)
    done = ticks() - before
    spent = time.perf_counter() - begin
    return done / spent, (time.process_time() - cpu) / max(done, 1)


async def with_trials(
    agents: int, trials: int, endpoints: tuple[str, str], parts: dict[str, Any], seconds: float
) -> tuple[float, float]:
    config = Config(params=params(agents, endpoints))
    async with await serve(config, port=0, local=parts) as server:
        for _ in range(trials):
            await start(server)
        await warm(lambda: server.stats().trials["RUNNING"] == trials)
        return await measure(lambda: server.stats().ticks, seconds)


async def start(server: Server) -> str:
    reply = await server._orchestrator.start(TrialStartRequest())
    return str(reply.trial_id)


async def local(
    agents: int, trials: int, seconds: float, parts: dict[str, Any] | None = None
) -> tuple[float, float]:
    parts = {"walk": Walk(), "still": Still()} if parts is None else parts
    return await with_trials(agents, trials, ("local://walk", "local://still"), parts, seconds)


async def remote(agents: int, trials: int, seconds: float, port: int) -> tuple[float, float]:
    where = f"127.0.0.1:{port}"
    return await with_trials(agents, trials, (where, where), {}, seconds)


async def bare(agents: int, trials: int, seconds: float, port: int) -> tuple[float, float]:
    """Make the same calls as an orchestrator, without its rules."""
    count, running = 0, set[int]()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        environment = environment_pb2_grpc.EnvironmentEndpointStub(channel)
        agent = agent_pb2_grpc.AgentEndpointStub(channel)

        async def trial(number: int) -> None:
            nonlocal count
            trial_id = (("trial-id", f"bare{number}"),)
            names = [(*trial_id, ("actor-name", f"a{k}")) for k in range(agents)]
            request = environment_pb2.EnvStartRequest(
                actors_in_trial=[{"name": f"a{k}"} for k in range(agents)]
            )
            reply = await environment.OnStart(request, metadata=trial_id)
            steps = environment.OnAction(metadata=trial_id)
            streams = [agent.OnObservation(metadata=name) for name in names]

            async def act(k: int, shown: ObservationSet) -> bytes:
                data = shown.observations[shown.actors_map[k]]
                seen = Observation(tick_id=shown.tick_id, timestamp=shown.timestamp, data=data)
                await streams[k].write(agent_pb2.AgentObservationRequest(observation=seen))
                return bytes((await streams[k].read()).action.content)

            shown = reply.observation_set
            try:
                while True:
                    if agents == 1:
                        actions = [await act(0, shown)]
                    else:
                        actions = await asyncio.gather(*(act(k, shown) for k in range(agents)))
                    step = environment_pb2.EnvActionRequest(action_set=ActionSet(actions=actions))
                    await steps.write(step)
                    shown = (await steps.read()).observation_set
                    count += 1
                    running.add(number)
                    shown.tick_id, shown.timestamp = count, time.time_ns()
            finally:
                steps.cancel()
                for stream in streams:
                    stream.cancel()

        tasks = [asyncio.ensure_future(trial(number)) for number in range(trials)]
        await warm(lambda: len(running) == trials)
        rate = await measure(lambda: count, seconds)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        return rate


async def starts(port: int, trials: int) -> list[float]:
    """Return the milliseconds of each StartTrial, by gRPC."""
    where = f"127.0.0.1:{port}"
    took = []
    async with (
        await serve(Config(params=params(1, (where, where))), port=0) as server,
        TrialController(f"127.0.0.1:{server.port}") as controller,
    ):
        for _ in range(trials):
            begin = time.perf_counter()
            trial = await controller.start_trial()
            took.append((time.perf_counter() - begin) * 1e3)
            await controller.terminate_trial(trial.id)
            await controller.wait_ended(trial.id)
    return took


async def growth(trials: int, before: int) -> float:
    """Return the MB by which memory grows from trial `before` to the last, of 10 ticks each."""
    made = params(1, ("local://walk", "local://still"))
    made.max_steps = 10
    parts = {"walk": Walk(), "still": Still()}
    settings = Settings(retention=0.01)
    async with await serve(Config(params=made), port=0, local=parts, settings=settings) as server:
        begin = 0.0
        for number in range(trials):
            if number == before:
                begin = resident()
            await start(server)
            await server._orchestrator.wait_idle()
        return resident() - begin


def resident(pid: int | str = "self") -> float:
    """Return the megabytes of a process that are in memory."""
    gc.collect()
    pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / 1e6


def median(rounds: list[tuple[float, float]]) -> tuple[float, float]:
    return statistics.median(r for r, _ in rounds), statistics.median(c for _, c in rounds)


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--trials", type=int, default=2000, help="for memory")
    given = parser.parse_args()
    with child(components) as pipe:
        # On one loop: what gRPC has under way in a loop that is closed troubles the next.
        run(report(given, pipe.recv()))


async def report(given: argparse.Namespace, port: int) -> None:
    head = ["agents/trials", "local ticks/s", "least", "us of CPU", "gRPC ticks/s", "us of CPU"]
    head += ["bare ticks/s", "us of CPU", "share", "least"]
    lines = [head]
    for (agents, trials), least in zip(SHAPES, LEAST_LOCAL, strict=True):
        here, there, plain = [], [], []
        for _ in range(given.rounds):
            here.append(await local(agents, trials, given.seconds))
            there.append(await remote(agents, trials, given.seconds, port))
            plain.append(await bare(agents, trials, given.seconds, port))
        share = statistics.median(a / b for (a, _), (b, _) in zip(there, plain, strict=True))
        cells = [f"{agents}/{trials}", *_cells(median(here), least), *_cells(median(there))]
        lines.append([*cells, *_cells(median(plain)), f"{share:.2f}", str(LEAST_SHARE)])
    print(_grid(lines))
    await report_sdk(given)
    took = sorted(await starts(port, 200))
    print(f"\nStartTrial: median {took[100]:.2f} ms, 99 % within {took[197]:.2f} ms")
    grown = await growth(given.trials, 200)
    print(f"memory: {grown:+.1f} MB from trial 200 to {given.trials}")
    print(f"peak: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB")


async def report_sdk(given: argparse.Namespace) -> None:
    """Print what methods on threads cost; each pair is measured in turn."""
    lines = [["agents/trials", "SDK inline ticks/s", "us of CPU", "threads ticks/s", "us of CPU"]]
    lines[0] += ["share", "least"]
    for agents, trials in SHAPES:
        quick, slow = [], []
        for _ in range(given.rounds):
            quick.append(await local(agents, trials, given.seconds, sdk_parts(inline=True)))
            slow.append(await local(agents, trials, given.seconds, sdk_parts(inline=False)))
        share = statistics.median(b / a for (a, _), (b, _) in zip(quick, slow, strict=True))
        cells = [*_cells(median(quick)), *_cells(median(slow)), f"{share:.2f}"]
        lines.append([f"{agents}/{trials}", *cells, str(LEAST_THREADS)])
    print(_grid(lines))


def _cells(figure: tuple[float, float], least: float | None = None) -> list[str]:
    rate, cpu = figure
    middle = [] if least is None else [short(least)]
    return [short(rate), *middle, short(cpu * 1e6)]


if __name__ == "__main__":
    main()
