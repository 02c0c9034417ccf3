"""The tick: observations out, actions in, one request to the environment."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from cogrs.api.common_pb2 import ObservationData
from cogrs.api.environment_pb2 import ObservationSet
from cogrs.orchestrator import ActorOptions
from cogrs.orchestrator.engine.state import State
from tests.orchestrator.world import WALL, World, observation_set


def observations_of(world: World, name: str = "a0") -> list[Any]:
    periods = world.agent(name).of("deliver")
    return [observation for period in periods for observation in period.observations]


def ticks(world: World, name: str = "a0") -> list[int]:
    return [observation.tick_id for observation in observations_of(world, name)]


def test_actions_go_out_together_in_the_order_of_the_actors() -> None:
    world = World(agents=5).run()
    for index in reversed(range(5)):
        assert "act" not in world.environment.names
        world.act(**{f"a{index}": b"action %d" % index})
    ((messages, request),) = world.environment.of("act")
    assert list(request.action_set.actions) == [b"action %d" % index for index in range(5)]
    assert not request.reply_with_snapshot
    assert messages == []


def test_each_reply_of_the_environment_makes_the_next_tick() -> None:
    world = World(agents=2).run()
    for number in range(1, 6):
        world.act()
        assert len(world.environment.of("act")) == number
        world.step(number)
    for name in ("a0", "a1"):
        assert ticks(world, name) == [0, 1, 2, 3, 4, 5]
    contents = [observation.data.content for observation in observations_of(world, "a1")]
    assert contents == [f"o{number}.1".encode() for number in range(6)]


def test_first_action_of_a_tick_wins() -> None:
    world = World(agents=2).run()
    world.act(a0=b"first")
    world.act(a0=b"second")
    world.act(a1=b"other")
    world.act(a1=b"too late")
    ((_, request),) = world.environment.of("act")
    assert list(request.action_set.actions) == [b"first", b"other"]
    assert world.trial.counts["extra actions"] == 2
    world.step(1)
    world.act(a0=b"third", a1=b"fourth")
    assert list(world.environment.of("act")[1][1].action_set.actions) == [b"third", b"fourth"]


def test_empty_action_is_an_action() -> None:
    world = World(agents=1).run()
    world.act(a0=b"")
    assert len(world.environment.of("act")) == 1


def test_observations_are_mapped_and_untouched() -> None:
    world = World(agents=3).run()
    world.act()
    sent = observation_set(
        3,
        1,
        observations=[
            ObservationData(content=b"full", snapshot=True),
            ObservationData(content=b"delta"),
        ],
        actors_map=[1, 0, 1],
    )
    world.step(1, observation_set=sent)
    got = [observations_of(world, f"a{index}")[1].data for index in range(3)]
    assert got == [sent.observations[index] for index in (1, 0, 1)]


def test_missing_timestamp_is_filled_in_and_a_given_one_stays() -> None:
    world = World().run()
    world.act()
    world.step(1, observation_set=world.observations(1, timestamp=5))
    assert [observation.timestamp for observation in observations_of(world)] == [WALL, 5]


@pytest.mark.parametrize("told", [[0, 0, 0], [1, 2, 3], [0, 2, 0]])
def test_ticks_of_the_environment_that_agree_are_accepted(told: list[int], caplog: Any) -> None:
    world = World().run()
    with caplog.at_level(logging.WARNING):
        for number, tick in enumerate(told, 1):
            world.act()
            world.step(number, observation_set=world.observations(number, tick_id=tick))
    assert ticks(world) == [0, 1, 2, 3]
    assert not caplog.records


def test_wrong_ticks_of_the_environment_are_logged_once_and_corrected(caplog: Any) -> None:
    world = World().run()
    for number in range(1, 4):
        world.act()
        world.step(number, observation_set=world.observations(number, tick_id=number + 10))
    assert ticks(world) == [0, 1, 2, 3]
    (record,) = caplog.records
    assert "expected tick 1, got 11" in record.getMessage()


def test_actors_that_delay_the_first_step_for_ten_seconds_are_named_in_the_log_once(
    caplog: Any,
) -> None:
    world = World(agents=3).run()
    world.act(a1=b"x")
    world.clock.advance(9.9)
    assert not caplog.records
    world.clock.advance(100.0)
    (record,) = caplog.records
    text = "waits for actions of ['a0', 'a2']: set the option `observer` of actors that only watch"
    assert text in record.getMessage()
    assert world.trial.state is State.RUNNING


@pytest.mark.parametrize("event", ["first step", "end of the trial"])
def test_actors_are_not_named_in_the_log_after_the(event: str, caplog: Any) -> None:
    world = World(agents=1).run()
    if event == "first step":
        world.act()
        world.step(1)
    else:
        world.orchestrator.terminate(world.trial.id)
    with caplog.at_level(logging.WARNING):
        caplog.clear()
        world.clock.advance(11.0)
    assert not any("waits for actions" in text for text in caplog.messages)


def test_trial_of_observers_only_names_no_actor_in_the_log(caplog: Any) -> None:
    world = World(agents=1, class_options={"agent": ActorOptions(observer=True)}).run()
    world.clock.advance(11.0)
    assert not caplog.records


def test_tick_that_is_repeated_is_accepted_only_at_the_end(caplog: Any) -> None:
    world = World().run()
    world.act()
    world.step(1)
    world.act()
    last = world.observations(2, tick_id=1)
    world.step(2, observation_set=last, final_update=True)
    assert not caplog.records
    (final,) = world.agent().of("end")
    assert [observation.tick_id for observation in final.observations] == [2]

    other = World().run()
    for number in (1, 2):
        other.act()
        other.step(number, observation_set=other.observations(number, tick_id=1))
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"actors_map": [0]}, "expected 2 entries, got 1"),
        ({"actors_map": [0, 1, 1]}, "expected 2 entries, got 3"),
        ({"actors_map": [0, 2]}, "indexes of 2 observations, got 2"),
        ({"actors_map": [-1, 0]}, "got -1"),
        (None, "no observation set, and no final update"),
    ],
)
def test_bad_observations_fail_the_trial_and_no_other(
    fields: dict[str, Any] | None, text: str
) -> None:
    world = World(agents=2).run()
    bad = world.trial
    other = world.start()
    world.run()
    world.trial = bad
    world.act()
    sets = {} if fields is None else {"observation_set": world.observations(1, **fields)}
    if fields is None:
        world.step(1, observation_set=None)
    else:
        world.step(1, **sets)
    assert bad.state is State.TERMINATING
    assert text in bad.end_reason
    assert "end" in world.environment.names
    world.drain()
    assert bad.state is State.ENDED
    assert other.state is State.RUNNING


def test_several_replies_to_one_request_each_make_a_tick() -> None:
    world = World(agents=2).run()
    world.act(a0=b"for 0", a1=b"for 0")
    world.step(1)
    world.act(a0=b"for 1")
    world.step(2)
    assert ticks(world) == [0, 1, 2]
    world.act(a1=b"for 2")
    assert len(world.environment.of("act")) == 1
    world.act(a0=b"for 2")
    _, request = world.environment.of("act")[1]
    assert list(request.action_set.actions) == [b"for 2", b"for 2"]


def test_action_counts_for_the_latest_observation() -> None:
    world = World(agents=2).run()
    world.act()
    world.step(1)
    world.act(a0=b"for 1")
    world.step(2)  # unasked: what a0 said is discarded, and a1 has not heard of it yet
    world.act(a1=b"for 1")
    assert world.trial.awaited() == ["agent"]
    world.act(a0=b"for 2")
    (_, request) = world.environment.of("act")[-1]
    assert list(request.action_set.actions) == [b"for 2", b"for 1"]
    world.act(a1=b"for 2")  # the environment has its turn
    world.step(3)
    world.act(a1=b"for 3")
    world.act(a0=b"for 3")
    (_, request) = world.environment.of("act")[-1]
    assert list(request.action_set.actions) == [b"for 3", b"for 3"]
    assert world.trial.counts == {"extra actions": 1}


def test_action_that_comes_after_two_ticks_counts_for_the_second() -> None:
    world = World(agents=1).run()
    world.step(1)
    world.step(2)
    world.act(a0=b"for 0")
    world.step(3)
    world.act(a0=b"for 1")
    sent = [list(request.action_set.actions) for _, request in world.environment.of("act")]
    assert sent == [[b"for 0"], [b"for 1"]]
    assert ticks(world) == [0, 1, 2, 3]


def test_replies_before_all_actors_joined_are_kept() -> None:
    world = World(agents=1, clients=1).run()
    world.step(1)
    world.step(2)
    assert "deliver" not in world.agent().names
    client = world.client()
    assert ticks(world) == [0, 1, 2]
    replies = client.read()
    assert [each.tick_id for reply in replies for each in reply.data.observations] == [0, 1, 2]


def test_trial_info_has_observations_only_on_request() -> None:
    world = World().run()
    world.act()
    world.step(1)
    (info,) = world.orchestrator.info(world.trial.id)
    assert not info.HasField("latest_observation")
    (info,) = world.orchestrator.info(world.trial.id, observation=True)
    expected = world.observations(1, tick_id=1, timestamp=WALL)
    assert info.latest_observation == expected
    assert isinstance(info.latest_observation, ObservationSet)


def test_action_before_the_first_observation_is_dropped() -> None:
    world = World(agents=2)
    world.agent("a0").events.started()
    world.act(a0=b"early")
    world.run()
    world.act(a1=b"x")
    assert "act" not in world.environment.names
    assert world.trial.counts["extra actions"] == 1
