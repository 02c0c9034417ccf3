"""An orchestrator in a process of its own, in which a trial ticks while somebody floods others."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cogrs.api import agent_pb2, environment_pb2
from cogrs.api.common_pb2 import Action, ActorParams, EnvironmentParams, TrialParams
from cogrs.api.orchestrator_pb2 import TrialStartRequest
from cogrs.orchestrator import Config, Settings, serve_orchestrator
from tests.orchestrator.world import observation_set

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

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


class Still:
    async def on_start(self, trial_id: str, name: str, request: Any) -> Any:
        return agent_pb2.AgentStartReply()

    async def on_observation(
        self, trial_id: str, name: str, requests: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        async for _ in requests:
            yield agent_pb2.AgentActionReply(action=Action(content=b"x"))

    async def on_end(self, trial_id: str, name: str, request: Any) -> Any:
        return agent_pb2.AgentEndReply()


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
    local = {"walk": walk, "still": Walk(), "agent": Still()}
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
