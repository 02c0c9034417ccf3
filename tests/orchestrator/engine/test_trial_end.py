"""How trials end, and that all of them do."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from cogrs.api.environment_pb2 import EnvActionReply, EnvStartReply
from cogrs.orchestrator.engine.errors import NotFoundError
from cogrs.orchestrator.engine.settings import Settings
from cogrs.orchestrator.engine.state import State
from tests.orchestrator.world import World, message, reward, texts, values

ENDING = [State.TERMINATING, State.ENDED]


def final_of(world: World, name: str = "a0") -> Any:
    (final,) = world.agent(name).of("end")
    return final


def contents(period: Any) -> list[bytes]:
    return [observation.data.content for observation in period.observations]


def test_environment_ends_a_trial() -> None:
    world = World(agents=2).run()
    world.act()
    world.step(1, final_update=True, rewards=[reward("a0", 3)], messages=[message("a1", "bye")])
    assert world.trial.state is State.TERMINATING
    assert contents(final_of(world, "a0")) == [b"o1.0"]
    assert values(final_of(world, "a0").rewards) == [(1, 3)]
    assert texts(final_of(world, "a1").messages) == [(1, "env", "bye")]
    assert "end" not in world.environment.names
    assert world.environment.of("close") == [5.0]
    world.agent("a0").events.ended()
    assert world.trial.state is State.TERMINATING
    world.agent("a1").events.ended()
    assert world.seen()[3:] == ENDING
    assert world.trial.end_reason == "environment: final update"


def test_final_reply_needs_no_observations(caplog: Any) -> None:
    world = World().run()
    world.act()
    world.environment.events.replied(EnvActionReply(final_update=True, rewards=[reward("a0", 3)]))
    final = final_of(world)
    assert not final.observations
    assert values(final.rewards) == [(1, 3)]
    assert not caplog.records


def test_environment_that_ends_unasked_is_not_asked_either() -> None:
    world = World(agents=2).run()
    world.act(a0=b"x")
    world.step(1, final_update=True)
    assert "end" not in world.environment.names
    assert contents(final_of(world)) == [b"o1.0"]


def test_environment_may_end_before_all_have_joined() -> None:
    world = World(agents=1, clients=1).run()
    world.step(1, rewards=[reward("a0", 1)])
    world.step(2, rewards=[reward("a0", 3)], final_update=True)
    assert len(final_of(world).rewards[0].sources) == 2
    assert contents(final_of(world)) == [b"o2.0"]
    assert "end" not in world.environment.names


@pytest.mark.parametrize("how", ["final update", "OnEnd"])
def test_bad_last_observations_are_left_out(how: str, caplog: Any) -> None:
    world = World(agents=2).run()
    bad = world.observations(1, actors_map=[0, 2])
    if how == "OnEnd":
        world.orchestrator.terminate(world.trial.id)
        reply = EnvActionReply(observation_set=bad, rewards=[reward("a1", 3)])
        world.environment.events.ended(reply)
    else:
        world.act()
        world.step(1, observation_set=bad, rewards=[reward("a1", 3)], final_update=True)
    assert "indexes of 2 observations, got 2" in caplog.text
    for name, expected in (("a0", []), ("a1", [(1, 3)])):
        assert not final_of(world, name).observations
        assert values(final_of(world, name).rewards) == expected
    world.drain()
    assert world.trial.state is State.ENDED


def test_terminate_asks_the_environment_at_once_without_pending_actions() -> None:
    world = World(agents=2).run()
    world.act(a1=b"mine")
    world.orchestrator.terminate(world.trial.id)
    assert world.trial.state is State.TERMINATING
    ((_, request),) = world.environment.of("end")
    assert list(request.action_set.actions) == [b"", b"mine"]
    assert "act" not in world.environment.names
    world.environment.events.ended(
        EnvActionReply(observation_set=world.observations(1), rewards=[reward("a0", 2)])
    )
    assert contents(final_of(world, "a0")) == [b"o1.0"]
    assert values(final_of(world, "a0").rewards) == [(1, 2)]
    world.drain()
    assert world.seen()[3:] == ENDING


def test_terminate_waits_for_a_pending_action_and_forwards_the_action() -> None:
    world = World(agents=1).run()
    world.act()
    world.orchestrator.terminate(world.trial.id)
    assert "end" not in world.environment.names
    world.step(1, rewards=[reward("a0", 1)])
    assert contents(world.agent().of("deliver")[1]) == [b"o1.0"]
    assert list(world.environment.of("end")[0][1].action_set.actions) == [b""]
    world.environment.events.ended(EnvActionReply(observation_set=world.observations(2)))
    assert contents(final_of(world)) == [b"o2.0"]
    assert final_of(world).observations[0].tick_id == 2
    assert world.agent().names == ["start", "deliver", "deliver", "end"]


def test_answer_that_is_due_may_be_the_environments_own_end() -> None:
    world = World().run()
    world.act()
    world.orchestrator.terminate(world.trial.id)
    world.step(1, final_update=True)
    assert contents(final_of(world)) == [b"o1.0"]
    assert "end" not in world.environment.names


def test_replies_that_cross_the_request_to_end_are_not_lost() -> None:
    world = World().run()
    world.orchestrator.terminate(world.trial.id)
    world.step(1, rewards=[reward("a0", 1)], messages=[message("a0", "crossed")])
    assert len(world.agent().of("deliver")) == 1
    world.environment.events.ended(EnvActionReply(observation_set=world.observations(2)))
    assert contents(final_of(world)) == [b"o2.0"]
    assert values(final_of(world).rewards) == [(1, 1)]
    assert texts(final_of(world).messages) == [(1, "env", "crossed")]


def test_final_update_that_crosses_the_request_to_end_counts() -> None:
    world = World().run()
    world.orchestrator.terminate(world.trial.id)
    world.step(1, final_update=True)
    # Its session is gone, so OnEnd finds nothing.
    world.environment.events.failed("OnEnd", "UNKNOWN: no such trial")
    assert contents(final_of(world)) == [b"o1.0"]
    world.drain()
    assert world.trial.state is State.ENDED
    assert world.trial.end_reason == "TerminateTrial was called"


def test_terminate_again_changes_nothing_and_an_unknown_trial_is_not_found() -> None:
    world = World().run()
    for _ in range(2):
        world.orchestrator.terminate(world.trial.id)
    assert len(world.environment.of("end")) == 1
    world.drain()
    world.orchestrator.terminate(world.trial.id)
    assert world.seen()[3:] == ENDING
    with pytest.raises(NotFoundError, match="'x'"):
        world.orchestrator.terminate("x")


@pytest.mark.parametrize("steps", [1, 2, 10])
def test_max_steps_limits_the_requests_to_the_environment(steps: int) -> None:
    world = World(agents=2, max_steps=steps).run()
    for number in range(1, steps + 1):
        world.act(a0=b"%d" % number, a1=b"x")
        assert len(world.environment.of("act")) == number
        world.step(number)
        assert world.trial.state is State.RUNNING
    world.act(a0=b"last", a1=b"too")
    assert len(world.environment.of("act")) == steps
    ((_, request),) = world.environment.of("end")
    assert list(request.action_set.actions) == [b"last", b"too"]
    assert world.trial.state is State.TERMINATING
    assert f"max_steps: {steps}" in world.trial.end_reason


def test_stalled_environment_is_abandoned_after_end_timeout() -> None:
    world = World(settings=Settings(end_timeout=60)).run()
    world.orchestrator.send(world.trial.id, "a0", rewards=[reward("a0", 4)])
    world.orchestrator.terminate(world.trial.id)
    world.clock.advance(59)
    assert "end" not in world.agent().names
    world.clock.advance(1)
    final = final_of(world)
    assert not final.observations
    assert values(final.rewards) == [(1, 4)]
    world.environment.events.ended(EnvActionReply(observation_set=world.observations(1)))
    world.drain()
    assert world.trial.state is State.ENDED
    assert len(world.agent().of("end")) == 1


def test_environment_without_replies_to_actions_is_abandoned() -> None:
    world = World().run()
    world.act()
    world.orchestrator.terminate(world.trial.id)
    world.clock.advance(60)
    ((_, request),) = world.environment.of("end")
    assert list(request.action_set.actions) == [b""]
    assert not final_of(world).observations
    assert world.environment.names[-1] == "close"


def test_agents_have_final_timeout_to_take_the_final_data(caplog: Any) -> None:
    world = World(agents=2, settings=Settings(final_timeout=10)).run()
    world.act()
    world.step(1, final_update=True)
    world.agent("a0").events.ended()
    world.clock.advance(9)
    assert world.trial.state is State.TERMINATING
    world.clock.advance(1)
    assert world.trial.state is State.ENDED
    assert "['a1']" in caplog.text
    assert world.agent("a1").of("close") == [0.0]
    assert world.agent("a0").of("close") == [5.0]


@pytest.mark.parametrize("phase", ["actors", "environment", "ending"])
def test_lost_environment_gets_no_further_request(phase: str) -> None:
    world = World().run()
    if phase == "environment":
        world.act()
    if phase == "ending":
        world.orchestrator.terminate(world.trial.id)
        # While OnEnd is under way the stream may end as it likes.
        world.environment.events.failed("OnAction", "UNAVAILABLE: gone")
        assert "end" not in world.agent().names
        world.environment.events.failed("OnEnd", "UNAVAILABLE: gone")
    else:
        world.environment.events.failed("OnAction", "UNAVAILABLE: gone")
        assert "grpc://environment:1: OnAction: UNAVAILABLE: gone" in world.trial.end_reason
    assert not final_of(world).observations
    assert world.environment.names.count("end") == (phase == "ending")
    world.drain()
    assert world.seen()[3:] == ENDING


def test_agent_that_is_lost_ends_the_trial_softly() -> None:
    world = World(agents=2).run()
    world.act(a1=b"x")
    world.agent("a0").events.failed("OnObservation", "UNAVAILABLE: gone")
    assert world.trial.end_reason == (
        "actor 'a0' at grpc://agents:1: OnObservation: UNAVAILABLE: gone"
    )
    world.environment.events.ended(EnvActionReply(observation_set=world.observations(1)))
    # Nothing else frees its session, so it is told as well.
    assert contents(final_of(world, "a0")) == [b"o1.0"]
    assert contents(final_of(world, "a1")) == [b"o1.1"]


def test_failure_is_the_end_of_its_own_trial_only() -> None:
    world = World().run()
    first = world.trial
    second = world.start()
    world.run()
    world.links.environments[first.id].events.failed("OnAction", "x")
    world.links.agents[first.id, "a0"].events.ended()
    assert (first.state, second.state) == (State.ENDED, State.RUNNING)
    world.act()
    world.step(1)
    assert len(world.agent().of("deliver")) == 2


def test_internal_error_ends_the_trial_at_once() -> None:
    world = World().run()
    world.agent().events.crashed("KeyError: 'x'")
    assert "internal error" in world.trial.end_reason
    assert world.environment.names[-2:] == ["end", "close"]
    world.drain()
    assert world.trial.state is State.ENDED


def test_internal_error_in_a_timer_ends_the_trial_too(caplog: Any) -> None:
    world = World(agents=1, clients=1)
    client = world.client()
    world.run()
    client.actor._lose_stream = None  # type: ignore[assignment,method-assign]
    world.clock.advance(30)
    assert "internal error: TypeError" in world.trial.end_reason
    assert "a timer failed" in caplog.text
    world.drain()
    world.clock.advance(10)
    assert world.trial.state is State.ENDED


# --- inactivity ------------------------------------------------------------------------------


def test_inactivity_ends_a_running_trial_softly() -> None:
    world = World(max_inactivity=5).run()
    world.clock.advance(4.9)
    world.act()
    world.clock.advance(4.9)
    world.step(1)
    world.clock.advance(4.9)
    assert world.trial.state is State.RUNNING
    world.clock.advance(0.2)
    assert world.trial.end_reason == "max_inactivity: nothing was received for 5 s"
    assert "end" in world.environment.names
    assert "end" not in world.agent().names


def test_inactivity_ends_a_pending_trial_by_force() -> None:
    world = World(agents=1, clients=1, max_inactivity=5).run()
    world.clock.advance(5)
    assert world.environment.names[-2:] == ["end", "close"]
    assert not final_of(world).observations
    world.agent().events.ended()
    assert world.trial.state is State.ENDED


_SIGNS = ["rewards", "messages", "heartbeat", "join", "stream", "start", "environment"]


@pytest.mark.parametrize("what", _SIGNS)
def test_every_sign_of_life_counts_as_activity(what: str) -> None:
    world = World(agents=1, clients=2, max_inactivity=5)
    client = world.client("c0")
    other = world.orchestrator.client(world.trial.id, "c1")
    if what == "stream":
        other.join()
    world.clock.advance(4)
    trial_id = world.trial.id
    if what == "rewards":
        world.orchestrator.send(trial_id, "a0", rewards=[reward("a0", 1)])
    elif what == "messages":
        world.orchestrator.send(trial_id, "c0", messages=[message("a0", "x")])
    elif what == "heartbeat":
        world.orchestrator.heartbeat(trial_id, client.actor.name)
    elif what == "join":
        other.join()
    elif what == "stream":
        world.client("c1", join=False)
    elif what == "start":
        world.agent().events.started()
    else:
        world.environment.events.started(world.start_reply())
    world.clock.advance(4)
    assert world.trial.state is State.PENDING
    world.clock.advance(1)
    assert world.trial.state >= State.TERMINATING


def test_activity_of_one_trial_does_not_keep_another() -> None:
    world = World(max_inactivity=5).run()
    silent = world.trial
    world.start()
    world.run()
    for number in (1, 2, 3):
        world.clock.advance(2)
        world.act()
        world.step(number)
    assert "max_inactivity" in silent.end_reason
    assert world.trial.state is State.RUNNING


def test_max_inactivity_of_0_waits_forever() -> None:
    world = World().run()
    world.clock.advance(1e9)
    assert world.trial.state is State.RUNNING


# --- stopping --------------------------------------------------------------------------------


def test_trial_can_be_ended_in_every_state() -> None:
    world = World()
    world.orchestrator.terminate(world.trial.id)
    assert world.trial.state is State.TERMINATING
    assert "end" not in world.environment.names
    world.environment.events.started(EnvStartReply(observation_set=world.observations(0)))
    world.agent().events.started()
    ((_, request),) = world.environment.of("end")
    assert list(request.action_set.actions) == [b""]
    world.drain()
    assert world.seen() == [State.INITIALIZING, State.PENDING, *ENDING]


def test_stopping_ends_trials_softly_and_then_by_force() -> None:
    world = World().run()
    world.orchestrator.begin_stop()
    assert world.trial.end_reason == "the orchestrator stops"
    assert "end" not in world.agent().names
    world.orchestrator.force_stop()
    assert "end" in world.agent().names
    world.orchestrator.force_stop()
    assert world.trial.state is State.ENDED


@pytest.mark.parametrize(("settings", "seconds"), [(Settings(), 10), (Settings(retention=3), 3)])
def test_ended_trials_are_forgotten_and_leave_no_timer(settings: Settings, seconds: float) -> None:
    world = World(max_inactivity=100, settings=settings).run()
    world.orchestrator.terminate(world.trial.id)
    world.drain()
    assert world.clock.waiting == 1
    world.clock.advance(seconds - 0.1)
    assert [info.trial_id for info in world.orchestrator.info(None)] == [world.trial.id]
    world.clock.advance(0.1)
    assert world.orchestrator.info(None) == []
    with pytest.raises(NotFoundError):
        world.orchestrator.info(world.trial.id)
    assert world.clock.waiting == 0


def test_end_reason_is_logged(caplog: Any) -> None:
    world = World().run()
    with caplog.at_level(logging.INFO, "cogrs.orchestrator"):
        world.orchestrator.terminate(world.trial.id)
    (record,) = caplog.records
    assert record.getMessage() == f"trial {world.trial.id} ends: TerminateTrial was called"
    assert record.levelno == logging.INFO


def test_end_by_a_failure_is_logged_as_a_warning(caplog: Any) -> None:
    world = World().run()
    world.agent().events.failed("OnObservation", "UNAVAILABLE: gone")
    (record,) = caplog.records
    assert record.getMessage().endswith("OnObservation: UNAVAILABLE: gone")
    assert record.levelno == logging.WARNING
