"""Why a trial ended: told to the caller that started it and to its actors, on sockets."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import pytest

import cogrs
from cogrs import orchestrator, sdk
from cogrs.orchestrator import Settings
from tests.orchestrator.net import on_loop
from tests.sdk.net import Counting, Echo, calls, named, world

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT = 60.0


class Endless(Counting):
    length = -1


class Breaks(Counting):
    """Raises where it is told to."""

    where = "step"

    def start(self, trial: sdk.Trial) -> Any:
        if self.where == "start":
            raise ValueError("it broke at once")
        return super().start(trial)

    def step(self, actions: Any) -> Any:
        if self.where == "step" and self.tick == 1:
            raise ValueError("it broke later")
        return super().step(actions)


class BreaksAtOnce(Breaks):
    where = "start"


class BadAgent(Echo):
    def act(self, observation: sdk.Observation) -> Any:
        if observation.tick == 1:
            raise ValueError("no idea")
        return super().act(observation)


class Leaves(Echo):
    def act(self, observation: sdk.Observation) -> Any:
        raise SystemExit("enough")


@contextmanager
def running(
    environment: Any, agents: Any = None, *, local: bool = True, **params: Any
) -> Iterator[str]:
    """Where an orchestrator is; its trials have agents "a", "b", or else a client "c"."""
    parts: dict[str, Any] = {"environments": {"": environment}}
    if agents is not None:
        parts["agents"] = agents
    with sdk.serve_endpoint(**parts) as served:
        here = {"env": sdk.local_environments(parts["environments"])}
        if agents is not None:
            here["agent"] = sdk.local_agents(agents)
        actors = [{"name": "c", "actor_class": "human", "endpoint": "client"}]
        if agents is not None:
            where = "local://agent" if local else served.address
            actors = [
                {"name": name, "actor_class": "x", "endpoint": where, "implementation": name}
                for name in agents
            ]
        trial = {
            "environment": {"endpoint": "local://env" if local else served.address},
            "actors": actors,
            **params,
        }
        with cogrs.serve_orchestrator({"trial_params": trial}, port=0, local=here) as server:
            yield f"127.0.0.1:{server.port}"


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize(
    ("environment", "agent", "words"),
    [
        (BreaksAtOnce, Echo, "OnStart: .*ValueError: it broke at once"),
        (Breaks, Echo, "ValueError: it broke later"),
        (Counting, BadAgent, "actor 'a' at .*ValueError: no idea"),
        (Counting, Leaves, "actor 'a' at .*SystemExit: enough"),
    ],
)
def test_run_trial_raises_why_a_trial_failed(
    environment: Any, agent: Any, words: str, local: bool
) -> None:
    heard = calls()
    agents = {"a": lambda: agent(calls()), "b": lambda: Echo(heard)}
    with (
        running(lambda: environment(calls()), agents, local=local) as where,
        pytest.raises(sdk.TrialFailedError, match=words) as caught,
    ):
        sdk.run_trial(where, timeout=LIMIT)
    error = caught.value
    assert isinstance(error, RuntimeError)
    assert str(error) == f"trial {error.trial.id} failed: {error.reason}"
    assert error.trial.end_reason == error.reason
    assert [actor.name for actor in error.trial.actors] == ["a", "b"]
    # The other agent was told the same.
    finals = named(heard[error.trial.id, "b"], "end")
    assert [final.reason for final in finals] == [error.reason] * len(finals)
    assert finals or environment is BreaksAtOnce


@pytest.mark.parametrize("local", [True, False])
def test_run_trial_returns_why_a_trial_ended_well(local: bool) -> None:
    heard = calls()
    agents = {"a": lambda: Echo(heard)}
    with running(lambda: Counting(calls()), agents, local=local) as where:
        trial = sdk.run_trial(where, timeout=LIMIT)
    assert trial.end_reason == "environment: final update"
    (final,) = named(heard[trial.id, "a"], "end")
    assert final.reason == trial.end_reason


def test_run_trial_returns_trials_ended_by_a_limit_or_a_request() -> None:
    agents = {"a": lambda: Echo(calls())}
    with running(lambda: Endless(calls()), agents, max_steps=3) as where:
        assert sdk.run_trial(where, timeout=LIMIT).end_reason == "max_steps: 3 steps are done"
    with running(lambda: Endless(calls()), agents) as where:

        async def terminate() -> None:
            async with sdk.TrialController(where) as controller:
                async for trial, _ in controller.watch_trials([sdk.TrialState.RUNNING]):
                    await controller.terminate_trial(trial)
                    return

        other = threading.Thread(target=lambda: asyncio.run(terminate()), daemon=True)
        other.start()
        assert sdk.run_trial(where, timeout=LIMIT).end_reason == "TerminateTrial was called"
        other.join(LIMIT)


def test_run_trial_returns_when_the_orchestrator_stops() -> None:
    local = {"env": sdk.local_environments({"": lambda: Endless(calls())})}
    actor = {"name": "c", "actor_class": "human", "endpoint": "client"}
    params = {"environment": {"endpoint": "local://env"}, "actors": [actor]}
    ended: list[sdk.StartedTrial] = []
    with cogrs.serve_orchestrator({"trial_params": params}, port=0, local=local) as server:
        where = f"127.0.0.1:{server.port}"
        other = threading.Thread(target=lambda: ended.append(sdk.run_trial(where)), daemon=True)
        other.start()

        async def started() -> None:
            async with sdk.TrialController(where) as controller:
                async for _ in controller.watch_trials([sdk.TrialState.PENDING]):
                    return

        asyncio.run(started())
    other.join(LIMIT)
    assert [trial.end_reason for trial in ended] == ["the orchestrator stops"]


@on_loop
async def test_wait_ended_returns_why_before_after_and_not_long_after() -> None:
    settings = Settings(retention=0.2)
    async with world(lambda: Breaks(calls()), lambda: Echo(calls()), settings=settings) as net:
        trial = await net.controller.start_trial()
        end = await net.controller.wait_ended(trial.id)
        assert end.failed
        assert "ValueError: it broke later" in end.reason
        assert await net.controller.wait_ended(trial.id) == end
        while await net.controller.trials():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert await net.controller.wait_ended(trial.id) == sdk.TrialEnd("", failed=False)


@pytest.mark.parametrize("environment", [Counting, Breaks, BreaksAtOnce])
def test_player_gets_the_end_reason(environment: Any) -> None:
    with running(lambda: environment(calls())) as where:

        async def start() -> str:
            async with sdk.TrialController(where) as controller:
                return (await controller.start_trial()).id

        # A trial whose environment breaks at once may be over before anybody joins it.
        if environment is BreaksAtOnce:
            with pytest.raises(sdk.TrialFailedError, match="it broke at once"):
                sdk.run_trial(where, timeout=LIMIT)
            return
        trial = asyncio.run(start())
        final = sdk.play(where, lambda seen: seen.value, trial, name="c", timeout=LIMIT)
    assert final is not None
    broke = environment is Breaks
    assert ("ValueError: it broke later" if broke else "environment: final update") in final.reason


@on_loop
async def test_person_that_joins_too_late_gets_the_end_reason() -> None:
    long = "why \u30a1 " * 5000  # each of these is nine characters of a header

    class Refuses(Counting):
        def start(self, trial: sdk.Trial) -> Any:
            raise ValueError(long)

    local = {"env": sdk.local_environments({"": lambda: Refuses(calls())})}
    actor = {"name": "c", "actor_class": "human", "endpoint": "client"}
    params = {"environment": {"endpoint": "local://env"}, "actors": [actor]}
    async with (
        await orchestrator.serve({"trial_params": params}, port=0, local=local) as server,
        sdk.TrialController(f"127.0.0.1:{server.port}") as controller,
        sdk.ClientActor(f"127.0.0.1:{server.port}") as client,
    ):
        trial = await controller.start_trial()
        end = await controller.wait_ended(trial.id)
        assert end.failed
        with pytest.raises(
            sdk.RemoteCallError, match=r"does not take clients; reason: .*why \u30a1 why"
        ):
            await client.join(trial.id, name="c")


@on_loop
async def test_person_beside_a_gymnasium_player_gets_an_error_with_advice() -> None:
    begun = asyncio.Event()

    class Slow(sdk.GymnasiumEnvironment):
        async def start(self, trial: sdk.Trial) -> Any:
            await begun.wait()
            return super().start(trial)

    environments = {"": lambda: Slow(lambda: gymnasium.make("CartPole-v1"))}
    local = {
        "env": sdk.local_environments(environments),
        "agent": sdk.local_agents({"": sdk.FunctionAgent(lambda _: np.int64(0))}),
    }
    actors = [
        {"name": "pole", "actor_class": "p", "endpoint": "local://agent"},
        {"name": "ann", "actor_class": "human", "endpoint": "client"},
    ]
    params = {"environment": {"endpoint": "local://env"}, "actors": actors}
    async with (
        await orchestrator.serve({"trial_params": params}, port=0, local=local) as server,
        sdk.TrialController(f"127.0.0.1:{server.port}") as controller,
        sdk.ClientActor(f"127.0.0.1:{server.port}") as client,
    ):
        trial = await controller.start_trial()
        async with await client.join(trial.id, name="ann") as session:
            begun.set()
            (final,) = [event async for event in session]
        assert isinstance(final, sdk.Final)
        assert "actors: expected one player, got pole, ann" in final.reason
        assert "PettingZooEnvironment" in final.reason
        assert (await controller.wait_ended(trial.id)).reason == final.reason
