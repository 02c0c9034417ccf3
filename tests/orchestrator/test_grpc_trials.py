"""Whole trials over gRPC, with an environment and agents."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import pytest

from cogrs.api import orchestrator_pb2 as api
from cogrs.api.agent_pb2 import AgentActionReply
from cogrs.api.common_pb2 import Action, ActorParams, EnvironmentParams
from cogrs.orchestrator import Settings
from tests.orchestrator.net import AgentService, EnvironmentService, Net, on_loop, whom
from tests.orchestrator.world import message, reward, texts, values

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@on_loop
async def test_trial_plays_from_start_to_end() -> None:
    async with Net(agents=3) as net:
        watch = net.lifecycle.WatchTrials(api.TrialListRequest())
        await watch.initial_metadata()
        reply = await net.lifecycle.StartTrial(api.TrialStartRequest(user_id="me"))
        trial_id = reply.trial_id
        states = []
        async for entry in watch:
            assert entry.trial_id == trial_id
            states.append(entry.state)
            if entry.state == api.ENDED:
                break
        watch.cancel()
        assert states == [1, 2, 3, 4, 5]

        actors = [("a0", "agent"), ("a1", "agent"), ("a2", "agent")]
        (start,) = net.environment.of(trial_id, "start")
        for listed in (reply.actors_in_trial, start.actors_in_trial):
            assert [(actor.name, actor.actor_class) for actor in listed] == actors
        sent = [
            list(request.action_set.actions) for request in net.environment.of(trial_id, "action")
        ]
        assert sent == [[b"%s:%d" % (n, t) for n in (b"a0", b"a1", b"a2")] for t in range(5)]
        assert net.environment.of(trial_id, "end") == []

        for index in range(3):
            calls = net.agents.calls[trial_id, f"a{index}"]
            names = [name for name, _ in calls]
            assert names == ["start", *["observation", "reward"] * 4, "observation", "end"]
            seen = [(o.tick_id, o.data.content) for name, o in calls if name == "observation"]
            assert seen == [(tick, b"o%d.%d" % (tick, index)) for tick in range(5)]
            rewards = [request for name, request in calls if name == "reward"]
            assert values(rewards) == [(tick, 1.0) for tick in range(1, 5)]
            assert [source.sender_name for source in rewards[0].sources] == ["env"]
            final = calls[-1][1]
            assert [o.data.content for o in final.observations] == [b"o5.%d" % index]
            assert values(final.rewards) == [(5, 1.0)]


@on_loop
async def test_failure_of_one_of_many_trials_leaves_the_others() -> None:
    async with Net(agents=5) as net:
        chance = random.Random(1)
        step = net.environment.step

        async def answer_some_time(trial_id: str, name: str, observation: Any) -> AgentActionReply:
            await asyncio.sleep(chance.random() * 0.01)
            content = f"{name}:{observation.tick_id}".encode()
            return AgentActionReply(action=Action(content=content))

        async def fail_once(trial_id: str, number: int, request: Any) -> Any:
            if trial_id == min(net.environment.names) and number == 15:
                raise ValueError("this one fails")
            return await step(trial_id, number, request)

        net.agents.act = answer_some_time  # type: ignore[method-assign]
        net.environment.step = fail_once  # type: ignore[method-assign]
        net.environment.length = 20
        trials = [await net.start() for _ in range(20)]
        assert len(set(trials)) == 20
        trials.sort()
        reasons = await asyncio.gather(*map(net.end_of, trials))
        assert "this one fails" in reasons[0]
        assert set(reasons[1:]) == {"environment: final update"}
        for trial_id in trials[1:]:
            requests = net.environment.of(trial_id, "action")
            assert [list(request.action_set.actions) for request in requests] == [
                [b"a%d:%d" % (index, tick) for index in range(5)] for tick in range(20)
            ]
        for trial_id in trials:
            for index in range(5):
                assert len(net.agents.of(trial_id, f"a{index}", "end")) == 1


@on_loop
async def test_messages_and_rewards_of_agents_are_delivered() -> None:
    async with Net(agents=2) as net:
        act = net.agents.act

        async def talk(trial_id: str, name: str, observation: Any) -> AgentActionReply:
            reply = await act(trial_id, name, observation)
            if name == "a1":
                reply.messages.extend([message("env", "to env"), message("a0", "to a0")])
                reply.rewards.append(reward("a0", 5.0, confidence=3))
            return reply

        net.agents.act = talk  # type: ignore[method-assign]
        net.environment.length = 2
        trial_id = await net.start()
        await net.until(trial_id)
        calls = [name for name, _ in net.environment.calls[trial_id]]
        assert calls == ["start", "message", "action", "message", "action"]
        got = net.environment.of(trial_id, "message")
        assert [texts(request.messages) for request in got] == [
            [(0, "a1", "to env")],
            [(1, "a1", "to env")],
        ]
        names = [name for name, _ in net.agents.calls[trial_id, "a0"]]
        assert names == ["start", "observation", "reward", "messages", "observation", "end"]
        (sent,) = net.agents.of(trial_id, "a0", "messages")
        assert texts(sent) == [(1, "a1", "to a0")]
        (first,) = net.agents.of(trial_id, "a0", "reward")
        assert values([first]) == [(1, 4.0)]
        (final,) = net.agents.of(trial_id, "a0", "end")
        assert texts(final.messages) == [(2, "a1", "to a0")]
        assert values(final.rewards) == [(2, 4.0)]


@on_loop
async def test_rewards_arrive_singly_and_messages_together_before_the_observation() -> None:
    async with Net(agents=1, max_steps=1) as net:

        async def talk(trial_id: str, name: str, observation: Any) -> AgentActionReply:
            del trial_id
            tick = observation.tick_id
            words = [message(to, f"{word} {tick}") for to in (name, "env") for word in ("a", "b")]
            earlier = [reward(name, 2.0, tick=0)] if tick == 0 else []
            return AgentActionReply(messages=words, rewards=earlier)

        net.agents.act = talk  # type: ignore[method-assign]
        net.environment.length = 2
        trial_id = await net.start()
        await net.until(trial_id)
        calls = net.agents.calls[trial_id, "a0"]
        assert [name for name, _ in calls] == [
            *("start", "observation"),
            *("reward", "reward", "messages", "observation"),
            "end",
        ]
        assert values(net.agents.of(trial_id, "a0", "reward")) == [(0, 2.0), (1, 1.0)]
        (told,) = net.agents.of(trial_id, "a0", "messages")
        assert texts(told) == [(1, "a0", "a 0"), (1, "a0", "b 0")]
        calls = net.environment.calls[trial_id]
        assert [name for name, _ in calls] == ["start", "message", "action", "message", "end"]
        assert [texts(each.messages) for each in net.environment.of(trial_id, "message")] == [
            [(0, "a0", "a 0"), (0, "a0", "b 0")],
            [(1, "a0", "a 1"), (1, "a0", "b 1")],
        ]


@on_loop
async def test_terminate_ends_a_trial() -> None:
    async with Net(agents=1, settings=Settings(close_grace=0.2)) as net:
        net.environment.length = 1_000_000
        trial_id = await net.start()
        await net.until(trial_id, api.RUNNING)
        await net.lifecycle.TerminateTrial(api.TerminateTrialRequest(), metadata=whom(trial_id))
        assert await net.end_of(trial_id) == "TerminateTrial was called"
        (request,) = net.environment.of(trial_id, "end")
        assert len(request.action_set.actions) == 1
        (final,) = net.agents.of(trial_id, "a0", "end")
        assert [each.data.content for each in final.observations] == [b"o999.0"]
        assert final.observations[0].tick_id == len(net.environment.of(trial_id, "action")) + 1
        assert await net.environment.closed.get() == trial_id


@asynccontextmanager
async def _endless() -> AsyncIterator[tuple[Net, str]]:
    """A trial that runs, of an environment that answers everything but OnEnd."""
    net = Net(agents=1)
    net.environment.OnEnd = _hang  # type: ignore[method-assign]
    async with net:
        net.environment.length = 1_000_000
        trial_id = await net.start()
        await net.until(trial_id, api.RUNNING)
        yield net, trial_id


@on_loop
async def test_terminate_trial_is_answered_at_once() -> None:
    async with _endless() as (net, trial_id):
        await net.lifecycle.TerminateTrial(api.TerminateTrialRequest(), metadata=whom(trial_id))
        (info,) = (await net.lifecycle.GetTrialInfo(api.TrialInfoRequest())).trial
        assert info.state == api.TERMINATING


@pytest.mark.parametrize("steps", [1, 3])
@on_loop
async def test_max_steps_ends_a_trial(steps: int) -> None:
    async with Net(agents=1, max_steps=steps) as net:
        net.environment.length = 100
        trial_id = await net.start()
        await net.until(trial_id)
        assert len(net.environment.of(trial_id, "action")) == steps
        (request,) = net.environment.of(trial_id, "end")
        assert list(request.action_set.actions) == [b"a0:%d" % steps]


@pytest.mark.parametrize("how", ["final update", "OnEnd"])
@on_loop
async def test_endless_stream_of_an_environment_is_cancelled(how: str) -> None:
    half_closed, cut = asyncio.Event(), asyncio.Event()

    class Endless(EnvironmentService):
        async def OnAction(self, requests: Any, context: Any) -> Any:  # noqa: N802
            try:
                async for reply in super().OnAction(requests, context):
                    yield reply
                half_closed.set()
                await asyncio.Event().wait()
            finally:
                cut.set()

    net = Net(agents=1, settings=Settings(close_grace=0.5), max_steps=3 * (how == "OnEnd"))
    net.environment = Endless()
    async with net:
        trial_id = await net.start()
        await net.until(trial_id)
        await half_closed.wait()
        assert not cut.is_set()
        await cut.wait()


async def _raise(*_: object) -> Any:
    raise ValueError("broken")


async def _hang(*_: object) -> Any:
    await asyncio.Event().wait()


@pytest.mark.parametrize("call", ["OnStart", "OnAction"])
@on_loop
async def test_environment_that_fails_ends_the_trial(call: str) -> None:
    async with Net(agents=2) as net:
        if call == "OnStart":
            net.environment.observations = None  # type: ignore[assignment]
        else:
            net.environment.step = _raise  # type: ignore[method-assign]
        trial_id = await net.start()
        reason = await net.end_of(trial_id)
        assert f"{net.endpoint}: {call}: UNKNOWN: Unexpected" in reason
        for name in ("a0", "a1"):
            (final,) = net.agents.of(trial_id, name, "end")
            assert not final.observations
        assert net.environment.of(trial_id, "end") == []


@on_loop
async def test_agent_that_raises_in_act_ends_the_trial() -> None:
    async with Net(agents=2) as net:
        act = net.agents.act

        async def fail(trial_id: str, name: str, observation: Any) -> AgentActionReply:
            if (name, observation.tick_id) == ("a1", 2):
                raise ValueError("broken")
            return await act(trial_id, name, observation)

        net.agents.act = fail  # type: ignore[method-assign]
        trial_id = await net.start()
        reason = await net.end_of(trial_id)
        assert f"actor 'a1' at {net.endpoint}: OnObservation: UNKNOWN" in reason
        for name in ("a0", "a1"):
            (final,) = net.agents.of(trial_id, name, "end")
            assert [each.tick_id for each in final.observations] == [3]
        assert len(net.environment.of(trial_id, "end")) == 1


@on_loop
async def test_rewards_and_messages_that_an_agent_refuses_are_only_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    net = Net(agents=1)
    net.agents.OnReward = _raise  # type: ignore[method-assign]
    async with net:
        trial_id = await net.start()
        assert await net.end_of(trial_id) == "environment: final update"
        assert len(net.agents.of(trial_id, "a0", "observation")) == 5
    assert "actor 'a0': OnReward: UNKNOWN" in caplog.text


@on_loop
async def test_agent_that_does_not_answer_a_reward_holds_its_trial_up_for_a_while(
    caplog: pytest.LogCaptureFixture,
) -> None:
    net = Net(agents=1, max_steps=1, settings=Settings(call_timeout=0.2))
    net.agents.OnReward = _hang  # type: ignore[method-assign]
    async with net:
        trial_id = await net.start()
        assert "max_steps: 1" in await net.end_of(trial_id)
        seen = net.agents.of(trial_id, "a0", "observation")
        assert [each.tick_id for each in seen] == [0, 1]
    assert "actor 'a0': OnReward: no answer within 0.2 s" in caplog.text


@pytest.mark.parametrize("who", ["environment", "agent"])
@on_loop
async def test_trial_without_a_listening_component_ends(who: str) -> None:
    nowhere = "grpc://127.0.0.1:1"
    if who == "environment":
        params: dict[str, Any] = {"environment": EnvironmentParams(endpoint=nowhere)}
    else:
        params = {"actors": [ActorParams(name="a0", endpoint=nowhere)]}
    async with Net(**params) as net:
        trial_id = await net.start()
        reason = await net.end_of(trial_id)
        assert f"{nowhere}: OnStart: UNAVAILABLE" in reason


@pytest.mark.parametrize("who", ["environment", "agent"])
@on_loop
async def test_start_that_takes_too_long_fails(who: str) -> None:
    net = Net(agents=1, settings=Settings(start_timeout=0.2))
    service: Any = net.environment if who == "environment" else net.agents
    service.OnStart = _hang
    async with net:
        trial_id = await net.start()
        reason = await net.end_of(trial_id)
        assert f"{net.endpoint}: OnStart: no answer within 0.2 s" in reason


@pytest.mark.parametrize("who", ["environment", "agent"])
@on_loop
async def test_session_that_starts_too_late_is_freed(who: str) -> None:
    net = Net(agents=1, settings=Settings(close_grace=30))
    service: Any = net.environment if who == "environment" else net.agents
    start, go = service.OnStart, asyncio.Event()

    async def late(request: Any, context: Any) -> Any:
        await go.wait()
        return await start(request, context)

    service.OnStart = late
    async with net:
        trial_id = await net.start()
        trial = net.orchestrator._orchestrator._trials.get(trial_id)
        trial.end("no patience", forced=True)
        trial.end("no patience", forced=True)
        await net.until(trial_id)
        go.set()
        for _ in range(200):
            calls = net.environment.calls[trial_id] if who == "environment" else None
            calls = calls or net.agents.calls[trial_id, "a0"]
            if "end" in [name for name, _ in calls]:
                break
            await asyncio.sleep(0.05)
        assert [name for name, _ in calls] == ["start", "end"]


@on_loop
async def test_agent_that_never_answers_its_end_does_not_hold_up_others() -> None:
    class Agents(AgentService):
        async def OnEnd(self, request: Any, context: Any) -> Any:  # noqa: N802
            if ("actor-name", "a0") in context.invocation_metadata():
                await _hang()
            return await super().OnEnd(request, context)

    net = Net(agents=2, settings=Settings(final_timeout=0.2))
    net.agents = Agents()
    async with net:
        trial_id = await net.start()
        await net.until(trial_id)
        assert len(net.agents.of(trial_id, "a1", "end")) == 1


@on_loop
async def test_stop_ends_trials_softly() -> None:
    async with Net(agents=1) as net:
        net.environment.length = 1_000_000
        trials = [await net.start() for _ in range(3)]
        for trial_id in trials:
            await net.until(trial_id, api.RUNNING)
        await net.orchestrator.stop(30)
        for trial_id in trials:
            (final,) = net.agents.of(trial_id, "a0", "end")
            assert [each.data.content for each in final.observations] == [b"o999.0"]


@on_loop
async def test_stop_does_not_wait_for_components_that_hang() -> None:
    async with _endless() as (net, trial_id):
        watch = net.lifecycle.WatchTrials(api.TrialListRequest())
        await watch.initial_metadata()
        await net.orchestrator.stop(0.2)
        assert len(net.agents.of(trial_id, "a0", "end")) == 1
        # A watcher gets the end before its watch is over.
        told = [(await watch.read()).state for _ in range(3)]
        assert told == [api.RUNNING, api.TERMINATING, api.ENDED]
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await watch.read()
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


@on_loop
async def test_component_that_starts_later_is_found() -> None:
    async with Net(agents=1) as net:
        await net.server.stop(0)
        first = await net.start()
        assert "UNAVAILABLE" in await net.end_of(first)
        port = int(net.endpoint.rpartition(":")[2])
        async with Net(port=port):
            for _ in range(100):
                reason = await net.end_of(await net.start())
                if "UNAVAILABLE" not in reason:
                    break
                await asyncio.sleep(0.2)
            assert reason == "environment: final update"
