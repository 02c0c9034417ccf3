"""An orchestrator and an endpoint of the SDK, on real sockets."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cogrs import orchestrator, sdk
from cogrs.api.common_pb2 import ActorParams, EnvironmentParams, TrialParams

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

LOST = ("lost", None)


async def until(what: Callable[[], object]) -> None:
    """Wait until something is so; for what nobody announces."""
    while not what():  # noqa: ASYNC110
        await asyncio.sleep(0.005)


class World(NamedTuple):
    """What tests talk to."""

    controller: sdk.TrialController
    orchestrator: orchestrator.Server
    endpoint: sdk.Endpoint

    async def play(self, config: bytes | None = None) -> str:
        """Run a trial to its end, and return its id."""
        trial = await self.controller.start_trial(config)
        await self.controller.wait_ended(trial.id)
        return trial.id

    def reason(self, trial_id: str) -> str:
        return str(self.orchestrator._orchestrator._trials.get(trial_id).end_reason)

    def owes(self, trial_id: str, name: str) -> bool:
        """Return whether an actor's action of the present tick has not arrived."""
        trial = self.orchestrator._orchestrator._trials.get(trial_id)
        (actor,) = (each for each in trial.actors if each.name == name)
        return bool(trial._pending.owes(actor.index))

    def components(self) -> int:
        return sum(len(host.components) for host in self.endpoint._hosts)

    async def freed(self) -> None:
        """Wait until no component is left."""
        await until(lambda: not self.components())


@asynccontextmanager
async def world(
    environment: Callable[[], sdk.Environment] | dict[str, Any],
    agent: Callable[[], sdk.Agent] | dict[str, Any],
    *,
    actors: Iterable[str] = ("a0",),
    codec: Any = None,
    settings: orchestrator.Settings | None = None,
    configs: tuple[bytes, bytes] | None = None,
    **params: Any,
) -> AsyncIterator[World]:
    """Serve one environment and agents; `actors` are `name`, or `name:class:implementation`."""
    environments = environment if isinstance(environment, dict) else {"env": environment}
    agents = agent if isinstance(agent, dict) else {"agent": agent}
    async with await sdk.serve(environments=environments, agents=agents, codec=codec) as endpoint:
        trial = TrialParams(
            environment=EnvironmentParams(
                endpoint=endpoint.address, implementation=params.pop("implementation", "")
            ),
            actors=[actor_params(each, endpoint.address) for each in actors],
            **params,
        )
        if configs is not None:
            trial.environment.config.content = configs[0]
            for actor in trial.actors:
                actor.config.content = configs[1]
        config = orchestrator.Config(params=trial)
        async with (
            await orchestrator.serve(config, port=0, settings=settings) as server,
            sdk.TrialController(f"127.0.0.1:{server.port}") as controller,
        ):
            here = World(controller, server, endpoint)
            yield here
            # Tests leave trials that have ended: nothing of them may stay.
            await here.freed()


def actor_params(text: str, endpoint: str) -> ActorParams:
    name, actor_class, implementation = [*text.split(":"), "", ""][:3]
    return ActorParams(
        name=name,
        actor_class=actor_class or "player",
        implementation=implementation,
        endpoint=endpoint,
    )


class Counting(sdk.Environment):
    """Shows `[tick, offset of the actor]`, rewards with 1, and writes down what it is told.

    Over after `length` steps; the calls of all instances are in `calls`, by trial.
    """

    length = 5

    def __init__(self, calls: defaultdict[str, list[Any]]) -> None:
        self.all_calls = calls

    def start(self, trial: sdk.Trial) -> Any:
        self.trial = trial
        self.calls = self.all_calls[trial.id]
        self.calls.append(("start", trial))
        self.tick = 0
        return self.update()

    def update(self) -> sdk.Update:
        names = self.trial.actor_names
        return sdk.Update({name: [self.tick, index] for index, name in enumerate(names)})

    def step(self, actions: Any) -> Any:
        self.calls.append(("step", {name: value.tolist() for name, value in actions.items()}))
        self.tick += 1
        update = self.update()
        update.rewards = dict.fromkeys(actions, 1.0)
        update.final = update.terminated = self.tick == self.length
        return update

    def message(self, message: sdk.ReceivedMessage) -> Any:
        self.calls.append(("message", message))

    def end(self, actions: Any) -> Any:
        self.calls.append(("end", {name: value.tolist() for name, value in actions.items()}))
        self.tick += len(actions) == len(self.trial.actors)
        return self.update()

    def lost(self) -> None:
        self.calls.append(LOST)


class Echo(sdk.Agent):
    """Answers what it sees, and writes down what it is told."""

    def __init__(self, calls: defaultdict[Any, list[Any]]) -> None:
        self.all_calls = calls

    def start(self, trial: sdk.Trial) -> Any:
        self.trial = trial
        self.calls = self.all_calls[trial.id, trial.name]
        self.calls.append(("start", trial))

    def act(self, observation: sdk.Observation) -> Any:
        self.calls.append(("act", observation))
        return np.asarray(observation.value)

    def reward(self, reward: sdk.ReceivedReward) -> Any:
        self.calls.append(("reward", reward))

    def message(self, message: sdk.ReceivedMessage) -> Any:
        self.calls.append(("message", message))

    def end(self, final: sdk.Final) -> Any:
        self.calls.append(("end", final))

    def lost(self) -> Any:
        self.calls.append(LOST)


def calls() -> defaultdict[Any, list[Any]]:
    return defaultdict(list)


def named(calls: Iterable[Any], name: str) -> list[Any]:
    return [value for each, value in calls if each == name]


def kinds(calls: Iterable[Any]) -> list[str]:
    return [each for each, _ in calls]


def rewards(calls: Iterable[Any]) -> list[tuple[int, float]]:
    """All rewards of an agent, those of the end too."""
    calls = list(calls)
    all_rewards = named(calls, "reward") + [
        reward for final in named(calls, "end") for reward in final.rewards
    ]
    return [(reward.tick, reward.value) for reward in all_rewards]
