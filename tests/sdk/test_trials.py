"""Trials from start to end: who is told what, and in which order."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import numpy as np
import pytest

from cogrs import sdk
from cogrs.api.any import unpack
from cogrs.api.common_pb2 import ActorParams, TrialActor
from tests.orchestrator.net import on_loop
from tests.sdk.net import LOST, Counting, Echo, calls, kinds, named, rewards, until, world


def slow(base: type[Any]) -> type[Any]:
    """The same class with methods that are async, and do give up control."""

    def later(name: str) -> Any:
        async def method(self: Any, *args: Any) -> Any:
            await asyncio.sleep(0)
            return getattr(super(made, self), name)(*args)

        return method

    methods = ("start", "step", "act", "reward", "message", "end", "lost")
    names = [name for name in methods if hasattr(base, name)]
    made = type(f"Slow{base.__name__}", (base,), {name: later(name) for name in names})
    return made


@pytest.mark.parametrize("environment", [Counting, slow(Counting)])
@pytest.mark.parametrize("agent", [Echo, slow(Echo)])
@on_loop
async def test_trial_runs_from_start_to_end(environment: type[Counting], agent: type[Echo]) -> None:
    told, heard = calls(), calls()
    async with world(lambda: environment(told), lambda: agent(heard), actors=("a0", "a1")) as net:
        trial_id = await net.play()
        assert net.reason(trial_id) == "environment: final update"
    trial = told[trial_id][0][1]
    assert trial == sdk.Trial(
        trial_id, (sdk.Actor("a0", "player"), sdk.Actor("a1", "player")), "env", "", None
    )
    assert told[trial_id][1:] == [("step", {"a0": [tick, 0], "a1": [tick, 1]}) for tick in range(5)]
    for index, name in enumerate(("a0", "a1")):
        mine = heard[trial_id, name]
        assert kinds(mine) == ["start", "act", *["reward", "act"] * 4, "end"]
        assert named(mine, "start")[0].actor == sdk.Actor(name, "player")
        seen = named(mine, "act")
        assert [each.tick for each in seen] == [0, 1, 2, 3, 4]
        assert [each.value.tolist() for each in seen] == [[tick, index] for tick in range(5)]
        assert all(each.snapshot and each.timestamp > 0 for each in seen)
        assert not any(each.terminated or each.truncated for each in seen)
        assert rewards(mine) == [(tick, 1.0) for tick in range(1, 6)]
        (final,) = named(mine, "end")
        assert final.observation.tick == 5
        assert final.observation.value.tolist() == [5, index]
        assert final.observation.terminated
        assert not final.observation.truncated


@pytest.mark.parametrize("configs", [None, (b"", b""), (b"walls", b"wits")])
@on_loop
async def test_empty_configs_reach_their_components(configs: Any) -> None:
    told, heard = calls(), calls()
    async with world(lambda: Counting(told), lambda: Echo(heard), configs=configs) as net:
        trial_id = await net.play()
    got = (told[trial_id][0][1].config, heard[trial_id, "a0"][0][1].config)
    assert got == (configs or (None, None))


@on_loop
async def test_implementations_are_chosen_by_name() -> None:
    told, heard, other_heard = calls(), calls(), calls()

    class Short(Counting):
        length = 1

    async with world(
        {"long": lambda: Counting(told), "short": lambda: Short(told)},
        {"first": lambda: Echo(heard), "other": lambda: Echo(other_heard)},
        actors=("a0", "a1::other", "a2::first"),
        implementation="short",
    ) as net:
        trial_id = await net.play()
    assert len(named(told[trial_id], "step")) == 1
    assert told[trial_id][0][1].implementation == "short"
    assert set(heard) == {(trial_id, "a0"), (trial_id, "a2")}
    assert set(other_heard) == {(trial_id, "a1")}


@pytest.mark.parametrize("actors", [("a0::nobody",), ("a0",)])
@on_loop
async def test_unknown_implementations_are_named(actors: tuple[str, ...]) -> None:
    told, heard = calls(), calls()
    environment = "" if actors[0].endswith("nobody") else "nobody"
    async with world(
        {"env": lambda: Counting(told), "e2": lambda: Counting(told)},
        {"agent": lambda: Echo(heard)},
        actors=actors,
        implementation=environment,
    ) as net:
        reason = net.reason(await net.play())
    known = "'env', 'e2'" if environment else "'agent'"
    assert f"implementation: expected one of {known}; got 'nobody'" in reason


@pytest.mark.parametrize("steps", [1, 2, 10])
@on_loop
async def test_max_steps_is_exact(steps: int) -> None:
    class Endless(Counting):
        length = -1

    told, heard = calls(), calls()
    async with world(lambda: Endless(told), lambda: Echo(heard), max_steps=steps) as net:
        trial_id = await net.play()
    assert kinds(told[trial_id]) == ["start", *["step"] * steps, "end"]
    assert told[trial_id][-1] == ("end", {"a0": [steps, 0]})
    (final,) = named(heard[trial_id, "a0"], "end")
    assert final.observation.tick == steps + 1
    assert rewards(heard[trial_id, "a0"]) == [(tick, 1.0) for tick in range(1, steps + 1)]


@on_loop
async def test_actor_without_an_answer_at_the_end_is_left_out_of_the_actions() -> None:
    thinks = asyncio.Event()
    cancelled = []

    class Thinker(Echo):
        async def act(self, observation: sdk.Observation) -> Any:
            if self.trial.name == "a0" or observation.tick < 2:
                return super().act(observation)
            thinks.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(self.trial.name)
                raise

    told, heard = calls(), calls()
    async with world(lambda: Counting(told), lambda: Thinker(heard), actors=("a0", "a1")) as net:
        trial = await net.controller.start_trial()
        await thinks.wait()
        await until(lambda: not net.owes(trial.id, "a0"))
        await net.controller.terminate_trial(trial.id)
        await net.controller.wait_ended(trial.id)
        assert net.reason(trial.id) == "TerminateTrial was called"
    assert cancelled == ["a1"]
    assert told[trial.id][-1] == ("end", {"a0": [2, 0]})
    for name in ("a0", "a1"):
        (final,) = named(heard[trial.id, name], "end")
        assert final.observation.tick == 3
        assert LOST not in heard[trial.id, name]


@on_loop
async def test_end_waits_for_the_step_that_is_under_way() -> None:
    steps, go = asyncio.Event(), asyncio.Event()

    class Slow(Counting):
        async def step(self, actions: Any) -> Any:
            steps.set()
            await go.wait()
            return super().step(actions)

    told, heard = calls(), calls()
    async with world(lambda: Slow(told), lambda: Echo(heard)) as net:
        trial = await net.controller.start_trial()
        await steps.wait()
        await net.controller.terminate_trial(trial.id)
        assert await net.controller.trial_state(trial.id) is sdk.TrialState.TERMINATING
        go.set()
        await net.controller.wait_ended(trial.id)
    assert kinds(told[trial.id]) == ["start", "step", "end"]


@on_loop
async def test_environment_may_end_without_observations() -> None:
    class Silent(Counting):
        length = -1

        def end(self, actions: Any) -> None:
            return sdk.Environment.end(self, actions)

    told, heard = calls(), calls()
    async with world(lambda: Silent(told), lambda: Echo(heard), max_steps=2) as net:
        trial_id = await net.play()
        assert "max_steps" in net.reason(trial_id)
    (final,) = named(heard[trial_id, "a0"], "end")
    assert final.observation is None


@on_loop
async def test_rewards_of_zero_are_delivered() -> None:
    class Zero(Counting):
        def step(self, actions: Any) -> Any:
            update = super().step(actions)
            update.rewards = {"a0": 0.0}
            return update

    told, heard = calls(), calls()
    async with world(lambda: Zero(told), lambda: Echo(heard)) as net:
        trial_id = await net.play()
    assert rewards(heard[trial_id, "a0"]) == [(tick, 0.0) for tick in range(1, 6)]


@on_loop
async def test_rewards_of_actors_are_merged_with_environment_rewards_and_may_be_late() -> None:
    class Critic(Echo):
        def act(self, observation: sdk.Observation) -> Any:
            value = super().act(observation)
            if self.trial.name != "critic":
                return value
            given = [sdk.Reward("player.*", 4.0, confidence=3.0)]
            if observation.tick == 3:
                given.append(sdk.Reward("a0", -2.0, tick=1, user_data=TrialActor(name="oops")))
            return sdk.Action(value, given)

    told, heard = calls(), calls()
    actors = ("a0", "a1", "critic:judge")
    async with world(lambda: Counting(told), lambda: Critic(heard), actors=actors) as net:
        trial_id = await net.play()
    # (1 * 1 + 3 * 4) / (1 + 3), with the observation that answers the critic's action.
    usual = [(tick, 3.25) for tick in range(1, 6)]
    assert rewards(heard[trial_id, "a1"]) == usual
    assert rewards(heard[trial_id, "a0"]) == [*usual[:3], (1, -2.0), *usual[3:]]
    late = next(each for each in named(heard[trial_id, "a0"], "reward") if each.value == -2.0)
    (source,) = late.sources
    assert source.sender_name == "critic"
    data = TrialActor()
    assert unpack(source.user_data, data)
    assert data.name == "oops"
    assert sdk.step_of_reward(late.tick) == 0
    both = named(heard[trial_id, "a0"], "reward")[0].sources
    assert sorted(each.sender_name for each in both) == ["critic", "env"]


@on_loop
async def test_messages_go_both_ways_before_observation_and_action() -> None:
    def text(message: sdk.ReceivedMessage) -> tuple[str, str, int]:
        data = TrialActor()
        assert unpack(message.payload, data)
        return message.sender, data.name, message.tick

    class Talking(Counting):
        def step(self, actions: Any) -> Any:
            update = super().step(actions)
            update.messages = [sdk.Message("*", TrialActor(name=f"after {self.tick}"))]
            return update

    class Talker(Echo):
        def act(self, observation: sdk.Observation) -> Any:
            value = super().act(observation)
            if self.trial.name == "a1":
                return value
            said = TrialActor(name=f"at {observation.tick}")
            to = (sdk.ENVIRONMENT, "a1", "a0")
            return sdk.Action(value, messages=[sdk.Message(name, said) for name in to])

    told, heard = calls(), calls()
    async with world(lambda: Talking(told), lambda: Talker(heard), actors=("a0", "a1")) as net:
        trial_id = await net.play()
    assert kinds(told[trial_id]) == ["start", *["message", "step"] * 5]
    assert [text(each) for each in named(told[trial_id], "message")] == [
        ("a0", f"at {tick}", tick) for tick in range(5)
    ]
    for name in ("a0", "a1"):
        mine = heard[trial_id, name]
        assert kinds(mine) == [
            "start",
            "act",
            *["reward", "message", "message", "act"] * 4,
            "end",
        ]
        (final,) = named(mine, "end")
        got = Counter(text(each) for each in (*named(mine, "message"), *final.messages))
        assert got == Counter(
            [("a0", f"at {tick}", tick + 1) for tick in range(5)]
            + [("env", f"after {tick}", tick) for tick in range(1, 6)]
        )


@on_loop
async def test_observations_and_actions_may_be_messages_of_the_user() -> None:
    class Walls(sdk.Environment):
        def start(self, trial: sdk.Trial) -> sdk.Update:
            self.actions: list[Any] = []
            return sdk.Update(ActorParams(name="start"))

        def step(self, actions: Any) -> sdk.Update:
            seen.append(actions)
            return sdk.Update(ActorParams(name=actions["a0"].name), final=len(seen) == 3)

    def act(observation: sdk.Observation) -> TrialActor:
        return TrialActor(name=f"{observation.value.name}.{observation.tick}")

    seen: list[Any] = []
    codec = sdk.Codecs(sdk.MessageCodec(ActorParams), sdk.MessageCodec(TrialActor))
    async with world(Walls, lambda: sdk.FunctionAgent(act), codec=codec) as net:
        await net.play()
    assert [each["a0"] for each in seen] == [
        TrialActor(name="start.0"),
        TrialActor(name="start.0.1"),
        TrialActor(name="start.0.1.2"),
    ]


@on_loop
async def test_actor_classes_have_their_own_observations_and_actions() -> None:
    class Mixed(sdk.Environment):
        def start(self, trial: sdk.Trial) -> sdk.Update:
            return sdk.Update({"a0": np.float32([1, 2]), "p0": b"look"})

        def step(self, actions: Any) -> sdk.Update:
            seen.append(actions)
            return sdk.Update({"a0": np.float32([3, 4]), "p0": b"end"}, final=True)

    async def act(observation: sdk.Observation) -> Any:
        return observation.value

    seen: list[Any] = []
    codec = {
        "player": sdk.Codecs(sdk.ArrayCodec(), sdk.ArrayCodec()),
        "person": sdk.Codecs(sdk.BytesCodec(), sdk.BytesCodec()),
    }
    agent = {"agent": lambda: sdk.FunctionAgent(act)}
    async with world(Mixed, agent, actors=("a0", "p0:person"), codec=codec) as net:
        await net.play()
    (actions,) = seen
    assert actions["p0"] == b"look"
    assert actions["a0"].dtype == np.float32
    assert actions["a0"].tolist() == [1.0, 2.0]


@on_loop
async def test_many_trials_at_once_do_not_mix() -> None:
    class Marked(Counting):
        def start(self, trial: sdk.Trial) -> Any:
            self.mark = int(trial.id[:8], 16)
            return super().start(trial)

        def update(self) -> sdk.Update:
            names = self.trial.actor_names
            return sdk.Update({name: [self.mark, self.tick] for name in names})

    told, heard = calls(), calls()
    async with world(
        lambda: slow(Marked)(told), lambda: slow(Echo)(heard), actors=("a0", "a1")
    ) as net:
        trials = await asyncio.gather(*(net.controller.start_trial() for _ in range(50)))
        await asyncio.gather(*(net.controller.wait_ended(trial.id) for trial in trials))
    assert len(told) == 50
    assert len(heard) == 100
    for trial in trials:
        mark = int(trial.id[:8], 16)
        assert told[trial.id][1:] == [
            ("step", {"a0": [mark, tick], "a1": [mark, tick]}) for tick in range(5)
        ]
        for name in ("a0", "a1"):
            mine = heard[trial.id, name]
            assert [each.value.tolist() for each in named(mine, "act")] == [
                [mark, tick] for tick in range(5)
            ]
            assert rewards(mine) == [(tick, 1.0) for tick in range(1, 6)]


@on_loop
async def test_observation_of_all_actors_is_sent_once() -> None:
    class Same(Counting):
        def update(self) -> sdk.Update:
            return sdk.Update(np.arange(3) + self.tick)

    told, heard = calls(), calls()
    async with world(lambda: Same(told), lambda: Echo(heard), actors=("a0", "a1")) as net:
        trial_id = await net.play()
        latest = net.orchestrator._orchestrator._trials.get(trial_id).latest
        assert latest is not None
        assert len(latest.observations) == 1
        assert list(latest.actors_map) == [0, 0]
    for name in ("a0", "a1"):
        assert named(heard[trial_id, name], "act")[4].value.tolist() == [4, 5, 6]
