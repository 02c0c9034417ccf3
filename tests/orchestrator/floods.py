"""Floods of clients, and an orchestrator in a process of its own that they are sent to."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import numpy as np
import pytest

from cogrs.api import environment_pb2
from cogrs.api import orchestrator_pb2 as api
from cogrs.api.common_pb2 import (
    ActorParams,
    EnvironmentParams,
    Message,
    Reward,
    RewardSource,
    TrialParams,
)
from cogrs.api.orchestrator_pb2 import TrialStartRequest
from cogrs.api.orchestrator_pb2_grpc import ClientActorStub, TrialLifecycleStub
from cogrs.orchestrator import Config, Settings, serve_orchestrator
from tests.orchestrator.local_components import Echo
from tests.orchestrator.net import LIMIT, whom
from tests.orchestrator.world import observation_set

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Iterator


SETTINGS = Settings(
    post_backlog=1000,
    max_trials=12,
    max_waiting_trials=8,
    max_watchers=10,
    max_actors=6000,
    max_params_bytes=40_000_000,
    join_timeout=0,
)
STEP = 0.005
"""Seconds that a step of the trial takes that nobody floods."""


class Walk:
    """An environment that never ends, and writes down how long the orchestrator takes."""

    def __init__(self) -> None:
        self.delays: list[float] = []
        self.sizes: dict[str, int] = {}

    async def on_start(self, trial_id: str, request: Any) -> Any:
        self.sizes[trial_id] = len(request.actors_in_trial)
        return environment_pb2.EnvStartReply(observation_set=self.observe(trial_id))

    def observe(self, trial_id: str) -> Any:
        return observation_set(self.sizes[trial_id], 0)

    async def on_action(self, trial_id: str, requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
        sent = time.perf_counter()
        async for _ in requests:
            self.delays.append(time.perf_counter() - sent)
            await asyncio.sleep(STEP)
            sent = time.perf_counter()
            yield environment_pb2.EnvActionReply(observation_set=self.observe(trial_id))

    async def on_message(self, trial_id: str, request: Any) -> Any:
        return environment_pb2.EnvMessageReply()

    async def on_end(self, trial_id: str, request: Any) -> Any:
        return environment_pb2.EnvActionReply(final_update=True)


class Warnings(logging.Handler):
    """Keeps what was logged."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def params(*names: str, **fields: Any) -> TrialParams:
    """Parameters of a trial in the environment that does nothing, with these clients."""
    actors = [ActorParams(name=name, actor_class="c", endpoint="client") for name in names]
    where = EnvironmentParams(endpoint="local://still")
    return TrialParams(environment=where, actors=actors, **fields)


def _serve(pipe: Any) -> None:
    walk, warnings = Walk(), Warnings()
    logging.getLogger("cogrs").addHandler(warnings)
    logging.getLogger("cogrs").propagate = False
    ticking = TrialParams(
        environment=EnvironmentParams(endpoint="local://walk"),
        actors=[ActorParams(name="a0", endpoint="local://agent")],
    )
    config = Config(params=ticking, accept_params=True)
    local = {"walk": walk, "still": Walk(), "agent": Echo()}
    with serve_orchestrator(config, port=0, settings=SETTINGS, local=local) as running:
        orchestrator = running._running.server._orchestrator
        loop = running._running.server._loop
        start = orchestrator.start(TrialStartRequest())
        asyncio.run_coroutine_threadsafe(start, loop).result()
        pipe.send((running.port, os.getpid()))
        while (trial_id := pipe.recv()) is not None:
            held = None
            if trial_id:
                shares = orchestrator._trials.get(trial_id)._router._backlog
                held = {name: count for name, count in shares._items.items() if count}
            pipe.send((walk.delays, warnings.texts, held, running.stats()))
            walk.delays, warnings.texts = [], []


class Server:
    """The process, as a test sees it."""

    def __init__(self, pipe: Any) -> None:
        self._pipe = pipe
        self.port, self._pid = pipe.recv()

    def take(self, trial_id: str = "") -> tuple[list[float], list[str], dict[str, int], Any]:
        """Delays of ticks and warnings since the last time, what a trial holds, and figures."""
        self._pipe.send(trial_id)
        assert self._pipe.poll(60), "the orchestrator's process does not answer"
        return self._pipe.recv()  # type: ignore[no-any-return]

    def _memory(self, key: str) -> float:
        status = Path(f"/proc/{self._pid}/status").read_text(encoding="ascii")
        (line,) = [line for line in status.splitlines() if line.startswith(key)]
        return int(line.split()[1]) / 1e3

    def mark(self) -> None:
        """Measure the peak of the memory from now on."""
        Path(f"/proc/{self._pid}/clear_refs").write_text("5", encoding="ascii")
        self._before = self._memory("VmRSS")

    def growth(self) -> float:
        """MB between the memory at the mark and its peak since."""
        return self._memory("VmHWM") - self._before


@contextlib.contextmanager
def flooded() -> Iterator[Server]:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,))
    process.start()
    try:
        yield Server(ours)
        ours.send(None)
        process.join(30)
        assert process.exitcode == 0
    finally:
        process.kill()
        process.join()


SENDS = "ClientActor/SendMessage"
REWARDS = "ClientActor/SendReward"
STARTS = "TrialLifecycle/StartTrial"
JOINS = "ClientActor/JoinTrial"
WATCHES = "TrialLifecycle/WatchTrials"
INFORMS = "TrialLifecycle/GetTrialInfo"
INVALID, EXHAUSTED = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED
MEGABYTE = 1_000_000
MOST_GROWTH = 250.0
"""MB of memory that a flood may take for a while; each of them would take more without bounds."""
EMPTY = b"\x0a\x00"
"""An empty message in field 1."""
LONG = "x" * 2000
SOURCE = RewardSource(value=1, confidence=1)


def sends(*, count: int, receiver: str) -> api.TrialMessageRequest:
    return api.TrialMessageRequest(messages=[Message(receiver_name=receiver)] * count)


def starts(**fields: Any) -> api.TrialStartRequest:
    where = EnvironmentParams(endpoint="local://still")
    return api.TrialStartRequest(params=TrialParams(**{"environment": where, **fields}))


def one(**fields: Any) -> api.TrialStartRequest:
    return starts(actors=[ActorParams(**{"name": "c0", "endpoint": "client", **fields})])


FLOODS: dict[str, tuple[str, Any, grpc.StatusCode, str]] = {
    "200,000 messages to nobody": (
        *(SENDS, lambda: sends(count=200_000, receiver="nobody " * 3)),
        *(INVALID, "messages.* expected at most 131072 fields"),
    ),
    "20,000 messages to nobody": (
        *(SENDS, lambda: sends(count=20_000, receiver="nobody")),
        *(INVALID, "messages: expected at most 1000, got 20000"),
    ),
    "one message too many": (
        *(SENDS, sends(count=1001, receiver="c1")),
        *(INVALID, "messages: expected at most 1000, got 1001"),
    ),
    "300,000 empty messages": (SENDS, EMPTY * 300_000, INVALID, "messages: expected at most"),
    "100,000 empty messages": (
        *(SENDS, EMPTY * 100_000),
        *(INVALID, "messages: expected at most 1000, got 100000"),
    ),
    "300,000 empty rewards": (REWARDS, EMPTY * 300_000, INVALID, "rewards: expected at most"),
    "40,000 rewards": (
        *(
            REWARDS,
            lambda: [
                Reward(receiver_name="c1", tick_id=n, sources=[SOURCE]) for n in range(40_000)
            ],
        ),
        *(INVALID, "rewards.* expected at most"),
    ),
    "rewards to everybody, by pattern": (
        *(REWARDS, [Reward(receiver_name="*", sources=[SOURCE])] * 1001),
        *(INVALID, "rewards: expected at most 1000 sources, got 1001"),
    ),
    "one reward of many sources": (
        *(REWARDS, [Reward(receiver_name="c1", sources=[SOURCE] * 1001)]),
        *(INVALID, "rewards: expected at most 1000 sources, got 1001"),
    ),
    "one reward of 200,000 sources": (
        *(REWARDS, lambda: [Reward(receiver_name="c1", sources=[SOURCE] * 200_000)]),
        *(INVALID, "rewards.sources.* expected at most"),
    ),
    "a user_id of 15 MB": (
        *(STARTS, lambda: api.TrialStartRequest(user_id="u" * 15 * MEGABYTE)),
        *(INVALID, "user_id: expected at most 1024 bytes, got 15000000"),
    ),
    "a request of 17 MB": (
        *(STARTS, lambda: api.TrialStartRequest(user_id="u" * 17 * MEGABYTE)),
        *(EXHAUSTED, "larger than max"),
    ),
    "5,000 actors": (
        *(
            STARTS,
            lambda: starts(
                actors=[ActorParams(name=f"c{k}", endpoint="client") for k in range(5000)]
            ),
        ),
        *(INVALID, "actors: expected at most 4096, got 5000"),
    ),
    "200,000 actors": (
        *(STARTS, lambda: starts(actors=[ActorParams()] * 200_000)),
        *(INVALID, "params.actors: expected at most"),
    ),
    "many agents": (
        *(
            STARTS,
            lambda: starts(
                actors=[ActorParams(name=f"{k}", endpoint="local://agent") for k in range(2000)]
            ),
        ),
        *(INVALID, "actors: expected at most 134217728 bytes"),
    ),
    "many agents of long names": (
        *(
            STARTS,
            lambda: starts(
                actors=[ActorParams(name=f"{k}" * 200, endpoint="x:1") for k in range(1000)]
            ),
        ),
        *(INVALID, "actors"),
    ),
    "300,000 configs": (STARTS, EMPTY * 300_000, INVALID, "config: expected at most"),
    "a name": (STARTS, one(name=LONG), INVALID, r"actors\[0\]: name: expected at most 1024 bytes"),
    "a class": (STARTS, one(actor_class=LONG), INVALID, r"actors\[0\]: actor_class: expected"),
    "an implementation": (STARTS, one(implementation=LONG), INVALID, r"\[0\]: implementation: exp"),
    "an endpoint": (
        STARTS,
        one(endpoint=LONG),
        INVALID,
        r"actors\[0\]: endpoint: expected at most",
    ),
    "an endpoint of the environment": (
        *(STARTS, starts(environment=EnvironmentParams(endpoint=LONG))),
        *(INVALID, "environment: endpoint: expected at most 1024 bytes, got 2000"),
    ),
    "an implementation of the environment": (
        *(STARTS, starts(environment=EnvironmentParams(endpoint="x:1", implementation=LONG))),
        *(INVALID, "environment: implementation: expected at most 1024 bytes, got 2000"),
    ),
    "a trial to join": (
        *(JOINS, api.TrialJoinRequest(trial_id=LONG * 1000, actor_name="c0")),
        *(INVALID, "trial_id: expected at most 1024 bytes, got 2000000"),
    ),
    "an actor to join as": (
        *(JOINS, api.TrialJoinRequest(actor_name="ä" * 513)),
        *(INVALID, "actor_name: expected at most 1024 bytes, got 1026"),
    ),
    "a class to join as": (
        *(JOINS, api.TrialJoinRequest(actor_class=LONG)),
        *(INVALID, "actor_class: expected at most 1024 bytes, got 2000"),
    ),
    "15 million states": (
        *(WATCHES, lambda: api.TrialListRequest(filter=[1] * 15 * MEGABYTE)),
        *(INVALID, "filter: expected at most"),
    ),
    "65 states": (
        *(WATCHES, api.TrialListRequest(filter=[1] * 65)),
        *(INVALID, "filter: expected at most 64 states, got 65"),
    ),
    "varints without end": (STARTS, lambda: b"\xff" * 15 * MEGABYTE, INVALID, "request: "),
    "groups in groups": (STARTS, lambda: b"\x0b" * 15 * MEGABYTE, INVALID, "request: "),
    "300,000 unknown fields": (
        STARTS,
        b"\xf8\x07\x00" * 300_000,
        INVALID,
        "unknown field 127",
    ),
}
"""Method, request, code and text of the refusal. Large requests are made when they are sent, since
each test process imports this module."""


class Flood:
    """A channel to the process, and a trial of two clients that waits for the second."""

    def __init__(self, server: Server, **options: Any) -> None:
        self.server = server
        sizes = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
        self.channel = grpc.aio.insecure_channel(
            f"127.0.0.1:{server.port}", options=[*sizes, *options.items()]
        )
        self.lifecycle = TrialLifecycleStub(self.channel)
        self.actors = ClientActorStub(self.channel)

    async def __aenter__(self) -> Flood:
        self.trial_id = await self.start("c0", "c1")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.terminate(self.trial_id)
        await self.channel.close()

    async def start(self, *names: str, **fields: Any) -> str:
        request = api.TrialStartRequest(params=params(*names), **fields)
        return str((await self.lifecycle.StartTrial(request)).trial_id)

    async def terminate(self, trial_id: str) -> None:
        await self.lifecycle.TerminateTrial(api.TerminateTrialRequest(), metadata=whom(trial_id))

    def call(self, name: str, content: bytes, **arguments: Any) -> Awaitable[Any]:
        call = self.channel.unary_unary(f"/cogment.{name}")
        return call(content, metadata=whom(self.trial_id, "c0"), **arguments)

    async def refused(self, awaited: Awaitable[Any]) -> tuple[grpc.StatusCode, str]:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await awaited
        return caught.value.code(), str(caught.value.details())

    async def others_tick(self) -> tuple[list[str], dict[str, int], Any]:
        """Wait for ticks of the other trial, check how late they were, and tell the rest."""
        delays, warnings, held, stats = self.server.take(self.trial_id)
        async with asyncio.timeout(LIMIT):
            while len(delays) < 5:
                await asyncio.sleep(0.01)
                delays += self.server.take()[0]
        # Ten times what they are allowed on a machine that does nothing else.
        assert np.median(delays) <= 0.5
        assert np.percentile(delays, 99) <= 2.0
        return warnings, held, stats
