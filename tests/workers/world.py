"""Environments, policies and a stage with everything on it, all real, that the tests share.

What happens follows from a state, which is (environment, actor, tick): see `action_of` and so on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from cogrs import ReplayMemory, ReplayMemoryClient, ReplayMemoryServer, sdk
from cogrs.api.common_pb2 import ActorParams, EnvironmentParams, TrialParams
from cogrs.orchestrator import Config, Server, serve
from cogrs.workers import STEP_INFO, ActorWorker, Decision
from tests.replay import build, network
from tests.replay.model import FIELDS

GAMMA = 0.5

Hook = Callable[["Environment", sdk.Update], Awaitable[None]]


def reward_of(state: Sequence[float]) -> float:
    """The reward for what is done in a state."""
    environment, actor, tick = state
    return environment + actor / 4 + tick / 8


def action_of(states: np.ndarray) -> np.ndarray:
    return (states @ [1, 10, 100]).astype(np.int64)


def prob_of(states: np.ndarray) -> np.ndarray:
    return (1 / (2 + states[:, 2])).astype(np.float32)


def value_of(states: np.ndarray) -> np.ndarray:
    return (states @ [0.25, 0.5, 1]).astype(np.float32)


def decide(states: np.ndarray) -> Decision:
    return Decision(action_of(states), prob_of(states), value_of(states))


def memory() -> ReplayMemory:
    """Return an empty memory for the steps of these trials."""
    templates = {**build.TEMPLATES, "s": np.zeros(3, np.float32), "i": np.zeros((), STEP_INFO)}
    rem = ReplayMemory(*(templates[name] for name in FIELDS), max_step=1 << 15, seed=0)
    rem.discount_factor = GAMMA
    return rem


@dataclass
class Environment(sdk.Environment):
    """Plays so many steps; a test changes what it tells by its hook, before it is told."""

    number: int
    length: int
    terminates: bool = True
    hook: Hook | None = None
    names: tuple[str, ...] = ()
    tick: int = 0
    actions: list[dict[str, Any]] = field(default_factory=list)

    def start(self, trial: sdk.Trial) -> sdk.Update:
        self.names = trial.actor_names
        return sdk.Update(self.states())

    def states(self) -> dict[str, np.ndarray]:
        return {
            name: np.array([self.number, actor, self.tick], np.float32)
            for actor, name in enumerate(self.names)
        }

    async def step(self, actions: dict[str, Any]) -> sdk.Update:
        self.actions.append(actions)
        rewards = [sdk.Reward(name, reward_of(state)) for name, state in self.states().items()]
        self.tick += 1
        over = self.tick == self.length
        update = sdk.Update(self.states(), rewards=rewards, final=over)
        update.terminated, update.truncated = over and self.terminates, over and not self.terminates
        if self.hook is not None:
            await self.hook(self, update)
        return update

    async def end(self, actions: dict[str, Any]) -> sdk.Update | None:
        if len(actions) < len(self.names):
            return None
        update = await self.step(actions)
        update.truncated = not update.terminated
        return update


def made_server(cache_size: int = 8, **changes: Any) -> ReplayMemoryServer:
    """A server for these states."""
    server = network.started(
        2,
        s=np.zeros(3, np.float32),
        i=np.zeros((), STEP_INFO),
        cache_size=cache_size,
        discount_factor=GAMMA,
        **changes,
    )
    return server


@dataclass
class Stage:
    """What plays together."""

    server: ReplayMemoryServer
    client: ReplayMemoryClient
    worker: ActorWorker
    endpoint: sdk.Endpoint
    orchestrator: Server
    controller: sdk.TrialController
    environments: list[Environment]

    async def play(self, trials: int = 1) -> list[str]:
        """Play so many trials at once, to their end."""
        running = [(await self.controller.start_trial()).id for _ in range(trials)]
        await self.ended(running)
        return running

    async def ended(self, trials: Sequence[str]) -> None:
        """Wait until these have ended."""
        left = set(trials)
        async for trial_id, _ in self.controller.watch_trials([sdk.TrialState.ENDED]):
            left.discard(trial_id)
            if not left:
                return

    def episodes(self) -> list[Any]:
        """All closed episodes; nothing else is in memory."""
        rem = self.worker.memory
        episodes = [rem.episode(k) for k in range(rem.num_episode())]
        assert sum(len(episode.entries.s) for episode in episodes) == rem.num_entry
        return episodes


@asynccontextmanager
async def stage(
    policy: Callable[[Any], Decision] = decide,
    *,
    length: int | Callable[[int], int] = 5,
    terminates: bool = True,
    hook: Hook | None = None,
    actors: int = 1,
    max_steps: int = 0,
    server: dict[str, Any] | None = None,
    **options: Any,
) -> AsyncIterator[Stage]:
    """Everything: a server, a client, a worker, environments, agents, an orchestrator."""
    environments: list[Environment] = []
    numbers = count(1)

    def make() -> Environment:
        number = next(numbers)
        steps = length(number) if callable(length) else length
        environments.append(Environment(number, steps, terminates, hook))
        return environments[-1]

    with (
        made_server(**server or {}) as replay,
        network.connected(replay, 4096, timeout=10) as client,
        ActorWorker(client, policy, **options) as worker,
    ):
        async with (
            await sdk.serve(agents={"policy": worker.agent}) as acts,
            await sdk.serve(environments={"world": make}) as plays,
        ):
            params = TrialParams(
                environment=EnvironmentParams(endpoint=plays.address),
                actors=[
                    ActorParams(name=f"a{i}", actor_class="player", endpoint=acts.address)
                    for i in range(actors)
                ],
                max_steps=max_steps,
            )
            orchestrator = await serve(Config(params=params), port=0)
            async with sdk.TrialController(f"127.0.0.1:{orchestrator.port}") as controller:
                yield Stage(replay, client, worker, plays, orchestrator, controller, environments)
            await orchestrator.stop(0.5)


async def until(holds: Callable[[], object]) -> None:
    """Wait until something holds, and fail when it never does."""
    end = time.monotonic() + network.SLACK
    while not holds():
        assert time.monotonic() < end, "it never held"
        await asyncio.sleep(0.005)
