"""How long ticks of a trial are delayed while a process floods its orchestrator.

The orchestrator, the components of the measured trial and the flood are processes of their own. A
tick is delayed by the time from a reply of its environment to the next request, in which the
orchestrator and one agent do next to nothing otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import multiprocessing
import os
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import numpy as np
from orchestrator import StillServicer, WalkServicer, observations, run, whom
from table import _grid

from cogrs import serve_orchestrator
from cogrs.api import agent_pb2_grpc, environment_pb2, environment_pb2_grpc
from cogrs.api.common_pb2 import (
    Action,
    ActorParams,
    EnvironmentParams,
    Message,
    Reward,
    RewardSource,
    TrialConfig,
    TrialParams,
)
from cogrs.api.orchestrator_pb2 import (
    TerminateTrialRequest,
    TrialActionRequest,
    TrialHeartbeatRequest,
    TrialInfoRequest,
    TrialJoinRequest,
    TrialListRequest,
    TrialMessageRequest,
    TrialRewardRequest,
    TrialStartRequest,
)
from cogrs.api.orchestrator_pb2_grpc import ClientActorStub, TrialLifecycleStub
from cogrs.orchestrator import Config

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

SECONDS = 3.0
CALLERS = 8
"""Calls that a flood has under way at once."""
STEP = 0.005
"""Seconds that a step of the environment takes."""
MOST_MEDIAN, MOST_99 = 50.0, 200.0
"""Milliseconds by which ticks may be delayed."""
MEGABYTE = 1_000_000
EMPTY = b"\x0a\x00"
"""An empty message, as field 1 of another."""


class Timed(WalkServicer):
    """An environment that writes down how long the orchestrator takes."""

    def __init__(self) -> None:
        super().__init__()
        self.delays: list[float] = []

    async def OnAction(self, requests: Any, context: Any) -> None:
        (trial_id,) = whom(context)
        actors, sent = self.walk.actors[trial_id], time.perf_counter()
        async for _ in requests:
            self.delays.append((time.perf_counter() - sent) * 1e3)
            await asyncio.sleep(STEP)
            made = observations(actors)
            sent = time.perf_counter()
            await context.write(environment_pb2.EnvActionReply(observation_set=made))


def components(pipe: Any) -> None:
    """Serve components, and tell delays, until the process is ended."""

    async def main() -> None:
        server, timed = grpc.aio.server(), Timed()
        environment_pb2_grpc.add_EnvironmentEndpointServicer_to_server(timed, server)
        agent_pb2_grpc.add_AgentEndpointServicer_to_server(StillServicer(), server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()

        def tell() -> None:
            pipe.recv()
            pipe.send(timed.delays)
            timed.delays = []

        asyncio.get_running_loop().add_reader(pipe.fileno(), tell)
        pipe.send(port)
        await server.wait_for_termination()

    run(main())


def orchestrator(pipe: Any) -> None:
    """Serve an orchestrator until the process is ended."""
    logging.disable()  # a line for each trial that ends is not what this is about
    config = Config(params=pipe.recv(), accept_params=True)
    with serve_orchestrator(config, port=0, uvloop=True) as running:
        pipe.send((running.port, os.getpid()))
        running.wait()


@contextmanager
def child(target: Callable[[Any], None]) -> Iterator[Any]:
    """Run a process, and give the pipe to it."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=target, args=(theirs,))
    process.start()
    try:
        yield ours
    finally:
        process.terminate()
        process.join()


def resident(pid: int) -> float:
    """Return the megabytes of a process that are in memory."""
    pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE") / 1e6


class Floods:
    """Calls that somebody makes as often as possible."""

    def __init__(self, target: str, channel: grpc.aio.Channel, endpoint: str) -> None:
        self._target = target
        self._channel = channel
        self._lifecycle = TrialLifecycleStub(channel)
        self._actors = ClientActorStub(channel)
        self._endpoint = endpoint
        self._raw = {
            name: channel.unary_unary(f"/cogment.{name}")
            for name in (
                "ClientActor/SendMessage",
                "ClientActor/SendReward",
                "TrialLifecycle/StartTrial",
                "TrialLifecycle/WatchTrials",
            )
        }

    async def open(self) -> None:
        """Start the trial that is flooded, and waits for clients, and another that runs."""
        self.mine = await self._start(clients=4)
        self.running = await self._start(clients=1)
        join = TrialJoinRequest(trial_id=self.running, actor_name="c0")
        await self._actors.JoinTrial(join)
        self.stream = self._actors.ActionStream(metadata=self._whom(self.running))
        await self.stream.read()

    async def _start(self, clients: int) -> str:
        made = TrialParams(environment=EnvironmentParams(endpoint=self._endpoint))
        made.actors.extend(
            ActorParams(name=f"c{k}", actor_class="player", endpoint="client")
            for k in range(clients)
        )
        reply = await self._lifecycle.StartTrial(TrialStartRequest(params=made))
        return str(reply.trial_id)

    async def _come_and_go(self) -> None:
        trial_id = await self._start(1)
        request = TerminateTrialRequest()
        await self._lifecycle.TerminateTrial(request, metadata=(("trial-id", trial_id),))

    def _whom(self, trial_id: str) -> tuple[tuple[str, str], ...]:
        return ("trial-id", trial_id), ("actor-name", "c0")

    def _send(self, call: str, content: bytes) -> Callable[[], Awaitable[Any]]:
        return lambda: self._raw[call](content, metadata=self._whom(self.mine))

    def kinds(self) -> dict[str, Callable[[], Awaitable[Any]]]:
        """Return what each flood does once."""
        message, reward = "ClientActor/SendMessage", "ClientActor/SendReward"
        start = "TrialLifecycle/StartTrial"
        lost = Message(receiver_name="nobody " * 3)
        most = [Message(receiver_name="c1") for _ in range(10_000)]
        sources = [RewardSource(value=1, confidence=1) for _ in range(1_000_000)]
        ticks = [
            Reward(receiver_name="c1", tick_id=tick, sources=sources[:1]) for tick in range(10_000)
        ]
        named = TrialStartRequest(user_id="u" * (15 * MEGABYTE))
        actors = TrialParams(actors=[ActorParams(endpoint="client") for _ in range(100_000)])
        crowd = TrialParams(
            environment=EnvironmentParams(endpoint=self._endpoint),
            actors=[ActorParams(name=f"c{k}", endpoint="client") for k in range(4096)],
        )
        large = TrialMessageRequest(messages=[Message(receiver_name="c1")])
        large.messages[0].payload.value = bytes(15 * MEGABYTE)
        states = TrialListRequest(filter=[1] * (15 * MEGABYTE))
        act = TrialActionRequest(action=Action(content=b"x"))
        large_config = TrialStartRequest(
            params=crowd, config=TrialConfig(content=bytes(15 * MEGABYTE))
        )
        del large_config.params.actors[1:]
        return {
            "nothing": lambda: asyncio.sleep(0.1),
            "200,000 messages to nobody": self._send(
                message, TrialMessageRequest(messages=[lost] * 200_000).SerializeToString()
            ),
            "10,000 messages to nobody": self._send(
                message, TrialMessageRequest(messages=[lost] * 10_000).SerializeToString()
            ),
            "1,000,000 empty messages": self._send(message, EMPTY * 1_000_000),
            "100,000 empty messages": self._send(message, EMPTY * 100_000),
            "10,000 messages": self._send(
                message, TrialMessageRequest(messages=most).SerializeToString()
            ),
            "messages of 15 MB": self._send(message, large.SerializeToString()),
            "100,000 rewards": self._send(
                reward, TrialRewardRequest(rewards=ticks * 10).SerializeToString()
            ),
            "1,000,000 sources": self._send(
                reward,
                TrialRewardRequest(
                    rewards=[Reward(receiver_name="c1", sources=sources)]
                ).SerializeToString(),
            ),
            "10,000 ticks": self._send(
                reward, TrialRewardRequest(rewards=ticks).SerializeToString()
            ),
            "user_id of 15 MB": self._send(start, named.SerializeToString()),
            "user_id of 300 MB, by gzip": self._compressed,
            "config of 15 MB": self._send(start, large_config.SerializeToString()),
            "100,000 actors": self._send(
                start, TrialStartRequest(params=actors).SerializeToString()
            ),
            "trials of 4,096 clients": self._send(
                start, TrialStartRequest(params=crowd).SerializeToString()
            ),
            "StartTrial and TerminateTrial": self._come_and_go,
            "StartTrial": lambda: self._start(1),
            "JoinTrial": lambda: self._actors.JoinTrial(TrialJoinRequest(actor_class="nobody")),
            "Heartbeat": lambda: self._actors.Heartbeat(
                TrialHeartbeatRequest(), metadata=self._whom(self.running)
            ),
            "GetTrialInfo": lambda: self._lifecycle.GetTrialInfo(
                TrialInfoRequest(get_latest_observation=True)
            ),
            "15,000,000 states": self._send(
                "TrialLifecycle/WatchTrials", states.SerializeToString()
            ),
            "WatchTrials": self._watch,
            "health": self._health,
            "actions": lambda: self.stream.write(act),
        }

    async def _compressed(self) -> None:
        # Made once by gRPC for each call, so this floods with what it is worth, not with its rate.
        options = [("grpc.max_send_message_length", -1)]
        async with grpc.aio.insecure_channel(self._target, options=options) as channel:
            call = channel.unary_unary("/cogment.TrialLifecycle/StartTrial")
            await call(BOMB, compression=grpc.Compression.Gzip)

    async def _watch(self) -> None:
        watches = [self._lifecycle.WatchTrials(TrialListRequest()) for _ in range(200)]
        try:
            await asyncio.wait([asyncio.ensure_future(watch.read()) for watch in watches])
            await self._come_and_go()
        finally:
            for watch in watches:
                watch.cancel()

    async def _health(self) -> None:
        watch = self._channel.unary_stream("/grpc.health.v1.Health/Watch")
        watches = [watch(b"") for _ in range(200)]
        try:
            await asyncio.wait([asyncio.ensure_future(each.read()) for each in watches])
        finally:
            for each in watches:
                each.cancel()


BOMB = b"\x12" + b"\x80\xa0\x86\x8f\x01" + b"u" * 300_000_000
"""A StartTrial whose `user_id` has 300 MB."""


async def flood(once: Callable[[], Awaitable[Any]], seconds: float, callers: int) -> int:
    """Call over and over; return how often."""
    until, count = time.perf_counter() + seconds, 0

    async def call() -> None:
        nonlocal count
        while time.perf_counter() < until:
            with suppress(grpc.RpcError, asyncio.InvalidStateError):
                await asyncio.wait_for(once(), 60)
            count += 1

    # Writes of one stream must not overlap.
    await asyncio.gather(*(call() for _ in range(callers)))
    return count


async def report(given: argparse.Namespace, parts: Any, port: int, served: Any) -> None:
    """Print what each flood does to the ticks of the others."""
    endpoint = f"127.0.0.1:{port}"
    params = TrialParams(environment=EnvironmentParams(endpoint=endpoint))
    params.actors.add(name="a0", endpoint=endpoint)
    served.send(params)
    server, pid = served.recv()
    target = f"127.0.0.1:{server}"
    options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
    lines = [["flood", "calls/s", "ticks", "median ms", "99 % ms", "most ms", "memory MB"]]
    async with grpc.aio.insecure_channel(target, options=options) as channel:
        await TrialLifecycleStub(channel).StartTrial(TrialStartRequest())
        # What is flooded has an environment of its own: it is not to keep that of the others busy.
        own = grpc.aio.server()
        environment_pb2_grpc.add_EnvironmentEndpointServicer_to_server(WalkServicer(), own)
        where = f"127.0.0.1:{own.add_insecure_port('127.0.0.1:0')}"
        await own.start()
        floods = Floods(target, channel, where)
        await floods.open()
        before = resident(pid)
        for name, once in floods.kinds().items():
            if given.only and given.only not in name:
                continue
            await asyncio.sleep(0.3)
            parts.send("")
            parts.recv()
            callers = 1 if name == "actions" else given.callers
            begin = time.perf_counter()
            count = await flood(once, given.seconds, callers)
            spent = time.perf_counter() - begin
            parts.send("")
            delays = np.array(parts.recv() or [np.inf])
            middle, late = np.median(delays), np.percentile(delays, 99)
            cells = [f"{middle:.1f}", f"{late:.1f}", f"{delays.max():.1f}"]
            grown = f"{resident(pid) - before:+.0f}"
            lines.append([name, f"{count / spent:.0f}", str(len(delays)), *cells, grown])
            if given.verbose:
                print(*lines[-1], sep="\t", flush=True)
        await own.stop(0)
    print(_grid(lines))
    print(f"goal: {MOST_MEDIAN:g} ms at the median, {MOST_99:g} ms at 99 %")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--callers", type=int, default=CALLERS)
    parser.add_argument("--only", default="", help="part of the name of floods")
    parser.add_argument("--verbose", action="store_true", help="print each line when it is there")
    given = parser.parse_args()
    with child(components) as parts, child(orchestrator) as served:
        run(report(given, parts, parts.recv(), served))


if __name__ == "__main__":
    main()
