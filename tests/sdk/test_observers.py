"""Observers beside players: they watch, reward and send messages, and nobody waits for them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

from cogrs import orchestrator, sdk
from cogrs.api.common_pb2 import RewardSource
from tests.orchestrator.net import on_loop
from tests.sdk.net import Counting, Echo, calls, kinds, named, rewards

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

gymnasium = pytest.importorskip("gymnasium")

ANY = sdk.Trial("t", (sdk.Actor("pole", "player"), sdk.Actor("ada", "person")))


class Watched(NamedTuple):
    """What tests talk to."""

    controller: sdk.TrialController
    where: str
    server: orchestrator.Server

    async def start(self) -> str:
        return (await self.controller.start_trial()).id


def cart_pole(**options: Any) -> Callable[[], sdk.GymnasiumEnvironment]:
    make = lambda: gymnasium.make("CartPole-v1", max_episode_steps=8)  # noqa: E731
    return sdk.GymnasiumEnvironment.factory(make, seed=0, **{"player": "pole", **options})


@asynccontextmanager
async def watched(
    environment: Any,
    heard: Any,
    *,
    observers: dict[str, Any] | None = None,
    watcher: Callable[[], sdk.Agent] | None = None,
    max_steps: int = 0,
    settings: orchestrator.Settings | None = None,
    hold: asyncio.Event | None = None,
) -> AsyncIterator[Watched]:
    """An agent "pole" that plays, and waits at tick 3 for `hold`; and "ada", who watches."""

    class Balance(Echo):
        async def act(self, observation: sdk.Observation) -> Any:
            super().act(observation)
            if observation.tick == 3 and hold is not None:
                await hold.wait()
            return sdk.Action(observation.tick % 2)

    agents = {"player": lambda: Balance(heard)}
    if watcher is not None:
        agents["watcher"] = watcher
    parts = {
        "env": sdk.local_environments({"": environment}),
        "agents": sdk.local_agents(agents),
    }
    ada = {"name": "ada", "actor_class": "person", "endpoint": "client"}
    if watcher is not None:
        ada |= {"endpoint": "local://agents", "implementation": "watcher"}
    pole = {"name": "pole", "actor_class": "player", "endpoint": "local://agents"}
    config = {
        "trial_params": {
            "environment": {"endpoint": "local://env"},
            "actors": [pole | {"implementation": "player"}, ada],
            "max_steps": max_steps,
        },
        "actor_options": [{"name": "ada", "observer": True, **(observers or {})}],
    }
    async with await orchestrator.serve(config, port=0, local=parts, settings=settings) as server:
        where = f"127.0.0.1:{server.port}"
        async with sdk.TrialController(where) as controller:
            yield Watched(controller, where, server)


@on_loop
async def test_observer_sends_rewards_and_messages_without_acting() -> None:
    heard = calls()
    received = asyncio.Event()

    async def judge(session: sdk.ActorSession) -> None:
        async for event in session:
            if isinstance(event, sdk.Observation) and event.tick == 1:
                await session.send_reward(sdk.Reward("pole", 3.0, tick=1))
                await session.send_message(sdk.Message("pole", RewardSource(value=7.0)))
                received.set()

    class Slow(sdk.GymnasiumEnvironment):
        async def step(self, actions: Any) -> Any:  # type: ignore[override]
            if self._tick == 2:
                await received.wait()
            return super().step(actions)

    def make() -> sdk.GymnasiumEnvironment:
        return Slow(lambda: gymnasium.make("CartPole-v1", max_episode_steps=8), 0, player="pole")

    async with watched(make, heard) as here, sdk.ClientActor(here.where) as client:
        trial = await here.start()
        final = await client.play(judge, trial, name="ada")
        end = await here.controller.wait_ended(trial)
        assert here.server.stats().dropped == {}
    assert end == sdk.TrialEnd("environment: final update")
    assert final is not None
    mine = heard[trial, "pole"]
    assert (1, 3.0) in rewards(mine)  # a reward of its own: the environment's was delivered before
    assert [reward for reward in rewards(mine) if reward[0] == 8] == [(8, 1.0)]
    (message,) = named(mine, "message")
    assert message.sender == "ada"


@on_loop
async def test_trial_goes_on_when_an_observing_client_never_answers() -> None:
    heard, seen = calls(), []

    async def watch(session: sdk.ActorSession) -> None:
        seen.extend([event async for event in session])

    async with watched(cart_pole(), heard) as here, sdk.ClientActor(here.where) as client:
        trial = await here.start()
        final = await client.play(watch, trial, name="ada")
    assert final is seen[-1]
    observed = [each for each in seen if isinstance(each, sdk.Observation)]
    assert [each.tick for each in observed] == list(range(8))
    for mine, theirs in zip(observed, named(heard[trial, "pole"], "act"), strict=True):
        np.testing.assert_array_equal(mine.value, theirs.value)
    assert not [each for each in seen if isinstance(each, sdk.ReceivedReward)]
    assert final.observation.truncated


@on_loop
async def test_silent_observing_client_stays_in_the_trial() -> None:
    class Slow(sdk.GymnasiumEnvironment):
        async def step(self, actions: Any) -> Any:  # type: ignore[override]
            if self._tick == 2:
                await asyncio.sleep(0.2)
            return super().step(actions)

    def make() -> sdk.GymnasiumEnvironment:
        return Slow(lambda: gymnasium.make("CartPole-v1", max_episode_steps=8), 0, player="pole")

    settings = orchestrator.Settings(heartbeat_timeout=0.05)
    async with (
        watched(make, calls(), settings=settings) as here,
        sdk.ClientActor(here.where, heartbeat=1000.0, reconnect=0.0) as client,
    ):
        trial = await here.start()
        async with await client.join(trial, name="ada") as session:
            events = [event async for event in session]
    assert isinstance(events[-1], sdk.Final)
    assert events[-1].reason == "environment: final update"


@on_loop
async def test_trial_ends_while_an_observing_agent_still_thinks() -> None:
    heard = calls()
    cancelled = asyncio.Event()

    class Thinks(sdk.Agent):
        async def act(self, observation: sdk.Observation) -> Any:
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

    async with watched(cart_pole(), heard, watcher=Thinks) as here:
        trial = await here.start()
        end = await here.controller.wait_ended(trial)
        await cancelled.wait()
    assert not end.failed
    assert kinds(heard[trial, "pole"]).count("act") == 8


@on_loop
async def test_observing_agent_answers_with_an_action_that_has_no_value() -> None:
    heard = calls()
    praised = asyncio.Event()

    class Praises(sdk.Agent):
        def act(self, observation: sdk.Observation) -> Any:
            return sdk.Action(messages=[sdk.Message("pole", RewardSource(value=observation.tick))])

        def end(self, final: sdk.Final) -> None:
            praised.set()

    async with watched(cart_pole(), heard, watcher=Praises) as here:
        trial = await here.start()
        end = await here.controller.wait_ended(trial)
        await praised.wait()
        assert here.server.stats().dropped == {}
    assert not end.failed
    told = [*named(heard[trial, "pole"], "message")]
    told += [each for final in named(heard[trial, "pole"], "end") for each in final.messages]
    assert {each.sender for each in told} == {"ada"}


@on_loop
async def test_trial_goes_on_when_an_observing_agent_fails() -> None:
    heard = calls()

    class Fails(sdk.Agent):
        def act(self, observation: sdk.Observation) -> Any:
            raise ArithmeticError("cannot judge this")

    async with watched(cart_pole(), heard, watcher=Fails) as here:
        trial = await here.start()
        end = await here.controller.wait_ended(trial)
    assert not end.failed
    assert kinds(heard[trial, "pole"]).count("act") == 8


@on_loop
async def test_required_observer_that_fails_ends_the_trial() -> None:
    class Fails(sdk.Agent):
        def act(self, observation: sdk.Observation) -> Any:
            raise ArithmeticError("cannot judge this")

    class Waits(Counting):
        observers = ("ada",)

        async def step(self, actions: Any) -> Any:
            await asyncio.Event().wait()

    options = {"optional": False}
    make = lambda: Waits(calls())  # noqa: E731
    async with watched(make, calls(), observers=options, watcher=Fails, max_steps=3) as here:
        trial = await here.start()
        # Its failure ends the trial, whose environment is still at its step.
        async for trial_id, state in here.controller.watch_trials([sdk.TrialState.TERMINATING]):
            assert (trial_id, state) == (trial, sdk.TrialState.TERMINATING)
            break


@on_loop
async def test_observer_that_comes_back_is_not_waited_for() -> None:
    heard, hold = calls(), asyncio.Event()
    async with (
        watched(cart_pole(), heard, hold=hold) as here,
        sdk.ClientActor(here.where) as client,
    ):
        trial = await here.start()
        async with await client.join(trial, name="ada") as session:
            await anext(session)
        async with await client.join(trial, name="ada") as session:
            event = await anext(session)
            hold.set()
            ticks = [each.tick async for each in session if isinstance(each, sdk.Observation)]
    assert isinstance(event, sdk.Observation)
    ticks.insert(0, event.tick)
    assert ticks == list(range(ticks[0], 8))
    assert kinds(heard[trial, "pole"]).count("act") == 8


@on_loop
async def test_trial_ends_when_only_observers_are_left() -> None:
    class Fails(sdk.Agent):
        def act(self, observation: sdk.Observation) -> Any:
            raise ArithmeticError("cannot play this")

    fails = {"": sdk.local_agents({"": Fails}), "env": sdk.local_environments({"": cart_pole()})}
    actors = [
        {"name": "pole", "actor_class": "player", "endpoint": "local://fails"},
        {"name": "ada", "actor_class": "person", "endpoint": "client"},
    ]
    config = {
        "trial_params": {"environment": {"endpoint": "local://env"}, "actors": actors},
        "actor_options": [
            {"name": "ada", "observer": True},
            {"name": "pole", "optional": True},
        ],
    }
    local = {"fails": fails[""], "env": fails["env"]}
    async with await orchestrator.serve(config, port=0, local=local) as server:
        where = f"127.0.0.1:{server.port}"
        async with sdk.TrialController(where) as controller, sdk.ClientActor(where) as client:
            trial = (await controller.start_trial()).id
            async with await client.join(trial, name="ada"):
                end = await controller.wait_ended(trial)
    assert end.failed
    assert end.reason.startswith("no actor is left")


@on_loop
async def test_function_environment_names_its_observers() -> None:
    heard, told = calls(), []

    async def countdown(session: sdk.EnvironmentSession) -> None:
        session.observers = ["person.*"]
        left = 3
        await session.update(sdk.Update([left]))
        async for event in session:
            if isinstance(event, sdk.Actions):
                told.append(dict(event.values))
                left -= 1
                await session.update(sdk.Update([left], final=left == 0))

    async with watched(countdown, heard) as here, sdk.ClientActor(here.where) as client:
        trial = await here.start()
        await client.play(lambda observation: sdk.Action(), trial, name="ada")
    assert [list(values) for values in told] == [["pole"]] * 3


@pytest.mark.parametrize(
    "options",
    [
        {"player": "pole"},
        {"player": "pole", "observers": ["ada"]},
        {"observers": ["ada"]},
        {"observers": ["person.*"]},
    ],
)
def test_player_and_observers_are_distinguished(options: dict[str, Any]) -> None:
    environment = sdk.GymnasiumEnvironment(lambda: gymnasium.make("CartPole-v1"), 0, **options)
    update = environment.start(ANY)
    assert list(environment.observers) == ["ada"]
    assert set(update.observations) == {"pole", "ada"}
    assert environment.step({"pole": np.int64(0)}).rewards == {"pole": 1.0}
    environment.lost()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "expected one player, got pole, ada"),
        ({"player": "bob"}, "expected the player 'bob', got only observers: pole, ada"),
        ({"player": "bob", "observers": ["ada"]}, "expected the player 'bob', got pole"),
        ({"observers": ["*"]}, "expected one player, got only observers: pole, ada"),
        ({"observers": ["bob"]}, "observers: expected actors of this trial, pole, ada; got 'bob'"),
    ],
)
def test_actors_that_are_not_one_player_and_observers_are_refused(
    options: dict[str, Any], said: str
) -> None:
    environment = sdk.GymnasiumEnvironment(lambda: gymnasium.make("CartPole-v1"), **options)
    with pytest.raises(ValueError, match=said):
        environment.start(ANY)


@pytest.mark.parametrize("kind", [sdk.GymnasiumEnvironment, sdk.PettingZooEnvironment])
def test_observers_that_are_one_string_are_refused(kind: Any) -> None:
    with pytest.raises(TypeError, match="observers: expected a sequence of names, got 'ada'"):
        kind(lambda: None, observers="ada")


@on_loop
async def test_action_of_a_player_without_a_value_is_refused_by_name() -> None:
    class Forgets(Counting):
        pass

    async with (
        await sdk.serve(
            environments={"": lambda: Forgets(calls())},
            agents={"": sdk.FunctionAgent(lambda observation: sdk.Action())},
        ) as endpoint,
        await orchestrator.serve(
            {
                "trial_params": {
                    "environment": {"endpoint": endpoint.address},
                    "actors": [{"name": "pole", "actor_class": "p", "endpoint": endpoint.address}],
                }
            },
            port=0,
        ) as server,
        sdk.TrialController(f"127.0.0.1:{server.port}") as controller,
    ):
        end = await controller.wait_ended((await controller.start_trial()).id)
    assert "action of 'pole': expected an array message, got no bytes" in end.reason


def test_pettingzoo_observers_get_the_observations_of_each_player() -> None:
    pettingzoo = pytest.importorskip("pettingzoo")

    class Coin(pettingzoo.ParallelEnv):  # type: ignore[misc]
        possible_agents = ("left", "right")
        metadata = {"name": "coin"}  # noqa: RUF012

        def observation_space(self, agent: str) -> Any:
            return gymnasium.spaces.Discrete(9)

        def action_space(self, agent: str) -> Any:
            return gymnasium.spaces.Discrete(2)

        def reset(self, seed: Any = None, options: Any = None) -> Any:
            self.agents = list(self.possible_agents)
            return {"left": 1, "right": 2}, {"left": {}, "right": {}}

        def step(self, actions: Any) -> Any:
            assert actions == {"left": 0, "right": 1}
            self.agents = []
            over = {"left": True, "right": True}
            return {"left": 3, "right": 4}, {"left": 1.0, "right": 0.0}, over, over, {}

        def close(self) -> None:
            pass

    environment = sdk.PettingZooEnvironment(Coin, observers=["person.*"])
    actors = (sdk.Actor("left", "p"), sdk.Actor("ada", "person"), sdk.Actor("right", "p"))
    first = environment.start(sdk.Trial("t", actors))
    assert first.observations == {"left": 1, "right": 2, "ada": {"left": 1, "right": 2}}
    last = environment.step({"left": np.int64(0), "right": np.int64(1)})
    assert last.observations["ada"] == {"left": 3, "right": 4}
    assert last.rewards == {"left": 1.0, "right": 0.0}
    assert last.final


@on_loop
async def test_session_of_a_client_takes_an_action_beside_more_rewards() -> None:
    told, heard = calls(), calls()

    async def play(session: sdk.ActorSession) -> None:
        async for event in session:
            if isinstance(event, sdk.Observation):
                action = sdk.Action([1, 2], rewards=[sdk.Reward("pole", 0.5)])
                await session.act(action, rewards=[sdk.Reward("pole", 1.5)])

    make = lambda: Counting(told)  # noqa: E731
    async with (
        watched(make, heard, observers={"observer": False}) as here,
        sdk.ClientActor(here.where) as client,
    ):
        trial = await here.start()
        await client.play(play, trial, name="ada")
    assert [step["ada"] for step in named(told[trial], "step")] == [[1, 2]] * 5
    # The mean of 0.5, 1.5 and the environment's 1.
    assert rewards(heard[trial, "pole"]) == [(tick, 1.0) for tick in range(1, 6)]
