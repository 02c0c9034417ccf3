"""What a data log is told."""

from __future__ import annotations

from typing import Any

import pytest

from cogrs.api.environment_pb2 import EnvActionReply, EnvStartReply
from tests.orchestrator.world import World, message, reward, texts, values


def samples(world: World) -> list[Any]:
    return world.log.of("sample")


def ticks(world: World) -> list[int]:
    return [sample.observations.tick_id for sample in samples(world)]


def test_log_gets_parameters_first_as_soon_as_the_trial_runs() -> None:
    world = World(log=True, max_steps=9)
    assert world.log.calls == []
    world.run()
    assert world.log.names == ["params"]
    assert world.log.of("params") == [(world.trial.params, "")]


def test_log_gets_the_spaces_of_the_environment_with_the_parameters() -> None:
    world = World(log=True)
    told = EnvStartReply(observation_set=world.observations(0), spaces="its spaces")
    world.environment.events.started(told)
    for agent in world.agents:
        agent.events.started()
    assert world.log.of("params") == [(world.trial.params, "its spaces")]


def test_log_gets_one_sample_more_than_there_are_replies() -> None:
    world = World(agents=2, log=True).run()
    for number in range(1, 4):
        world.act(a0=b"a%d" % number, a1=b"b%d" % number)
        assert len(samples(world)) == number - 1
        final = number == 3
        rewards = [reward("a0", number), reward("a1", 0)]
        world.step(number, rewards=rewards, final_update=final)
    assert ticks(world) == [0, 1, 2, 3]
    assert world.log.names[-1] == "close"
    got = samples(world)
    assert [[action.content for action in sample.actions] for sample in got] == [
        [b"a1", b"b1"],
        [b"a2", b"b2"],
        [b"a3", b"b3"],
        [b"", b""],
    ]
    assert [values(sample.rewards) for sample in got] == [
        [],
        *([(number, number), (number, 0)] for number in range(1, 4)),
    ]
    assert [sample.user_id for sample in got] == ["user"] * 4
    assert [sample.end_reason for sample in got] == ["", "", "", "environment: final update"]
    assert got[2].observations == world.observations(2, tick_id=2, timestamp=_time(got[2]))


def _time(sample: Any) -> int:
    assert sample.observations.timestamp
    return int(sample.observations.timestamp)


def test_sample_has_the_messages_that_are_delivered_with_its_tick() -> None:
    world = World(log=True).run()
    sent = [message("a0", "note"), message("env", "question")]
    world.orchestrator.send(world.trial.id, "a0", messages=sent)
    world.act()
    world.step(1, messages=[message("a0", "answer")])
    world.act()
    world.step(2, final_update=True)
    assert [texts(sample.messages) for sample in samples(world)] == [
        [(0, "a0", "question")],
        [(1, "a0", "note"), (1, "env", "answer")],
        [],
    ]


def test_last_sample_comes_after_a_requested_end_too() -> None:
    world = World(log=True).run()
    world.orchestrator.terminate(world.trial.id)
    world.environment.events.ended(EnvActionReply(observation_set=world.observations(1)))
    assert ticks(world) == [0, 1]
    assert samples(world)[1].end_reason == "TerminateTrial was called"


def test_last_sample_after_a_lost_environment_has_the_remaining_data() -> None:
    world = World(log=True).run()
    world.act()
    world.orchestrator.send(world.trial.id, "a0", rewards=[reward("a0", 3)])
    world.environment.events.failed("OnAction", "gone")
    (sample,) = samples(world)
    assert sample.observations.tick_id == 0
    assert [action.content for action in sample.actions] == [b""]
    assert values(sample.rewards) == [(1, 3)]
    assert "gone" in sample.end_reason


def test_last_reply_without_observations_has_a_sample() -> None:
    world = World(log=True).run()
    world.act()
    world.environment.events.replied(EnvActionReply(final_update=True, rewards=[reward("a0", 3)]))
    first, last = samples(world)
    assert first.observations.tick_id == 0
    assert not last.HasField("observations")
    assert values(last.rewards) == [(1, 3)]


def test_tick_without_answers_has_empty_actions() -> None:
    world = World(agents=2, log=True).run()
    world.step(1)
    (sample,) = samples(world)
    assert [action.content for action in sample.actions] == [b"", b""]


@pytest.mark.parametrize("name", ["user_id", "observations", "actions", "rewards", "messages"])
def test_excluded_fields_are_left_out_of_samples(name: str) -> None:
    world = World(log=True, exclude=[name]).run()
    world.act()
    world.step(1, rewards=[reward("a0", 1)], messages=[message("a0", "x")])
    world.act()
    world.step(2)
    fields = {field.name for field, _ in samples(world)[1].ListFields()}
    assert fields == {"user_id", "observations", "actions", "rewards", "messages"} - {name}


def test_trial_that_never_ran_has_no_samples() -> None:
    world = World(log=True)
    world.environment.events.failed("OnStart", "x")
    assert world.log.names == ["close"]
