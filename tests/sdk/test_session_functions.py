"""Environments and agents that are async functions over a session; by gRPC and without."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

import pytest

from cogrs import orchestrator, sdk
from cogrs.api.common_pb2 import RewardSource
from tests.orchestrator.net import on_loop
from tests.sdk.net import Counting, Echo, calls, named, rewards, until, world


async def counting(session: sdk.EnvironmentSession) -> None:
    """Shows the tick, rewards with what was done, is over at tick 4."""
    tick = 0
    names = session.trial.actor_names
    await session.update(sdk.Update([tick]))
    async for event in session:
        if not isinstance(event, sdk.Actions):
            continue
        tick += 1
        gained = {name: float(event.values[name][0]) for name in names if name in event.values}
        await session.update(sdk.Update([tick], gained, final=tick == 4, terminated=tick == 4))


def talking(heard: Any) -> Any:
    async def talk(session: sdk.ActorSession) -> None:
        mine = heard[session.trial.id, session.trial.name]
        async for event in session:
            mine.append(event)
            if isinstance(event, sdk.Observation):
                if event.tick == 1:
                    await session.send_reward(sdk.Reward("*", 10.0, tick=1))
                    await session.send_message(sdk.Message("*", RewardSource(value=event.tick)))
                await session.act([event.tick * 2])

    return talk


@pytest.mark.parametrize("local", [False, True])
@on_loop
async def test_events_come_in_order_in_many_trials_at_once(local: bool) -> None:
    heard: defaultdict[Any, list[Any]] = defaultdict(list)
    names = ("a0", "a1")
    environments, agents = {"env": counting}, {"talk": talking(heard)}
    async with await sdk.serve(environments=environments, agents=agents) as endpoint:
        parts = {
            "plays": sdk.local_environments(environments),
            "acts": sdk.local_agents(agents),
        }
        plays, acts = ("local://plays", "local://acts") if local else (endpoint.address,) * 2
        actors = [{"name": name, "actor_class": "p", "endpoint": acts} for name in names]
        config = {"trial_params": {"environment": {"endpoint": plays}, "actors": actors}}
        async with (
            await orchestrator.serve(config, port=0, local=parts) as server,
            sdk.TrialController(f"127.0.0.1:{server.port}") as controller,
        ):
            trials = [(await controller.start_trial()).id for _ in range(8)]
            for trial_id in trials:
                await controller.wait_ended(trial_id)
    assert set(heard) == {(trial_id, name) for trial_id in trials for name in names}
    for events in heard.values():
        *before, final = events
        assert isinstance(final, sdk.Final)
        assert final.observation is not None
        assert (final.observation.tick, final.observation.terminated) == (4, True)
        kinds = [type(each).__name__ for each in before]
        observed = [each.tick for each in before if isinstance(each, sdk.Observation)]
        assert observed == [0, 1, 2, 3]
        gained = [
            (each.tick, each.value)
            for each in (*before, *final.rewards)
            if isinstance(each, sdk.ReceivedReward)
        ]
        # Both reward both for tick 1, while they observe it: that is one reward, with tick 2.
        assert gained == [(1, 0.0), (1, 10.0), (2, 2.0), (3, 4.0), (4, 6.0)]
        assert kinds.index("ReceivedMessage") < kinds.index("Observation", 4)
        assert kinds.count("ReceivedMessage") == 2


@on_loop
async def test_requested_end_reaches_the_session_function() -> None:
    seen = []

    async def endless(session: sdk.EnvironmentSession) -> None:
        await session.update(sdk.Update([0]))
        async for event in session:
            assert isinstance(event, sdk.Actions)
            seen.append((event.last, sorted(event.values)))
            await session.update(sdk.Update([1]))
        seen.append("over")

    agents = {"agent": sdk.FunctionAgent(lambda _: [0])}
    async with world({"env": endless}, agents, max_steps=2) as net:
        await net.play()
    assert seen == [(False, ["a0"]), (False, ["a0"]), (True, ["a0"]), "over"]


@on_loop
async def test_environment_function_may_return_without_last_observations() -> None:
    async def short(session: sdk.EnvironmentSession) -> None:
        await session.update(sdk.Update([0]))
        async for event in session:
            if isinstance(event, sdk.Actions) and event.last:
                return
            await session.update(sdk.Update([1]))

    heard = calls()
    async with world({"env": short}, lambda: Echo(heard), max_steps=1) as net:
        trial_id = await net.play()
        assert "max_steps" in net.reason(trial_id)
    assert named(heard[trial_id, "a0"], "end")[0].observation is None


async def returns(session: sdk.ActorSession) -> None:
    await anext(session)
    await session.act([1])


async def raises(session: sdk.ActorSession) -> None:
    await anext(session)
    raise ArithmeticError("no idea")


async def acts_twice(session: sdk.ActorSession) -> None:
    await anext(session)
    await session.act([1])
    await session.act([2])


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (returns, "act failed: RuntimeError: the function returned, but the trial goes on"),
        (raises, "act failed: ArithmeticError: no idea"),
        (acts_twice, "action: every observation has been answered already"),
    ],
)
@on_loop
async def test_environment_function_that_raises_ends_its_trial(function: Any, said: str) -> None:
    async with world(lambda: Counting(calls()), {"agent": function}) as net:
        assert said in net.reason(await net.play())


@on_loop
async def test_environment_function_that_returns_at_once_fails_the_start() -> None:
    async def nothing(session: sdk.EnvironmentSession) -> None:
        pass

    async with world({"env": nothing}, lambda: Echo(calls())) as net:
        assert "start failed: RuntimeError: the function returned" in net.reason(await net.play())


@on_loop
async def test_functions_of_a_server_that_stops_are_cancelled() -> None:
    ends = []

    async def wait(session: sdk.ActorSession) -> None:
        try:
            async for _ in session:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise

    async with world(lambda: Counting(calls()), {"agent": wait}) as net:
        trial = await net.controller.start_trial()
        await until(lambda: net.components() == 2)
        await net.endpoint.stop(0)
        await net.controller.wait_ended(trial.id)
        await until(lambda: ends == ["cancelled"])


@on_loop
async def test_factory_that_is_not_callable_is_refused_by_name() -> None:
    wrong: Any = sdk.Agent()
    with pytest.raises(TypeError, match=r"agents\['a'\]: expected a class .* an object of Agent"):
        await sdk.serve(agents={"a": wrong})
    with pytest.raises(TypeError, match=r"hooks\['h'\]: expected"):
        await sdk.serve(hooks={"h": wrong})
    with pytest.raises(TypeError, match="datalog: expected"):
        await sdk.serve(datalog=wrong)


def test_serve_endpoint_works_without_an_event_loop() -> None:
    heard = calls()
    with sdk.serve_endpoint(
        environments={"": lambda: Counting(calls())}, agents={"": lambda: Echo(heard)}
    ) as endpoint:
        actor = {"name": "a0", "actor_class": "p", "endpoint": endpoint.address}
        params = {"environment": {"endpoint": endpoint.address}, "actors": [actor]}
        with orchestrator.serve_orchestrator({"trial_params": params}, port=0) as server:
            trial = sdk.run_trial(f"127.0.0.1:{server.port}", timeout=60)
            assert rewards(heard[trial.id, "a0"]) == [(k, 1.0) for k in range(1, 6)]
        assert "running" in repr(endpoint)
        assert not endpoint.wait(0.01)
    assert endpoint.wait(60)
    assert "stopped" in repr(endpoint)
    endpoint.stop()


def test_serve_endpoint_raises_its_error_in_the_caller() -> None:
    with pytest.raises(ValueError, match="expected at least one implementation"):
        sdk.serve_endpoint()
